"""Two logs that are to become equal: pumping runs, and comparing what lies in their files."""

import errno
from collections.abc import Callable
from typing import Any

from harness.log_world import (
    ALL,
    DIRECTORY,
    SMALL,
    Crashed,
    World,
    append,
    open_log,
    partition_number,
)
from penstock.base.ids import LeaderEpoch, Offset, Position
from penstock.base.ports import Disk
from penstock.frames.frames import FRAME_HEADER_BYTES, check_body, check_header
from penstock.frames.run import ColdRun, Run
from penstock.storage.commit_log.segments import list_segments
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import LogConfig
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.replicate.base_export import BaseExport
from tests.storage.faulty_disk import FaultyDisk

QUIET = LogConfig(segment_bytes=1 << 20, checkpoint_interval_bytes=1 << 30)


def open_member(world: World, disk: Disk, config: LogConfig = SMALL) -> SetLog:
    """Open the log of a member of several: it snapshots nothing that is not confirmed."""
    log = SetLog(
        disk=disk,
        directory=DIRECTORY,
        config=config,
        clock=world,
        offload=world,
        scheduler=world,
    )
    log.is_sole_member = False
    log.open(log.replay(lambda _done, _total: None))
    return log


def take_run(
    world: World, log: SetLog, position: int, max_bytes: int = 1 << 20, limit: int = ALL
) -> Run:
    """Read a run, off the loop if it has to be; raises what the read raises."""
    found = log.read_run(Position(position), max_bytes, Position(limit))
    if isinstance(found, Run):
        return found
    assert isinstance(found, ColdRun)
    answers: list[Any] = []
    found.load(lambda run, error: answers.append(error or run))
    world.run()
    (answer,) = answers
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, Run)
    return answer


def give_run(world: World, log: SetLog, run: Run, *, rounds: int = 50) -> None:
    """Append a run wholly, letting the log do what it has to do in between."""
    rest = run
    for _ in range(rounds):
        rest = rest.after(log.append_run(rest))
        if not rest.data:
            return
        world.run()
        while log.is_busy:
            world.run()
    raise AssertionError("the run was not taken")


def replicate(
    world: World,
    master: SetLog,
    slave: SetLog,
    *,
    max_bytes: int = 1 << 20,
    limit: int = ALL,
    runs: int = 1 << 30,
) -> None:
    """Copy runs until nothing is left, or as many as were asked for."""
    for _ in range(runs):
        run = take_run(world, master, slave.end_position, max_bytes, limit)
        if not run.data:
            return
        give_run(world, slave, run)


def frames_of(disk: FaultyDisk, log: SetLog) -> dict[int, bytes]:
    """Return every frame in the files, end markers too, by position. What is behind is left out."""
    log.writer.write_staged()
    found: dict[int, bytes] = {}
    for segment in list_segments(disk, log.directory):
        data = memoryview(bytes(disk.names[segment.path].data))
        at = 0
        while segment.end - segment.base - at >= FRAME_HEADER_BYTES:
            position = segment.base + at
            if position >= log.written_position:
                break
            header = check_header(data, at, position, segment.end - position)
            check_body(data, at, header)
            found[position] = bytes(data[at : at + header.frame_bytes])
            at += header.frame_bytes
            if header.kind == 4:
                break
    return found


def check_equal(one: tuple[FaultyDisk, SetLog], other: tuple[FaultyDisk, SetLog]) -> None:
    """Compare two logs byte for byte, from the higher start up to the lower end."""
    start = max(log.start_position for _, log in (one, other))
    end = min(log.end_position for _, log in (one, other))
    kept = [
        {p: f for p, f in frames_of(disk, log).items() if start <= p < end}
        for disk, log in (one, other)
    ]
    assert kept[0].keys() == kept[1].keys()
    for position, frame in kept[0].items():
        assert frame == kept[1][position], position


def settle(world: World, operation: Callable[..., None], *arguments: Any) -> Any:
    """Start an operation that ends with done(error) and let it end; raise the error."""
    answers: list[Any] = []
    operation(*arguments, answers.append)
    world.run()
    (answer,) = answers
    if isinstance(answer, Exception):
        raise answer
    return answer


def export_of(world: World, log: SetLog, **options: Any) -> BaseExport:
    answers: list[Any] = []
    log.export_base(lambda export, error: answers.append(error or export), **options)
    world.run()
    (answer,) = answers
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, BaseExport)
    return answer


def asked(world: World, operation: Callable[..., None], *arguments: Any) -> int:
    """Call what answers done(position, error); return the position, raise the error."""
    answers: list[Any] = []
    operation(*arguments, lambda position, error: answers.append(error or position))
    world.run()
    (answer,) = answers
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, int)
    return answer


