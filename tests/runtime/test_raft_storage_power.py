"""The files of a Raft member when the power fails between any two operations of the disk.

What was durable is there, what was being written is there or not, and nothing else is.
"""

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from harness.first_start import first_start
from penstock.base.ids import PeerId
from penstock.controller.errors import MetadataLogFenced
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.ready import HardState, Snapshot
from penstock.runtime.raft.end_mark import EndMark
from penstock.runtime.raft.storage import RaftStorage
from simulator.kernel.disk import SimDisk

MEMBERS = Configuration.of({PeerId(1): "one:9093", PeerId(2): "two:9093"})


@dataclass(frozen=True, kw_only=True)
class View:
    """What a member knows."""

    term: int = 0
    vote: int = -1
    snapshot_index: int = 0
    entries: tuple[tuple[int, int, bytes], ...] = ()

    @property
    def last_index(self) -> int:
        return self.entries[-1][0] if self.entries else self.snapshot_index


def view_of(storage: RaftStorage) -> View:
    found = storage.found
    return View(
        term=found.state.term,
        vote=found.state.voted_for,
        snapshot_index=found.snapshot.index,
        entries=tuple((entry.index, entry.term, entry.payload) for entry in found.entries),
    )


def behind(
    entries: Sequence[tuple[int, int, bytes]], index: int
) -> tuple[tuple[int, int, bytes], ...]:
    return tuple(entry for entry in entries if entry[0] > index)


@dataclass
class Member:
    """One member's files, with what they must and what they may hold."""

    random: Random
    disk: SimDisk = field(init=False)
    known: View = field(default_factory=View)
    may: list[View] = field(default_factory=list)
    is_cut: bool = False

    def __post_init__(self) -> None:
        self.disk = SimDisk(self.random)

    def open(self) -> RaftStorage:
        return RaftStorage(self.disk, "metadata", own_id=PeerId(1), first=first_start(MEMBERS))

    def lose_power(self) -> None:
        self.is_cut = False
        self.disk.power_loss()
        found = view_of(self.open())
        assert found in (self.known, *self.may)
        self.known, self.may = found, []

    def arm(self) -> None:
        def cut() -> None:
            self.is_cut = True

        self.disk.cut_after(self.random.randrange(40), cut)

    def run(self, storage: RaftStorage) -> None:
        """Work until the power is cut, and a little more, which must not count."""
        for _ in range(200):
            step = self.random.choice((self.write, self.write, self.write, self.compact))
            if self.random.random() < 0.1:
                step = self.install
            step(storage)
            if self.is_cut:
                return
            self.known, self.may = self.may[-1], []
        raise AssertionError("the power was not cut")

    def entries_from(self, first: int, term: int) -> list[Entry]:
        count = self.random.randint(0, 4)
        return [
            Entry(
                index=RaftIndex(first + at),
                term=Term(term),
                payload=self.random.randbytes(self.random.choice((3, 200, 3000))),
            )
            for at in range(count)
        ]

    def write(self, storage: RaftStorage) -> None:
        known = self.known
        term = known.term + self.random.choice((0, 0, 1))
        first = self.random.randint(
            max(known.snapshot_index, known.last_index - 3) + 1, known.last_index + 1
        )
        entries = self.entries_from(first, term)
        kept = known.entries if not entries else tuple(e for e in known.entries if e[0] < first)
        new = tuple((entry.index, entry.term, entry.payload) for entry in entries)
        vote = self.random.randint(1, 2)
        self.may = [replace(known, term=term, vote=vote, entries=kept + new)]
        storage.reserve(sum(len(entry.payload) + 100 for entry in entries))
        storage.write(
            HardState(term=Term(term), voted_for=PeerId(vote), commit_index=RaftIndex(0)), entries
        )

    def compact(self, storage: RaftStorage) -> None:
        known = self.known
        if not known.entries:
            self.may = [known]
            return
        index, term, _ = self.random.choice(known.entries)
        self.may = [
            replace(known, snapshot_index=index, entries=behind(known.entries, index)),
        ]
        storage.compact(
            Snapshot(
                index=RaftIndex(index), term=Term(term), configuration=MEMBERS, data=b"s" * 900
            )
        )

    def install(self, storage: RaftStorage) -> None:
        known = self.known
        index, term = known.last_index + self.random.randint(1, 5), known.term + 1
        entries = self.entries_from(index + 1, term)
        new = tuple((entry.index, entry.term, entry.payload) for entry in entries)
        empty = replace(known, snapshot_index=index, entries=())
        after = replace(empty, term=term, vote=2, entries=new)
        self.may = [empty, replace(empty, term=term, vote=-1), after]
        snapshot = Snapshot(
            index=RaftIndex(index), term=Term(term), configuration=MEMBERS, data=b"s" * 2000
        )
        storage.install(snapshot, HardState(term=Term(term), voted_for=PeerId(2)), entries)


