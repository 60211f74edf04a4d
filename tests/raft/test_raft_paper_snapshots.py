"""One test for each claim of the Raft paper, 7 and 8: snapshots, first entries, reads."""

from dataclasses import replace

from penstock.base.ids import PeerId
from penstock.raft.entry import EntryKind
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.messages import (
    AppendEntries,
    AppendResponse,
    InstallSnapshot,
    SnapshotResponse,
)
from penstock.raft.ready import NO_PEER, Role
from tests.raft.group import CONFIG, Group, voters
from tests.raft.single import (
    Single,
    append,
    entries,
    success,
)

# -- 7 snapshots


def test_a_follower_behind_the_leaders_log_gets_the_snapshot_in_chunks() -> None:
    """Raft 7, figure 13."""
    group = _with_snapshot()
    group.tick(3 * CONFIG.heartbeat_ticks)
    assert group.members[3].applied == [b"%d" % number for number in range(20)]
    assert group[3].commit_index == group[1].commit_index
    assert group.disks[3].snapshot == group.disks[1].snapshot


def _with_snapshot() -> Group:
    """Follower 3 was away, and what it lacks is in the leader's snapshot only."""
    group = Group(
        [1, 2, 3], config=replace(CONFIG, snapshot_chunk_bytes=5, compaction_keep_bytes=0)
    )
    group.elect(1)
    group.crash(3)
    for number in range(20):
        group.propose(b"%d" % number)
    group.members[1].compact()
    group.restart(3)
    return group


def test_a_snapshot_replaces_a_log_that_does_not_fit() -> None:
    """Raft 7: the follower discards its entire log."""
    single = Single(terms=[1, 1, 2], term=5).step(_chunk(index=2, term=4))
    assert single.terms == []
    (snapshot,) = [r.snapshot for r in single.readies if r.snapshot is not None]
    assert (snapshot.index, snapshot.term, snapshot.data) == (2, 4, b"state")
    assert single.raft.applied_index == single.raft.commit_index == 2
    assert single.one(AppendResponse).match_index == 2


def test_a_snapshot_of_a_prefix_leaves_the_entries_behind_it() -> None:
    """Raft 7: entries following the snapshot are still valid and must be retained."""
    single = Single(terms=[1, 1, 2], term=5).step(_chunk(index=2, term=1))
    assert single.terms == [1, 1, 2]
    assert single.raft.commit_index == 2
    assert single.one(AppendResponse).match_index == 2
    assert all(r.snapshot is None for r in single.readies)


def test_a_snapshot_of_entries_that_are_not_durable_yet_is_answered_when_they_are() -> None:
    """Raft 7: the leader takes the answer for what no crash takes away; it asks no more for it."""
    single = Single(term=5)
    single.raft.step(append(2, 5, new=entries([4, 4, 4])))
    single.raft.step(_chunk(index=2, term=4))
    ready = single.raft.ready()
    assert ready is not None
    assert [e.index for e in ready.entries] == [1, 2, 3]
    assert not [m for _, m in ready.messages if isinstance(m, AppendResponse)]
    answers = [m for _, m in ready.messages_persisted if isinstance(m, AppendResponse)]
    assert [answer.match_index for answer in answers] == [3, 2]


def test_an_old_snapshot_changes_nothing() -> None:
    """Raft 7."""
    single = Single(terms=[1, 1, 2], term=5, commit_index=3).step(_chunk(index=2, term=1))
    assert single.terms == [1, 1, 2]
    assert single.one(AppendResponse).match_index == 3


def test_chunks_out_of_order_are_answered_with_where_to_go_on() -> None:
    """Raft 7, figure 13."""
    single = Single(term=5)
    first = _chunk(index=9, term=4, data=b"ab", is_last=False)
    assert single.step(first).one(SnapshotResponse).position == 2
    assert single.step(first).one(SnapshotResponse).position == 2
    late = _chunk(index=9, term=4, data=b"ef", position=4)
    assert single.step(late).one(SnapshotResponse).position == 2
    single.step(_chunk(index=9, term=4, data=b"cd", position=2))
    assert single.one(AppendResponse).match_index == 9
    assert single.readies[-2].snapshot or single.readies[-1].snapshot


def test_chunks_of_one_snapshot_are_not_gone_on_with_by_those_of_another() -> None:
    """Raft 7: the leader made a newer snapshot while it sent the one before."""
    single = Single(term=5)
    older = _chunk(index=9, term=4, data=b"of nine", is_last=False)
    assert single.step(older).one(SnapshotResponse).position == 7
    newer = _chunk(index=12, term=4, data=b"12", is_last=False)
    assert single.step(newer).one(SnapshotResponse).position == 2
    single.step(_chunk(index=12, term=4, data=b"34", position=2))
    assert single.one(AppendResponse).match_index == 12
    (installed,) = [ready.snapshot for ready in single.readies if ready.snapshot]
    assert installed.data == b"1234"


def _chunk(
    *, index: int, term: int, data: bytes = b"state", position: int = 0, is_last: bool = True
) -> InstallSnapshot:
    return InstallSnapshot(
        sender=PeerId(2), term=Term(5), snapshot_index=RaftIndex(index), snapshot_term=Term(term),
        voters=voters(1, 2, 3).voters, position=position, data=data, is_last=is_last,
    )  # fmt: skip


# -- 8 clients


