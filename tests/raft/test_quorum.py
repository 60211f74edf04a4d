"""Majorities against counting by hand."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import PeerId
from penstock.raft.quorum import VoteOutcome, majority_of, majority_value, vote_outcome

counts = st.integers(1, 7)
peers = st.sets(st.integers(0, 9).map(PeerId))


@given(counts)
def test_two_majorities_always_share_a_voter_and_two_smaller_sets_need_not(count: int) -> None:
    voters = range(count)
    size = majority_of(count)
    groups = [set(group) for group in combinations(voters, size)]
    assert all(group & other for group in groups for other in groups)
    smaller = [set(group) for group in combinations(voters, size - 1)]
    assert any(not one & other for one in smaller for other in smaller)


@given(st.lists(st.integers(0, 9), max_size=7))
def test_the_majority_value_is_the_largest_that_a_majority_has_reached(values: list[int]) -> None:
    reached = [v for v in range(10) if 2 * sum(value >= v for value in values) > len(values)]
    assert majority_value(values) == max(reached, default=0)


@given(counts, peers, peers)
def test_a_vote_is_decided_when_no_further_answer_can_change_it(
    count: int, granted: set[PeerId], rejected: set[PeerId]
) -> None:
    voters = [PeerId(one) for one in range(count)]
    rejected -= granted
    yes, no = len(granted & set(voters)), len(rejected & set(voters))
    open_votes = count - yes - no
    endings = {2 * (yes + more) > count for more in range(open_votes + 1)}
    expected = {True: VoteOutcome.WON, False: VoteOutcome.LOST}
    outcome = vote_outcome(voters, granted, rejected)
    assert outcome is (expected[endings.pop()] if len(endings) == 1 else VoteOutcome.PENDING)