def fetch(world: World, export: BaseExport, position: int, max_bytes: int) -> memoryview:
    """Read raw bytes of an export; raises what it answers."""
    answers: list[Any] = []
    export.read(position, max_bytes, lambda data, error: answers.append(error or data))
    world.run()
    (answer,) = answers
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, memoryview)
    return answer


def copy_until(
    worlds: tuple[World, World], export: BaseExport, slave: SetLog, end: int, *, chunk: int = 20_000
) -> int:
    """Copy what an export offers up to `end` or a little further; return the next position."""
    position = asked(worlds[1], slave.begin_install, export.manifest)
    while position < end:
        data = fetch(worlds[0], export, position, chunk)
        position = asked(worlds[1], slave.install, position, data)
    return position


def copy_base(world: World, export: BaseExport, slave: SetLog, *, chunk: int = 20_000) -> None:
    """Copy everything an export offers, and swap it in."""
    copy_until((world, world), export, slave, export.manifest.end_place, chunk=chunk)
    settle(world, slave.finish_install)


def member(batches=0, *, size=700, disk=None, records=1):
    """A member's log with batches; nothing but its empty start is confirmed."""
    world, disk = World(), disk or FaultyDisk()
    log = open_member(world, disk)
    log.begin_epoch(LeaderEpoch(1))
    partition = log.open_partition(partition_number(0))
    for number in range(batches):
        append(log, partition, size=size, fill=number, records=records)
        world.run()
    world.run()
    return world, disk, log, partition


def reopened(disk):
    world = World()
    log = open_member(world, disk)
    return world, log, log.open_partition(partition_number(0))


def copy_of(disk):
    """Return another disk with the same durable content."""
    twin = FaultyDisk()
    for directory in disk.files.directories:
        twin.make_directory(directory)
    for name, node in disk.names.items():
        twin.replace(name, bytes(node.data))
    return twin


def crashes(operation, state):
    """Crash `operation` at each operation of its disk, one further every time; yield after each.

    The operation puts its disk into `state` and arms it with `state["hook"]` where crashes may
    begin. The last time, without a crash, ends the series; `state["steps"]` says how many came.
    """
    step = 0
    while True:
        left = step

        def count(_operation, _path):
            nonlocal left
            left -= 1
            if left < 0:
                raise Crashed

        state["hook"] = count
        try:
            operation()
        except Crashed:
            state["disk"].on_operation = None
            yield step
            step += 1
            state["steps"] = step
            continue
        state["disk"].on_operation = None
        return


def fill_segment(world: World, log: SetLog, partition: PartitionLog, left: int) -> bool:
    """Append until the active segment has `left` bytes, without a turn; False without room."""
    world.run()
    deletes = 48  # more bytes than batches leave free
    end = take_run(world, log, log.end_position).file_end - left - deletes * 56
    while (rest := end - log.end_position - FRAME_HEADER_BYTES) > 8000:
        append(log, partition, size=5000, records=deletes)
        world.run()
    if rest < 61:
        return False
    append(log, partition, size=rest, records=deletes)
    for _ in range(deletes):
        log.delete_records(partition, Offset(partition.log_start_offset + 1))
    log.writer.write_staged()
    assert log.end_position == end + deletes * 56
    return True


class Pair:
    """A master and a slave, each on a disk of its own, in one world."""

    def __init__(self, config=SMALL, slave_config=None):
        self.world = World()
        self.master_disk, self.slave_disk = FaultyDisk(), FaultyDisk()
        self.master = open_log(self.world, self.master_disk, config)
        self.slave = open_member(self.world, self.slave_disk, slave_config or config)
        self.partition = self.master.open_partition(partition_number(0))

    def append(self, count=1, partition=None, **batch):
        for _ in range(count):
            append(self.master, partition or self.partition, **batch)
            self.world.run()

    def replicate(self, **how):
        replicate(self.world, self.master, self.slave, **how)

    def check(self):
        check_equal((self.master_disk, self.master), (self.slave_disk, self.slave))

    def slave_partition(self, number=0):
        return self.slave.open_partition(partition_number(number))


def pair_with_a_shorter_segment():
    """A pair whose slave is 5 batches behind; its master's disk was full, and a segment shorter."""
    pair = Pair()
    pair.append(40, size=500)
    pair.replicate()
    pair.append(5, size=500)
    pair.world.run()
    pair.master_disk.fail("allocate", ".log", errno.ENOSPC)
    pair.master = open_log(pair.world, pair.master_disk)
    pair.partition = pair.master.open_partition(partition_number(0))
    pair.world.run()
    return pair