@pytest.mark.parametrize("term", [1, 5])
def test_an_install_that_a_crash_broke_off_is_finished_by_the_next_start(term: int) -> None:
    """What is written behind the snapshot must not follow entries that it did not come from."""
    member = Member(Random(0))
    storage = member.open()
    storage.write(
        HardState(term=Term(1), voted_for=PeerId(1)),
        [Entry(index=RaftIndex(n), term=Term(1)) for n in (1, 2, 3)],
    )
    # The snapshot's rename is durable and the new log is not there yet.
    member.disk.fail("create", "raft.log", errno.EIO)
    snapshot = Snapshot(index=RaftIndex(3 * term), term=Term(5), configuration=MEMBERS, data=b"s")
    with pytest.raises(MetadataLogFenced, match="injected"):
        storage.install(snapshot, HardState(term=Term(5), voted_for=PeerId(2)), [])
    member.disk.power_loss()
    storage = member.open()
    assert view_of(storage) == View(term=5, snapshot_index=3 * term)
    following = Entry(index=RaftIndex(3 * term + 1), term=Term(6))
    storage.write(HardState(term=Term(6), voted_for=PeerId(2)), [following])
    member.disk.power_loss()
    found = member.open().found
    assert found.entries == [following]
    assert (found.state.term, found.state.voted_for) == (6, 2)


@pytest.mark.parametrize("block", range(4))
def test_a_member_keeps_what_was_durable_wherever_the_power_fails(block: int) -> None:
    for seed in range(block * 15, (block + 1) * 15):
        member = Member(Random(seed))
        for _ in range(8):
            member.arm()
            storage = member.open()
            if member.is_cut:
                member.may.append(member.known)
            else:
                member.run(storage)
            member.lose_power()


@pytest.mark.parametrize("seed", range(12))
def test_what_a_start_found_behind_a_failed_sync_is_durable_before_it_counts(seed: int) -> None:
    """A member that answers with entries must have them: no later sync alone would write them."""
    member = Member(Random(seed))
    storage = member.open()
    storage.write(
        HardState(term=Term(1), voted_for=PeerId(1)), [Entry(index=RaftIndex(1), term=Term(1))]
    )
    member.disk.fail("sync", "raft.log", errno.EIO)
    with pytest.raises(MetadataLogFenced):
        storage.write(
            HardState(term=Term(2), voted_for=PeerId(2)),
            [Entry(index=RaftIndex(2), term=Term(2), payload=b"x" * 3000)],
        )
    member.disk.kill()
    found = view_of(member.open())
    member.disk.power_loss()
    assert view_of(member.open()) == found
    assert found.entries[0] == (1, 1, b"")


def test_entries_that_a_kill_left_in_the_page_cache_are_durable_after_the_next_start() -> None:
    member = Member(Random(0))
    storage = member.open()
    member.disk.is_lying = True  # a stand-in for a process that is killed before its sync
    storage.write(
        HardState(term=Term(2), voted_for=PeerId(2)), [Entry(index=RaftIndex(1), term=Term(2))]
    )
    member.disk.is_lying = False
    EndMark(member.disk, "metadata/raft.end").write(0)
    member.disk.kill()
    found = view_of(member.open())
    assert found.entries == ((1, 2, b""),)
    member.disk.power_loss()
    assert view_of(member.open()) == found


class Killed(BaseException):
    """The process ends here; nothing may catch it."""


@pytest.mark.parametrize("seed", range(12))
def test_a_log_that_was_rewritten_as_its_process_was_killed_keeps_what_the_next_one_writes(
    seed: int,
) -> None:
    """The new file has its name in the page cache only: the old one would come back."""
    disk = SimDisk(Random(seed))
    storage = RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(MEMBERS))
    entries = [Entry(index=RaftIndex(at), term=Term(1), payload=b"x") for at in (1, 2, 3)]
    storage.write(HardState(term=Term(1), voted_for=PeerId(1)), entries)

    before = ""

    def kill(operation: str, path: str) -> None:
        nonlocal before
        if before == "rename metadata/raft.log.new":
            raise Killed
        before = f"{operation} {path}"

    disk.on_operation = kill
    with pytest.raises(Killed):
        storage.compact(
            Snapshot(index=RaftIndex(2), term=Term(1), configuration=MEMBERS, data=b"state")
        )
    disk.on_operation = None
    disk.kill()
    second = RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(MEMBERS))
    second.write(
        HardState(term=Term(2), voted_for=PeerId(2)),
        [Entry(index=RaftIndex(4), term=Term(2), payload=b"y")],
    )
    disk.power_loss(Random(seed))
    third = RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(MEMBERS))
    assert third.found.state.voted_for == 2
    assert [entry.index for entry in third.found.entries][-1] == 4
