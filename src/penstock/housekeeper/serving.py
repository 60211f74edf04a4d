"""The housekeeper's side of the pipe: one job after the other until the pipe ends.

    pipe ─► receive ─► a rate: counts at once
                └─► a job ─► serve ─► answer

A rate has to be heard while a job is under way, so whoever runs the two lets `receive` go ahead.

Source: docs/adr/0104; node/housekeeper/process.py gives it a real pipe and real disks.
"""

from collections.abc import Callable, Iterable, Iterator

from penstock.base.ports import Disk
from penstock.housekeeper.jobs import run_job
from penstock.housekeeper.messages import (
    Job,
    Read,
    decode_job,
    decode_rate,
    encode_answer,
    read_frame,
)


def receive(read: Read, set_rate: Callable[[int], None]) -> Iterator[tuple[int, Job]]:
    """Yield number and job of each message until the node closes the pipe; tell rates. Waits.

    Raises BadMessage; OSError of the pipe.
    """
    while (body := read_frame(read)) is not None:
        bytes_per_second = decode_rate(body)
        if bytes_per_second is None:
            yield decode_job(body)
        else:
            set_rate(bytes_per_second)


def serve(
    jobs: Iterable[tuple[int, Job]],
    write: Callable[[bytes], object],
    disk_of: Callable[[str], Disk],
) -> None:
    """Do jobs and answer them; return at their end. Waits.

    `disk_of` returns the disk of a data directory. Raises what `jobs` raise; OSError of the pipe.
    """
    for number, job in jobs:
        write(encode_answer(number, run_job(disk_of(job.root), job)))