def test_a_leader_begins_its_term_with_an_empty_entry_and_says_so_once_it_is_applied() -> None:
    """Raft 8."""
    single = Single(terms=[1]).elected()
    assert [e.kind for ready in single.readies for e in ready.entries] == [EntryKind.NOOP]
    assert not single.raft.leadership.is_leader
    single.acknowledge(2, 2)
    assert single.raft.leadership.is_leader
    position = next(
        i for i, r in enumerate(single.readies) if r.leadership and r.leadership.is_leader
    )
    applied = [e.index for ready in single.readies[:position] for e in ready.committed]
    assert applied == [1, 2]


def test_a_read_waits_for_a_majority_that_answers_after_it_was_asked() -> None:
    """Raft 8; thesis 6.4."""
    single = Single().elected().acknowledge(2, 1)
    single.raft.read_index(7)
    single.work()
    assert not any(ready.reads for ready in single.readies)
    single.step(success(2, 1, 1, round_number=1))
    assert not any(ready.reads for ready in single.readies)
    single.acknowledge(2, 1)
    assert [tuple(read) for ready in single.readies for read in ready.reads] == [(7, 1)]


def test_a_read_before_the_first_commit_of_the_term_waits_for_it() -> None:
    """Raft 8; thesis 6.4: before it a leader may not know what is committed."""
    single = Single(terms=[1, 1], commit_index=1).elected()
    single.raft.read_index(7)
    single.work().acknowledge(2, 2)
    assert not any(ready.reads for ready in single.readies)
    single.acknowledge(2, 3).acknowledge(2, 3)
    assert [tuple(read) for ready in single.readies for read in ready.reads] == [(7, 3)]


def test_a_leader_that_was_replaced_answers_no_read() -> None:
    """Raft 8."""
    group = Group([1, 2, 3])
    group.elect(1)
    group.isolate(1)
    group.elect(2)
    group[1].read_index(7)
    group.tick(CONFIG.election_ticks_max)
    assert group.members[1].reads == []
    assert group[1].role is not Role.LEADER
    assert group[1].leader_id == NO_PEER


# -- 5.3 and 7 together: where the leader's log begins


def _forgetful_leader(chunk_bytes: int = 1 << 10) -> Single:
    """Leads term 4 with entries up to 5; forgot those up to 3, the last with term 4."""
    config = replace(CONFIG, compaction_keep_bytes=0, snapshot_chunk_bytes=chunk_bytes)
    single = Single(terms=[1], term=3, config=config).elected()
    single.acknowledge(2, 1).acknowledge(3, 1)
    for _ in range(3):
        single.raft.propose(b"x")
    single.work().acknowledge(2, 5)
    assert single.raft.compact(RaftIndex(3), b"state") is not None
    single.take(object)
    return single


def test_a_snapshot_begins_again_for_a_peer_that_lost_the_parts_it_had() -> None:
    """Raft 7: the parts are kept in memory, and by one role only."""
    single = _forgetful_leader(chunk_bytes=2).step(_rejection(5, 1, 1))
    assert single.one(InstallSnapshot).position == 0
    assert single.step(_holds(2)).one(InstallSnapshot).position == 2
    assert single.step(_holds(0)).one(InstallSnapshot).position == 0


def _holds(position: int) -> SnapshotResponse:
    return SnapshotResponse(
        sender=PeerId(3), term=Term(4), snapshot_index=RaftIndex(3), position=position
    )


def _rejection(rejected_index: int, hint_index: int, hint_term: int) -> AppendResponse:
    return AppendResponse(
        sender=PeerId(3), term=Term(4), round=1, is_success=False, match_index=RaftIndex(0),
        rejected_index=RaftIndex(rejected_index), hint_index=RaftIndex(hint_index),
        hint_term=Term(hint_term),
    )  # fmt: skip


def test_a_peer_that_differs_where_the_log_begins_gets_the_snapshot() -> None:
    """Raft 7: it must not be asked the same for ever."""
    single = _forgetful_leader().step(_rejection(5, 3, 2))
    (probe,) = [m for to, m in single.sent if to == 3 and isinstance(m, AppendEntries)]
    assert probe.previous_index == 3
    single.take(object)
    single.step(_rejection(3, 3, 2))
    assert single.one(InstallSnapshot).snapshot_index == 3


def test_a_peer_that_installed_an_outdated_snapshot_gets_the_newer_one() -> None:
    """Raft 7: the leader went on while the first one was under way."""
    single = _forgetful_leader().step(_rejection(5, 1, 1))
    assert single.one(InstallSnapshot).snapshot_index == 3
    assert single.raft.compact(RaftIndex(5), b"later") is not None
    single.step(success(3, 4, 3, round_number=0))
    assert single.one(InstallSnapshot).snapshot_index == 5


def test_what_a_peer_says_of_an_outdated_snapshot_moves_nothing_in_the_newer_one() -> None:
    """Raft 7: an answer that was under way, while the peer had the first one already."""
    single = _forgetful_leader(chunk_bytes=2).step(_rejection(5, 1, 1))
    assert single.raft.compact(RaftIndex(5), b"later") is not None
    single.take(object)
    single.step(success(3, 4, 3, round_number=0))
    assert single.one(InstallSnapshot).position == 0
    single.take(object)
    assert single.step(_holds(4)).take(InstallSnapshot) == []
