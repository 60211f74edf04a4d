"""The log in memory against a twin that is a plain list of everything."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.errors import CorruptRaftState
from penstock.raft.ids import NO_TERM, RaftIndex, Term
from penstock.raft.log import RaftLog
from penstock.raft.ready import Snapshot
from tests.raft.group import voters
from tests.raft.single import entries, entry

EMPTY = Snapshot(configuration=voters(1))


def configuration_entry(index: int, term: int, configuration: Configuration) -> Entry:
    return Entry(
        index=RaftIndex(index),
        term=Term(term),
        kind=EntryKind.CONFIGURATION,
        payload=configuration.encode(),
    )


class Twin:
    """Every entry that is in the log, none forgotten, and the writes as whole copies."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.disk: list[Entry] = []
        self.writes: list[list[Entry]] = []
        self.commit_index = 0

    @property
    def stable_index(self) -> int:
        """How far disk and log are equal."""
        pairs = zip(self.entries, self.disk, strict=False)
        return next((i for i, (a, b) in enumerate(pairs) if a is not b), self._shorter)

    @property
    def _shorter(self) -> int:
        return min(len(self.entries), len(self.disk))

    def merge(self, new: tuple[Entry, ...]) -> None:
        for one in new:
            at = one.index - 1
            if at < len(self.entries) and self.entries[at].term == one.term:
                continue
            self.entries[at:] = [one]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_log_is_what_a_plain_list_would_be(data: st.DataObject) -> None:
    log, twin, term = RaftLog(EMPTY, (), RaftIndex(0)), Twin(), 1
    for _ in range(data.draw(st.integers(1, 25))):
        action = data.draw(
            st.sampled_from(["merge", "write", "sync", "commit", "apply", "compact"])
        )
        if action == "merge":
            term += data.draw(st.integers(0, 1))
            previous = data.draw(st.integers(twin.commit_index, len(twin.entries)))
            new = entries([term] * data.draw(st.integers(0, 4)), previous + 1)
            log.merge(new)
            twin.merge(new)
        elif action == "write":
            new = log.take_unwritten()
            log.note_write_begun()
            twin.writes.append(list(twin.entries))
        elif action == "sync" and twin.writes:
            log.note_write_done()
            twin.disk = twin.writes.pop(0)
        elif action == "commit":
            index = data.draw(st.integers(twin.commit_index, len(twin.entries)))
            assert log.commit_to(RaftIndex(index)) is (index > twin.commit_index)
            twin.commit_index = index
        elif action == "apply":
            given_out = log.take_committed(1 << 20)
            assert list(given_out) == twin.entries[log.applied_index :][: len(given_out)]
            end = min(twin.commit_index, log.stable_index)
            assert log.applied_index + len(given_out) == max(end, log.applied_index)
            if given_out:
                log.note_applied(given_out[-1].index)
        elif action == "compact" and log.applied_index > log.snapshot.index:
            index = RaftIndex(data.draw(st.integers(log.snapshot.index + 1, log.applied_index)))
            snapshot = Snapshot(
                index=index,
                term=log.term(index) or NO_TERM,
                configuration=log.configurations.latest,
            )
            log.compact(snapshot, data.draw(st.integers(0, 200)))
        _compare(log, twin)


def _compare(log: RaftLog, twin: Twin) -> None:
    assert log.last_index == len(twin.entries)
    assert log.commit_index == twin.commit_index
    # Never more than the disk really has; the twin may see that a rewritten entry is the same.
    assert log.stable_index <= twin.stable_index
    for index in range(log.first_index, log.last_index + 1):
        assert log.term(RaftIndex(index)) == twin.entries[index - 1].term
    kept = log.entries_from(log.first_index, 1 << 20) if log.last_index >= log.first_index else ()
    assert list(kept) == twin.entries[log.first_index - 1 :]


