"""Which queues a member has that asks the broker for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.remoting.pop.assigning import STRATEGIES, queues_of_member

QUEUES = [("set-1", number) for number in range(3)] + [("set-2", number) for number in range(4)]


@given(
    st.sampled_from(sorted(STRATEGIES)),
    st.sets(st.text(max_size=5), min_size=1, max_size=10),
    st.permutations(QUEUES),
)
def test_members_have_all_queues_among_them_and_each_one_once(
    strategy: str, members: set[str], queues: list[tuple[str, int]]
) -> None:
    parts = [
        queues_of_member(one, sorted(members, reverse=True), strategy, queues) for one in members
    ]
    had = [queue for part in parts for queue in part or ()]
    assert sorted(had) == QUEUES
    sizes = [len(part or ()) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("strategy", "numbers"),
    [("AVG", [[0, 1, 2], [3, 4], [5, 6]]), ("AVG_BY_CIRCLE", [[0, 3, 6], [1, 4], [2, 5]])],
)
def test_queues_are_divided_as_javas_strategies_do(strategy: str, numbers: list[list[int]]) -> None:
    members = ["a", "b", "c"]
    for member, expected in zip(members, numbers, strict=True):
        assert queues_of_member(member, members, strategy, QUEUES) == [QUEUES[n] for n in expected]


def test_who_is_no_member_has_none_and_a_strategy_that_is_unknown_divides_nothing() -> None:
    assert queues_of_member("x", ["a"], "AVG", QUEUES) == ()
    assert queues_of_member("a", ["a"], "MINE", QUEUES) is None
