"""Doing a split job: the file, or why there is none; and nothing else is written."""

import io
from typing import Any

import pytest

from harness.log_world import DIRECTORY, World, open_log
from penstock.extents.check import check_extent_file
from penstock.housekeeper.jobs import run_job
from penstock.housekeeper.messages import (
    Failed,
    Made,
    SplitJob,
    decode_answer,
    encode_job,
    encode_rate,
    read_frame,
)
from penstock.housekeeper.metered import MeteredDisk
from penstock.housekeeper.serving import receive, serve
from penstock.storage.commit_log.segments import index_path
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.second_level import closed_segments
from tests.storage.test_stores import KEY, OTHER, fill

NAME = f"{DIRECTORY}/second/token-1.tmp"


class Logged:
    """A log with closed segments, and the disk as the housekeeper has it."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.world = World()
        self.log = open_log(self.world, self.disk)
        fill(self.world, self.log)
        self.segments = closed_segments(self.log)
        self.moved: list[int] = []
        self.metered = MeteredDisk(self.disk, self.moved.append)

    def job(self, **changes: Any) -> SplitJob:
        bases = tuple(segment.base for segment in self.segments)
        wanted = ((KEY, 0), (OTHER, 0))
        job = SplitJob("/data", DIRECTORY, NAME, bytes(16), 1, 0, 100_000, bases, wanted)
        return job._replace(**changes)

    def names(self) -> dict[str, list[str]]:
        return {part: self.disk.list(f"{DIRECTORY}/{part}") for part in ("log", "index", "second")}


@pytest.fixture
def logged() -> Logged:
    return Logged()


def test_a_job_makes_a_whole_durable_file(logged: Logged) -> None:
    answer = run_job(logged.metered, logged.job())
    assert isinstance(answer, Made)
    # Its name is for the node to make durable; its bytes are.
    logged.disk.rename(NAME, "set-1/second/0.extents")
    logged.disk.power_loss()
    file = logged.disk.open("set-1/second/0.extents")
    directory = check_extent_file("0", file.size(), file.read)
    assert answer == Made(2, sum(entry.batch_bytes for entry in directory.entries))
    assert sum(logged.moved) > 2 * answer.batch_bytes, "reads and writes are both counted"


def test_what_is_counted_is_what_came_and_not_what_was_asked_for(logged: Logged) -> None:
    file = logged.metered.open(NAME, create=True)
    assert file.write(0, [b"abcd", b"ef"]) == 6
    assert bytes(file.read(2, 1 << 20)) == b"cdef"
    assert bytes(file.read(6, 1 << 20)) == b""
    assert logged.moved == [6, 4, 0]


def test_a_job_of_which_nothing_is_left_makes_no_file(logged: Logged) -> None:
    assert run_job(logged.metered, logged.job(wanted=((KEY, 1 << 50),))) == Made(0, 0)
    assert logged.names()["second"] == []


def test_damage_of_the_log_is_told_with_its_place(logged: Logged) -> None:
    segment = logged.segments[1]
    logged.disk.open(segment.path).write(5_000, [b"\x07\x07\x07"])
    answer = run_job(logged.metered, logged.job())
    assert isinstance(answer, Failed)
    assert segment.base <= answer.damage_position <= segment.base + 5_000
    assert logged.names()["second"] == []


def test_a_job_leaves_the_reserve(logged: Logged) -> None:
    reserve = logged.disk.free_bytes() - 99_999
    answer = run_job(logged.metered, logged.job(reserve_bytes=reserve))
    assert isinstance(answer, Failed)
    assert "log.reserve_bytes" in answer.reason
    assert isinstance(run_job(logged.metered, logged.job(reserve_bytes=reserve - 1)), Made)


def test_a_disk_that_fails_is_an_answer_and_leaves_nothing(logged: Logged) -> None:
    def refuse(operation: str, path: str) -> None:
        if path == NAME and operation == "write":
            raise OSError(5, "no")

    logged.disk.on_operation = refuse
    assert isinstance(run_job(logged.metered, logged.job()), Failed)
    logged.disk.on_operation = None
    assert logged.names()["second"] == []


def test_a_segment_that_was_deleted_meanwhile_is_an_answer(logged: Logged) -> None:
    logged.disk.remove(logged.segments[1].path)
    answer = run_job(logged.metered, logged.job())
    assert isinstance(answer, Failed)
    assert answer.damage_position == -1
    assert logged.names()["second"] == []


def test_a_job_writes_no_index_in_the_place_of_the_node(logged: Logged) -> None:
    logged.disk.remove(index_path(DIRECTORY, logged.segments[0].base))
    before = logged.names()
    assert isinstance(run_job(logged.metered, logged.job()), Made)
    assert logged.names() == before | {"second": [NAME.rpartition("/")[2]]}


def test_jobs_are_served_in_order_until_the_pipe_ends(logged: Logged) -> None:
    jobs = [logged.job(), logged.job(bases=(12,)), logged.job(wanted=())]
    frames = [encode_job(number, job) for number, job in enumerate(jobs)]
    asked = io.BytesIO(b"".join([encode_rate(5), frames[0], encode_rate(0), *frames[1:]]))
    told = io.BytesIO()
    roots: list[str] = []
    rates: list[int] = []

    def disk_of(root: str) -> MeteredDisk:
        roots.append(root)
        return logged.metered

    serve(receive(asked.read, rates.append), told.write, disk_of)
    told.seek(0)
    answers = []
    while (body := read_frame(told.read)) is not None:
        answers.append(decode_answer(body))
    assert [number for number, _ in answers] == [0, 1, 2]
    assert [type(answer) for _, answer in answers] == [Made, Failed, Made]
    assert roots == ["/data"] * 3
    assert rates == [5, 0]
