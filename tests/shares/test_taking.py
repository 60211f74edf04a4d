"""Records are handed out once at a time, up to bounds, whole batches if asked for."""

from array import array
from typing import Any

import pytest

from penstock.shares.answers import Say, Verdict
from penstock.shares.config import SharePolicy
from penstock.shares.coordinator import Move
from penstock.shares.messages import Unavailable
from penstock.shares.reading import RUNS_MAX
from penstock.shares.updates.handed import Short, Wanted
from tests.shares.bench import KEY, offsets
from tests.shares.world import LOCK_MS, ShareClock, World


def world(policy: SharePolicy | None = None, **settings: Any) -> World:
    made = World(policy=policy, **settings).load()
    assert made.start().why_not is None
    return made


def test_what_came_back_is_not_handed_out_behind_what_is_visible() -> None:
    """Its batch was not read, or is of a transaction that is open: a group reads committed now."""
    one = world()
    one.say(Say.RELEASE, one.take(10))
    assert one.take(10, visible_end=4).runs == [(0, 4)]
    assert one.take(10, visible_end=4).runs == ()
    assert one.take(10, visible_end=10).runs == [(4, 10)]


def test_two_members_get_different_records() -> None:
    one = world()
    assert offsets(one.take(3, "a").runs) == [0, 1, 2]
    assert offsets(one.take(3, "b").runs) == [3, 4, 5]


def test_nothing_at_or_above_the_visible_end_is_handed_out() -> None:
    one = world()
    handed = one.take(10, visible_end=4)
    assert offsets(handed.runs) == [0, 1, 2, 3]
    assert handed.short is Short.NO_MORE
    assert one.take(1, visible_end=4).runs == ()


def test_a_hand_out_ends_with_a_batch_where_bounds_allow() -> None:
    one = world()
    assert offsets(one.take(3, batch_ends=(2, 5, 9)).runs) == [0, 1, 2, 3, 4]
    assert offsets(one.take(4, batch_ends=(5, 9)).runs) == [5, 6, 7, 8]


def test_a_batch_is_cut_where_the_bound_in_flight_is() -> None:
    one = world(SharePolicy(in_flight_max=4))
    assert offsets(one.take(3, batch_ends=(20,)).runs) == [0, 1, 2]
    assert offsets(one.take(3, batch_ends=(4, 20)).runs) == [3]
    assert one.take(1).short is Short.IN_FLIGHT


def test_what_came_back_counts_where_a_batch_is_cut_at_the_bound_in_flight() -> None:
    one = world(SharePolicy(in_flight_max=4))
    one.say(Say.RELEASE, one.take(3), (1, 2))
    assert offsets(one.take(2, "b", batch_ends=(5, 20)).runs) == [1, 3]
    assert one.described().in_flight_count == 4


def test_what_is_absent_is_never_handed_out_and_does_not_hold_the_window() -> None:
    one = world(SharePolicy(window_max=10))
    handed = one.take(3, absent=[(0, 2), (3, 30), (31, 32)])
    assert offsets(handed.runs) == [2]
    assert one.accept(handed).verdicts == [Verdict.TAKEN]
    handed = one.take(3, absent=[(0, 2), (3, 30), (31, 32)])
    assert offsets(handed.runs) == [30, 32, 33]


def test_a_hand_out_has_no_more_runs_than_a_record_of_the_log() -> None:
    most = 10_000
    one = world(SharePolicy(in_flight_max=most, member_in_flight_max=most))
    gaps = [(at, at + 1) for at in range(1, 2 * most, 2)]
    first = one.take(most, absent=gaps, visible_end=2 * most)
    second = one.take(most, absent=gaps, visible_end=2 * most)
    assert offsets([*first.runs, *second.runs]) == [*range(0, 2 * most, 2)]
    assert len(first.runs) == RUNS_MAX
    assert one.elsewhere().described().in_flight_count == most


def test_absent_records_are_settled_without_a_hand_out() -> None:
    one = world()
    one.take(1)
    assert one.ask(lambda t: one.coordinator.absent(KEY, [(1, 5), (0, 1)], 100, t)).why_not is None
    assert one.described().start_offset == 5
    assert one.described().in_flight_count == 0


def test_a_member_has_a_bound_of_its_own() -> None:
    one = world(SharePolicy(member_in_flight_max=2))
    assert one.take(5, "a").short is Short.MEMBER
    assert one.take(1, "a").short is Short.MEMBER
    assert offsets(one.take(2, "b").runs) == [2, 3]


def test_further_members_get_nothing_until_another_has_nothing() -> None:
    one = world(SharePolicy(members_max=2))
    handed = one.take(1, "a")
    one.take(1, "b")
    assert one.take(1, "c").short is Short.MEMBERS
    one.accept(handed)
    assert offsets(one.take(1, "c").runs) == [2]
    by_number = one.coordinator.acquire(KEY, Wanted("a", 1, 9, 1_000))
    assert not isinstance(by_number, Unavailable)
    assert by_number.short is Short.MEMBERS


def test_a_full_window_gives_only_what_came_back() -> None:
    one = world(SharePolicy(window_max=4))
    first = one.take(1)
    rest = one.take(5, "b")
    assert rest.short is Short.WINDOW
    one.accept(rest)
    assert one.take(1).short is Short.WINDOW
    one.say(Say.RELEASE, first)
    assert offsets(one.take(2).runs) == [0]


