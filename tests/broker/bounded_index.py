"""An index of messages over a log that is made up: its positions are the test's."""

from functools import partial
from types import SimpleNamespace
from typing import Any

from harness.log_world import World
from penstock.base.ids import Position, TopicId, TopicPartition
from penstock.broker.finding.files import IndexFiles
from penstock.broker.finding.key_index import KeyIndex
from penstock.finding.piece import Gathered, Piece
from penstock.finding.table import Table, encode
from penstock.frames.run import ColdRun, Run
from penstock.remoting.finding.naming import NAMING
from penstock.replica.replica_set import Role
from penstock.storage.errors import NoFrameBegins
from penstock.storage.second_level.manifest import Reach
from tests.storage.faulty_disk import FaultyDisk

BYTES_MAX = 1 << 30
DIRECTORY = "set-0"
EPOCHS = [(3, 0)]
TOPIC = TopicId(bytes(15) + b"\1")


class Log:
    """Of a member: what an index asks of it. Runs have no frames, as if all were internal."""

    def __init__(self, start: int = 0, end: int = 0) -> None:
        self.start_position, self.end_position = start, end
        self.kept_from: int | None = None
        """None: nothing is kept but what it has itself."""
        self.epochs = list(EPOCHS)
        self.is_busy = False
        self.world = World()
        self.place = SimpleNamespace(
            disk=FaultyDisk(),
            directory=DIRECTORY,
            offload=self.world,
            clock=self.world,
            scheduler=self.world,
        )
        self.asked: list[int] = []
        self.run_bytes = 100
        self.frames_from = 0
        """Below it no frame begins."""

    @property
    def reach(self) -> Reach:
        """How far back records are kept."""
        kept_from = self.start_position if self.kept_from is None else self.kept_from
        return Reach(Position(kept_from), Position(0))

    def read_run(self, position: int, max_bytes: int, limit: int) -> Run | ColdRun:
        del max_bytes
        self.asked.append(position)
        if position < self.frames_from:
            raise NoFrameBegins(Position(position))
        end = min(position + self.run_bytes, limit)
        return Run(
            self.epochs[-1][0],  # type: ignore[arg-type]
            Position(position),
            Position(0),
            Position(1 << 40),
            memoryview(b""),
            Position(end),
        )


def member_of(log: Log, set_id: int = 0) -> Any:
    """Return what an index asks of a member."""
    return SimpleNamespace(
        log=log,
        confirm_position=log.end_position,
        replica_set_id=set_id,
        role=Role.SLAVE,
        is_master=True,
        on_reopened=[],
    )


class Bounded:
    """An index over such a log."""

    def __init__(self, log: Log, bytes_max: int = BYTES_MAX) -> None:
        self.log = log
        self.member = member_of(log)
        self.gone: set[tuple[int, int]] = set()
        """(partition, offset) up to which there is nothing any more."""
        self.index = KeyIndex(self.member, NAMING, lambda _: None, self._is_gone, bytes_max)

    def _is_gone(self, partition: TopicPartition, last: int) -> bool:
        return (partition.partition, last) in self.gone

    def step(self) -> bool:
        is_begun = self.index.begin(lambda: None)
        self.log.world.run()
        return is_begun

    def opened(self) -> "Bounded":
        assert self.step()
        assert self.index.newest is not None
        return self

    def settle(self, steps: int = 200) -> None:
        while self.step():
            steps -= 1
            assert steps, "it never ends"

    def tables(self) -> list[tuple[int, int]]:
        return [(one.first, one.end) for one in self.index.tables]

    def reopen(self) -> None:
        for told in self.member.on_reopened:
            told(self.member)


def piece(first: int, end: int, *, epoch: int = 3, rows: int = 1, names: int = 1) -> Piece:
    made = Piece(first, epoch)
    gathered = Gathered(made)
    for row in range(rows):
        where = TopicPartition(TOPIC, row)
        gathered.add(where, first + row, [b"name-%d" % one for one in range(names)])
    made.add(gathered, end, epoch)
    return made


def stored(log: Log, *pieces: Piece) -> list[Table]:
    """Have tables of these pieces on the log's disk."""
    files, found = IndexFiles(log.place.disk, DIRECTORY, log.world), list[Table]()
    for one in pieces:
        files.write(partial(encode, one), lambda table, _: found.append(table) if table else None)
        log.world.run()
    return found
