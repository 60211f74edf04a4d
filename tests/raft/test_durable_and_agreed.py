"""What a member says is on its disk first; and by which voters it goes before it applies them."""

import pytest

from penstock.base.ids import PeerId
from penstock.base.invariant import InvariantViolation
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.messages import VoteResponse
from penstock.raft.ready import Role
from tests.raft.group import voters
from tests.raft.single import Single, append, entries, vote_request


def _configuration(index: int, *voter_ids: int) -> Entry:
    payload = voters(*voter_ids).encode()
    kind = EntryKind.CONFIGURATION
    return Entry(index=RaftIndex(index), term=Term(1), kind=kind, payload=payload)


def test_a_vote_is_synced_although_its_term_was_before() -> None:
    """Raft 5.2: else it would be given again, to another candidate, after a crash."""
    single = Single(terms=[1], term=5)
    single.readies.clear()
    single.step(vote_request(2, 5, (1, 1)))
    assert single.one(VoteResponse).is_granted
    (ready,) = [one for one in single.readies if one.hard_state is not None]
    assert ready.hard_state is not None
    assert (ready.hard_state.term, ready.hard_state.voted_for) == (5, 2)
    assert ready.must_sync


def test_a_snapshot_has_the_voters_as_of_its_last_entry_and_not_those_of_later_ones() -> None:
    single = Single(voter_ids=(1, 2, 3))
    single.step(append(2, 1, (0, 0), [*entries([1, 1]), _configuration(3, 1, 2)], commit_index=2))
    assert single.raft.configuration == voters(1, 2)
    snapshot = single.raft.compact(RaftIndex(2), b"state")
    assert snapshot is not None
    assert snapshot.configuration == voters(1, 2, 3), "the change may still be truncated"


def test_who_was_removed_stands_no_more_though_it_has_not_applied_that_yet() -> None:
    single = Single(voter_ids=(1, 2, 3))
    single.raft.step(append(2, 1, (0, 0), [_configuration(1, 2, 3)]))
    assert single.raft.role is Role.FOLLOWER, "it may be the only one that knows of its removal"
    single.raft.step(append(2, 1, (1, 1), commit_index=1))
    assert (single.raft.commit_index, single.raft.applied_index) == (1, 0)
    assert single.raft.role.value == Role.LEARNER.value
    assert single.raft.leader_id == PeerId(2)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("voted_for", PeerId(3), "a term has one vote"),
        ("term", Term(4), "the term never falls"),
    ],
)
def test_a_state_that_takes_back_a_vote_or_a_term_does_not_reach_the_disk(
    name: str, value: int, told: str
) -> None:
    single = Single(terms=[1], term=5)
    single.step(vote_request(2, 5, (1, 1)))
    setattr(single.raft._core, name, value)
    single.readies.clear()
    with pytest.raises(InvariantViolation, match=told):
        single.work()
    assert not single.readies


def test_a_smaller_commit_index_does_not_reach_the_disk() -> None:
    single = Single(terms=[1, 1], term=1, commit_index=2)
    single.raft._core.log.commit_index = RaftIndex(1)
    with pytest.raises(InvariantViolation, match="what is committed stays so"):
        single.step(vote_request(2, 2, (2, 1)))