def test_the_lowest_record_that_came_back_is_handed_out_first() -> None:
    one = world()
    handed = one.take(6)
    one.say(Say.RELEASE, handed, (4, 5))
    one.say(Say.RELEASE, handed, (1, 3))
    again = one.take(4, "b")
    assert offsets(again.runs) == [1, 2, 4, 6]
    assert [*again.counts] == [2, 2, 2, 1]


def test_the_last_attempt_goes_alone() -> None:
    one = world(SharePolicy(deliveries_max=3))
    for _ in range(2):
        one.say(Say.RELEASE, one.take(2))
    alone = one.take(9)
    assert (offsets(alone.runs), [*alone.counts], alone.short) == ([0], [3], Short.ALONE)
    assert offsets(one.take(9).runs) == [1]
    assert offsets(one.take(2).runs) == [2, 3]


def test_one_that_failed_often_goes_with_fewer_others() -> None:
    one = world(SharePolicy(deliveries_max=10))
    sizes = []
    for _ in range(9):
        handed = one.take(100)
        sizes.append(len(offsets(handed.runs)))
        one.say(Say.RELEASE, handed)
    assert sizes == [100, 100, 100, 100, 100, 16, 8, 4, 2]


def test_without_a_limit_records_come_back_for_ever() -> None:
    one = world(SharePolicy(deliveries_max=0))
    for _ in range(300):
        one.say(Say.RELEASE, one.take(1))
    handed = one.take(1)
    assert (offsets(handed.runs), [*handed.counts]) == ([0], [255])


def test_a_share_that_has_not_begun_gives_nothing() -> None:
    one = World().load()
    asked = one.coordinator.acquire(KEY, Wanted("a", 1, 9, 1_000))
    assert asked is Unavailable.NOT_STARTED


def test_a_share_that_has_begun_stays_as_it_is_when_started_again() -> None:
    one = world()
    one.take(2)
    assert one.start(50).why_not is None
    assert one.described()[:3] == (0, 2, 2)


def test_there_are_not_more_shares_than_configured() -> None:
    one = world(shares_max=1)
    assert one.start(0, key=KEY._replace(group="other")).why_not is Unavailable.TOO_MANY


# Ordered


def ordered(policy: SharePolicy | None = None) -> World:
    made = World(policy=policy).load()
    made.start(0, Move.START_ORDERED)
    return made


def keys(*hashes: int) -> "array[int]":
    return array("I", hashes)


def test_an_ordered_share_hands_out_one_record_of_a_key_at_a_time() -> None:
    one = ordered()
    first = one.take(9, hashes=keys(1, 1, 2, 1, 3), visible_end=5)
    assert offsets(first.runs) == [0, 2, 4]
    assert one.take(9, "b", hashes=keys(), visible_end=5).runs == ()
    one.accept(first, 0)
    assert offsets(one.take(9, "b", visible_end=5).runs) == [1]


def test_a_record_that_failed_keeps_its_key_waiting_and_no_other() -> None:
    one = ordered()
    first = one.take(1, hashes=keys(1, 1, 2, 2), visible_end=4)
    one.say(Say.RELEASE, first, during_ms=500)
    other = one.take(9, visible_end=4)
    assert offsets(other.runs) == [2]
    one.later(600)
    assert offsets(one.take(9, visible_end=4).runs) == [0]


def test_the_next_of_a_key_follows_when_one_is_given_up() -> None:
    one = ordered(SharePolicy(has_dead_letters=True))
    first = one.take(1, hashes=keys(1, 1), visible_end=2)
    one.say(Say.REJECT, first)
    assert one.take(1, visible_end=2).runs == ()
    one.coordinator.dead_lettered(KEY, [(0, 1)])
    assert offsets(one.take(1, visible_end=2).runs) == [1]


def test_only_so_many_keys_are_looked_at_for_a_hand_out() -> None:
    one = ordered()
    handed = one.take(2, hashes=array("I", [7]) * 10_000, visible_end=10_000)
    assert offsets(handed.runs) == [0]
    assert one.described().end_offset == 4_096


@pytest.mark.parametrize("count", [1, 3, 70])
def test_keys_are_looked_at_until_there_are_enough_records(count: int) -> None:
    one = ordered()
    handed = one.take(count, hashes=array("I", range(4_000)), visible_end=4_000)
    assert offsets(handed.runs) == [*range(count)]
    assert one.described().end_offset <= max(64, count)


def test_an_absent_record_is_no_link_of_its_key() -> None:
    one = ordered()
    first = one.take(9, hashes=keys(1, 1, 1), visible_end=3, absent=[(1, 2)])
    one.accept(first)
    assert offsets(one.take(9, visible_end=3).runs) == [2]


def test_a_lock_ends_also_where_the_clock_stands_before_the_first_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ShareClock, "wall_ms", lambda clock: clock.now_ms)
    one = world()
    assert offsets(one.take(3, "a").runs) == [0, 1, 2]
    one.later(2 * LOCK_MS)
    assert offsets(one.take(3, "b").runs) == [0, 1, 2]
