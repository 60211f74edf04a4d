"""Readys that wait while the disk is busy share one write, and it holds what they end with."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from harness.first_start import first_start
from penstock.base.ids import PeerId
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.ready import HardState, Ready
from penstock.runtime.raft.disk_queue import GROUP_READYS_MAX, DiskEvents, DiskQueue
from penstock.runtime.raft.storage import RaftStorage
from tests.runtime.crash_disk import StepLoop
from tests.runtime.raft_harness import ReservingDisk

MEMBERS = Configuration.of({PeerId(1): "one:9093", PeerId(2): "two:9093"})


class Owner:
    def __init__(self) -> None:
        self.failures: list[Exception] = []

    def events(self) -> DiskEvents:
        """The test looks itself how far the disk is."""
        return DiskEvents(lambda: None, self.failures.append, self.failures.append)


def ready(sequence: int, entries: list[Entry], term: int) -> Ready:
    return Ready(
        sequence=sequence,
        messages=(),
        snapshot=None,
        entries=tuple(entries),
        hard_state=HardState(term=Term(term), voted_for=PeerId(1)),
        must_sync=True,
        messages_persisted=(),
        committed=(),
        reads=(),
        leadership=None,
    )


def written(groups: list[list[Entry]]) -> list[tuple[int, int]]:
    """Hand the groups to a busy queue as Readys; return what a crash leaves: (index, term)."""
    disk, loop, owner = ReservingDisk(), StepLoop(), Owner()
    storage = RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(MEMBERS))
    queue = DiskQueue(storage, loop, loop, owner.events())
    for sequence, entries in enumerate(groups):
        queue.put(ready(sequence, entries, term=sequence + 1))
    queue.pump()
    loop.run()
    taken = [queue.take() for _ in groups]
    assert [one and one.sequence for one in taken] == list(range(len(groups)))
    assert owner.failures == []
    disk.crash()
    found = RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(MEMBERS)).found
    assert found.state.term == len(groups)
    return [(entry.index, entry.term) for entry in found.entries]


def test_what_a_later_leader_replaced_is_not_in_the_write_that_both_share() -> None:
    first = [Entry(index=RaftIndex(at), term=Term(1), payload=b"old") for at in (1, 2, 3)]
    second = [Entry(index=RaftIndex(2), term=Term(2), payload=b"new")]
    third = [Entry(index=RaftIndex(at), term=Term(3), payload=b"newest") for at in (3, 4)]
    assert written([first, second, third]) == [(1, 1), (2, 2), (3, 3), (4, 3)]


def test_what_waits_behind_readys_that_are_durable_shares_one_write() -> None:
    disk, loop, owner = ReservingDisk(), StepLoop(), Owner()
    storage = RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(MEMBERS))
    queue = DiskQueue(storage, loop, loop, owner.events())
    for sequence in range(3 + GROUP_READYS_MAX):
        entries = [Entry(index=RaftIndex(sequence + 1), term=Term(1), payload=b"x")]
        queue.put(ready(sequence, entries, term=1))
        if sequence == 2:
            queue.pump()
            loop.run()  # three are durable, and nobody has taken them
    queue.pump()
    loop.run()
    taken = [queue.take() for _ in range(3 + GROUP_READYS_MAX)]
    assert [one and one.sequence for one in taken] == list(range(3 + GROUP_READYS_MAX))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6))
def test_a_shared_write_is_what_a_plain_list_would_be(groups: list[tuple[int, int]]) -> None:
    kept: list[Entry] = []
    readys: list[list[Entry]] = []
    for term, (cut, count) in enumerate(groups, start=1):
        first = max(0, len(kept) - cut)
        added = [
            Entry(index=RaftIndex(first + at), term=Term(term), payload=b"x")
            for at in range(1, count + 1)
        ]
        if added:
            kept = [*kept[:first], *added]
        readys.append(added)
    assert written(readys) == [(one.index, one.term) for one in kept]


def test_entries_that_bring_no_hard_state_are_written_with_that_of_the_write_before() -> None:
    disk, loop = ReservingDisk(), StepLoop()
    storage = RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(MEMBERS))
    queue = DiskQueue(storage, loop, loop, Owner().events())
    voted = ready(0, [Entry(index=RaftIndex(1), term=Term(7), payload=b"first")], term=7)
    plain = replace(
        ready(1, [Entry(index=RaftIndex(2), term=Term(7), payload=b"x")], term=7), hard_state=None
    )
    for one in (voted, plain):
        queue.put(one)
        queue.pump()
        loop.run()
        assert queue.take() is one
    disk.crash()
    found = RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(MEMBERS)).found
    assert (found.state.term, found.state.voted_for) == (7, 1)
    assert [entry.index for entry in found.entries] == [1, 2]


def test_a_vote_that_comes_without_entries_is_taken_once_it_is_durable() -> None:
    # What is taken is answered: a vote that a crash takes back could be given to another one, too.
    disk, loop = ReservingDisk(), StepLoop()
    storage = RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(MEMBERS))
    queue = DiskQueue(storage, loop, loop, Owner().events())
    vote = ready(0, [], term=7)
    queue.put(vote)
    assert queue.take() is None, "the write has not begun"
    queue.pump()
    assert queue.take() is None, "nor has it ended"
    loop.run()
    assert queue.take() is vote
    disk.crash()
    found = RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(MEMBERS)).found
    assert (found.state.term, found.state.voted_for) == (7, 1)
