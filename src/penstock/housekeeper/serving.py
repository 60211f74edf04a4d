"""The housekeeper's side of the pipe: one job after the other until the pipe ends.

Source: docs/adr/0104; node/housekeeper/process.py gives it a real pipe and real disks.
"""

from collections.abc import Callable

from penstock.base.ports import Disk
from penstock.housekeeper.jobs import run_job
from penstock.housekeeper.messages import Read, decode_job, encode_answer, read_frame


def serve(read: Read, write: Callable[[bytes], object], disk_of: Callable[[str], Disk]) -> None:
    """Do jobs and answer them; return when the node has closed the pipe. Waits.

    `disk_of` returns the disk of a data directory. Raises BadMessage; OSError of the pipe.
    """
    while (body := read_frame(read)) is not None:
        number, job = decode_job(body)
        write(encode_answer(number, run_job(disk_of(job.root), job)))