def test_a_write_under_way_does_not_make_its_replacement_durable() -> None:
    log = RaftLog(EMPTY, (), RaftIndex(0))
    log.append(entries([1, 1, 1]))
    assert len(log.take_unwritten()) == 3
    log.note_write_begun()
    log.merge(entries([2], 2))
    log.note_write_done()
    assert log.stable_index == 1
    assert [e.term for e in log.take_unwritten()] == [2]
    log.note_write_begun()
    log.note_write_done()
    assert log.stable_index == 2


def test_an_installed_snapshot_replaces_everything_and_counts_once_it_is_durable() -> None:
    log = RaftLog(EMPTY, entries([1, 1, 1]), RaftIndex(2))
    snapshot = Snapshot(index=RaftIndex(9), term=Term(4), configuration=voters(1, 2))
    log.install(snapshot)
    assert (log.first_index, log.last_index, log.last_term, log.commit_index) == (10, 9, 4, 9)
    assert log.configurations.latest == voters(1, 2)
    assert log.take_snapshot() == snapshot
    assert log.take_snapshot() is None
    assert log.take_committed(1000) == ()
    log.note_write_begun()
    assert log.stable_index == 2
    log.note_write_done()
    assert log.stable_index == 9


def test_a_compacted_log_still_knows_the_configuration_of_what_it_keeps() -> None:
    log = RaftLog(EMPTY, (), RaftIndex(0))
    log.append([entry(1, 1), entry(2, 1), configuration_entry(3, 1, voters(1, 2))])
    log.take_unwritten()
    log.note_write_begun()
    log.note_write_done()
    log.commit_to(RaftIndex(2))
    log.take_committed(1 << 20)
    log.note_applied(RaftIndex(2))
    log.compact(Snapshot(index=RaftIndex(2), term=Term(1), configuration=voters(1)), keep_bytes=0)
    log.merge(entries([2], 3))
    assert log.configurations.latest == voters(1)


def test_the_configuration_of_any_index_is_known_and_goes_with_its_entry() -> None:
    log = RaftLog(EMPTY, (), RaftIndex(0))
    log.append([entry(1, 1), configuration_entry(2, 1, voters(1, 2)), entry(3, 1)])
    log.append([configuration_entry(4, 1, voters(1, 2, 3))])
    history = log.configurations
    assert [history.at(RaftIndex(i)) for i in (1, 2, 3, 4)] == [
        voters(1), voters(1, 2), voters(1, 2), voters(1, 2, 3),
    ]  # fmt: skip
    log.merge(entries([2], 3))
    assert history.latest == voters(1, 2)
    assert history.latest_index == 2


@pytest.mark.parametrize(
    ("snapshot", "kept", "commit_index", "message"),
    [
        (EMPTY, entries([1, 1], 2), 0, "gap"),
        (EMPTY, (entry(1, 1), entry(3, 1)), 0, "gap"),
        (EMPTY, entries([2, 1]), 0, "go down"),
        (EMPTY, entries([1, 1]), 3, "disk lost"),
        (
            Snapshot(index=RaftIndex(5), term=Term(2), configuration=voters(1)),
            entries([1], 6),
            5,
            "go down",
        ),
        (
            Snapshot(index=RaftIndex(5), term=Term(2), configuration=voters(1)),
            entries([2], 7),
            5,
            "gap",
        ),
    ],
)
def test_a_disk_that_contradicts_itself_is_refused(
    snapshot: Snapshot, kept: tuple[Entry, ...], commit_index: int, message: str
) -> None:
    with pytest.raises(CorruptRaftState, match=message):
        RaftLog(snapshot, kept, RaftIndex(commit_index))


def test_entries_that_the_snapshot_covers_are_left_out() -> None:
    log = RaftLog(
        Snapshot(index=RaftIndex(2), term=Term(1), configuration=voters(1)),
        entries([1, 1, 1]),
        RaftIndex(1),
    )
    assert (log.first_index, log.last_index, log.commit_index, log.applied_index) == (3, 3, 2, 2)
