"""What members say: accepted is for good, what came back comes again, old receipts are known."""

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from penstock.shares.answers import Claim, Say, Verdict
from penstock.shares.config import SharePolicy
from penstock.shares.coordinator import Move
from penstock.shares.flushing import LETTERS_MAX
from penstock.shares.messages import Answer
from penstock.shares.updates.handed import HandOut, Wanted
from tests.shares.bench import KEY, offsets
from tests.shares.world import VISIBLE, World

TAKEN, ALREADY, LAPSED = Verdict.TAKEN, Verdict.ALREADY, Verdict.LAPSED


def world(policy: SharePolicy | None = None, **settings: Any) -> World:
    made = World(policy=policy, **settings).load()
    made.start()
    return made


def by_member(one: World, what: Say, member: str, *runs: tuple[int, int]) -> list[Verdict]:
    claims = [Claim(first, end) for first, end in runs]
    answer = one.ask(lambda told: one.coordinator.say(KEY, what, claims, member, told))
    assert answer.why_not is None
    return [*answer.verdicts]


def test_what_is_accepted_never_comes_again() -> None:
    one = world()
    handed = one.take(3)
    assert one.accept(handed, 1).verdicts == [TAKEN]
    one.later(60_000)
    assert offsets(one.take(9, visible_end=3).runs) == [0, 2]


def test_accepting_twice_is_fine() -> None:
    one = world()
    handed = one.take(2)
    assert one.accept(handed, 1, 1).verdicts == [TAKEN, TAKEN]
    assert one.accept(handed, 1).verdicts == [ALREADY]
    assert one.accept(handed, 0).verdicts == [TAKEN]
    assert one.accept(handed, 0, 1).verdicts == [ALREADY, ALREADY]


def test_a_receipt_lapses_when_its_time_is_over() -> None:
    one = world()
    handed = one.take(1)
    one.later(30_100)
    assert one.accept(handed).verdicts == [LAPSED]
    again = one.take(1, "b")
    assert one.accept(handed).verdicts == [LAPSED]
    assert one.accept(again).verdicts == [TAKEN]
    assert one.accept(handed).verdicts == [ALREADY]


def test_a_receipt_holds_until_its_time_is_over() -> None:
    one = world()
    handed = one.take(1)
    one.later(29_900)
    assert one.take(9, visible_end=1).runs == ()
    assert one.accept(handed).verdicts == [TAKEN]


def test_a_number_of_another_record_is_no_receipt() -> None:
    one = world()
    mine, other = one.take(1), one.take(1, "b")
    forged = HandOut(other.nonce, mine.runs)
    assert one.accept(forged).verdicts == [LAPSED]
    assert one.accept(HandOut(mine.nonce), 500).verdicts == [LAPSED]


def test_a_renewed_record_has_a_new_receipt_and_the_old_one_lapses() -> None:
    one = world()
    handed = one.take(1)
    one.later(20_000)
    renewed = one.say(Say.RENEW, handed, during_ms=30_000)
    assert renewed.verdicts == [TAKEN]
    one.later(20_000)
    assert one.take(9, visible_end=1).runs == ()
    assert one.accept(handed).verdicts == [LAPSED]
    assert one.accept(HandOut(renewed.nonce), 0).verdicts == [TAKEN]


def test_renewed_records_come_back_after_their_new_time() -> None:
    one = world()
    one.say(Say.RENEW, one.take(1), during_ms=60_000)
    one.later(59_900)
    assert one.take(1, visible_end=1).runs == ()
    one.later(200)
    assert offsets(one.take(1, visible_end=1).runs) == [0]


def test_a_released_record_waits_for_its_pause() -> None:
    one = world(SharePolicy(pauses_ms=(1_000, 5_000)))
    one.say(Say.RELEASE, one.take(1))
    one.later(900)
    assert one.take(1, visible_end=1).runs == ()
    one.later(200)
    one.say(Say.RELEASE, one.take(1, visible_end=1))
    one.later(4_900)
    assert one.take(1, visible_end=1).runs == ()
    one.later(200)
    assert offsets(one.take(1, visible_end=1).runs) == [0]


def test_who_lets_the_time_pass_makes_the_record_pause_too() -> None:
    one = world(SharePolicy(pauses_ms=(1_000,)))
    one.take(1)
    one.later(30_100)
    assert one.take(1, visible_end=1).runs == ()
    one.later(1_100)
    assert offsets(one.take(1, visible_end=1).runs) == [0]


def test_releasing_twice_is_fine_until_somebody_has_the_record() -> None:
    one = world()
    handed = one.take(1)
    assert one.say(Say.RELEASE, handed).verdicts == [TAKEN]
    assert one.say(Say.RELEASE, handed).verdicts == [ALREADY]
    again = one.take(1, "b")
    assert one.say(Say.RELEASE, handed).verdicts == [LAPSED]
    assert one.accept(again).verdicts == [TAKEN]


def test_a_claim_on_several_records_changes_those_that_are_held() -> None:
    one = world()
    handed = one.take(4)
    one.accept(handed, 1)
    assert one.say(Say.ACCEPT, handed, (0, 3)).verdicts == [ALREADY]
    assert one.say(Say.ACCEPT, handed, (3, 5)).verdicts == [LAPSED]
    assert one.described()[:3] == (4, 4, 0)


def test_a_member_names_itself_where_it_has_no_receipts() -> None:
    one = world()
    one.take(2, "a")
    one.take(2, "b")
    assert by_member(one, Say.ACCEPT, "b", (0, 1), (2, 3)) == [LAPSED, TAKEN]
    assert by_member(one, Say.ACCEPT, "nobody", (0, 1)) == [LAPSED]
    assert by_member(one, Say.ACCEPT, "a", (0, 2)) == [TAKEN]
    assert by_member(one, Say.ACCEPT, "a", (0, 2)) == [ALREADY]


@pytest.mark.parametrize("what", [Say.RELEASE, Say.REJECT, Say.RENEW])
def test_what_is_accepted_can_not_be_taken_back(what: Say) -> None:
    one = world()
    handed = one.take(2)
    one.accept(handed, 1)
    assert one.say(what, handed, (1, 2)).verdicts == [LAPSED]
    one.accept(handed, 0)
    assert one.say(what, handed).verdicts == [LAPSED]
    assert one.described().start_offset == 2


def test_a_member_that_leaves_frees_what_it_holds_and_nothing_else() -> None:
    one = world()
    one.take(2, "a")
    one.take(2, "b")
    one.take(1, "a")
    assert one.ask(lambda told: one.coordinator.leave(KEY, "a", told)).why_not is None
    assert offsets(one.take(9, "c", visible_end=5).runs) == [0, 1, 4]


def test_at_the_limit_a_record_is_dead() -> None:
    one = world(SharePolicy(deliveries_max=2))
    one.say(Say.RELEASE, one.take(1))
    one.take(1)
    one.later(30_100)
    assert one.take(1, visible_end=1).runs == ()
    assert one.described().start_offset == 1
    assert one.letters.duties == []


def test_a_rejected_record_is_over_once_its_copy_is_confirmed() -> None:
    one = world(SharePolicy(has_dead_letters=True))
    handed = one.take(3)
    one.say(Say.REJECT, handed, (0, 2))
    assert one.letters.duties == [(KEY, [(0, 2)])]
    assert one.described().start_offset == 0
    one.coordinator.dead_lettered(KEY, [(0, 1)])
    one.settle()
    assert one.described().start_offset == 1
    one.coordinator.dead_lettered(KEY, [(0, 3)])
    one.settle()
    assert one.described().start_offset == 2
    assert one.accept(handed, 2).verdicts == [TAKEN]


def test_copies_are_asked_for_only_when_it_is_confirmed_that_the_record_is_given_up() -> None:
    one = world(SharePolicy(has_dead_letters=True))
    handed = one.take(1)
    one.is_prompt = False
    claims = [Claim(0, 1, handed.nonce)]
    told = one.begin(lambda t: one.coordinator.say(KEY, Say.REJECT, claims, "a", t))
    assert (told, one.letters.duties) == ([], [])
    one.journal.confirm()
    assert [answer.why_not for answer in told] == [None]
    assert one.letters.duties == [(KEY, [(0, 1)])]


def test_the_next_master_asks_for_the_copies_again() -> None:
    one = world(SharePolicy(has_dead_letters=True))
    one.say(Say.REJECT, one.take(2))
    other = one.elsewhere()
    assert other.letters.duties == [(KEY, [(0, 2)])]


def test_the_next_master_asks_for_the_copies_of_all_however_many_they_are() -> None:
    most = LETTERS_MAX + 1_000
    policy = SharePolicy(has_dead_letters=True, in_flight_max=most, member_in_flight_max=most)
    one = world(policy)
    one.say(Say.REJECT, one.take(most))
    other = one.elsewhere()
    assert [runs for _, runs in other.letters.duties] == [[(0, LETTERS_MAX)], [(LETTERS_MAX, most)]]


def test_a_master_that_resumes_in_its_epoch_hands_out_under_new_numbers() -> None:
    """It was restarted without a controller, and the last hand-out was not synced."""
    one = world()
    one.take(1)
    one.is_prompt = False
    lost = one.take(1)
    again = World(one.journal)
    again.epoch = one.epoch
    again.load([*one.journal.records()])
    handed = again.take(1, "b")
    assert (offsets(lost.runs), offsets(handed.runs)) == ([1], [1])
    assert again.accept(lost).verdicts == [LAPSED]
    assert again.accept(handed).verdicts == [TAKEN]


def test_the_start_of_the_log_passes_what_was_in_hand() -> None:
    one = world()
    handed = one.take(6)
    move = one.coordinator.move
    assert one.ask(lambda told: move(KEY, 4, Move.ADVANCE, told)).why_not is None
    assert one.described()[:3] == (4, 6, 2)
    assert one.accept(handed, 3, 4).verdicts == [ALREADY, TAKEN]
    one.ask(lambda told: move(KEY, 1 << 40, Move.ADVANCE, told))
    assert one.described()[:4] == (1 << 40, 1 << 40, 0, 0)


def test_a_reset_goes_back_and_makes_all_receipts_void() -> None:
    one = world()
    old = one.take(4)
    one.accept(old, 0, 1)
    assert one.start(1, Move.RESET).why_not is None
    assert one.accept(old, 2).verdicts == [LAPSED]
    other = one.elsewhere()
    assert other.accept(old, 2).verdicts == [LAPSED]
    assert offsets(other.take(9, visible_end=4).runs) == [1, 2, 3]


def test_a_reset_comes_behind_what_was_accepted_in_the_same_turn() -> None:
    turns: deque[Callable[[], None]] = deque()
    one = World(later=turns.append)
    one.load()
    one.coordinator.move(KEY, 0, Move.START, _nobody)
    handed = one.coordinator.acquire(KEY, Wanted("a", 5, VISIBLE, 1_000))
    assert isinstance(handed, HandOut)
    one.coordinator.accept(KEY, [(4, handed.nonce)], VISIBLE, _nobody)
    one.coordinator.move(KEY, 2, Move.RESET, _nobody)
    while turns:
        turns.popleft()()
    assert one.described()[1:3] == (2, 0)
    assert offsets(one.take(9, visible_end=5).runs) == [2, 3, 4]


def _nobody(_: Answer) -> None:
    """Nobody waits."""


def test_a_deleted_share_is_forgotten_by_the_next_master_too() -> None:
    one = world()
    one.take(4)
    assert one.ask(lambda told: one.coordinator.delete(KEY, told)).why_not is None
    assert [*one.coordinator.here.keys()] == []
    assert [*one.elsewhere().coordinator.here.keys()] == []
    one.start(2)
    assert one.elsewhere().described()[:3] == (2, 2, 0)


def test_a_receipt_beyond_what_is_visible_is_refused_by_the_next_master() -> None:
    one = world()
    one.is_prompt = False
    handed = one.take(5)
    one.journal.lose(0)
    other = one.elsewhere()
    ask = other.coordinator.accept
    receipts = [(3, handed.nonce), (4, handed.nonce)]
    assert other.ask(lambda told: ask(KEY, receipts, 4, told)).verdicts == [TAKEN, LAPSED]
    assert offsets(other.take(9, visible_end=5).runs) == [0, 1, 2, 4]


def test_a_lost_hand_out_is_accepted_unless_somebody_else_has_the_record_since() -> None:
    one = world()
    one.is_prompt = False
    lost = one.take(2)
    one.journal.lose(0)
    other = one.elsewhere()
    again = other.take(1, "b")
    assert offsets(again.runs) == [0]
    assert other.accept(lost).verdicts == [LAPSED, TAKEN]
    assert other.accept(again).verdicts == [TAKEN]


def test_hand_outs_of_masters_that_wrote_nothing_are_told_apart() -> None:
    one = world()
    one.is_prompt = False
    lost = one.take(1)
    one.journal.lose(0)
    second = one.elsewhere()
    second.is_prompt = False
    also_lost = second.take(1, "b")
    assert also_lost.nonce != lost.nonce
    one.journal.lose(0)
    third = second.elsewhere()
    given = third.take(1, "c")
    assert given.nonce not in {lost.nonce, also_lost.nonce}
    assert third.accept(also_lost).verdicts == [LAPSED]


def test_a_confirmed_hand_out_is_held_under_the_next_master() -> None:
    one = world()
    handed = one.take(2)
    other = one.elsewhere()
    assert other.take(9, visible_end=2).runs == ()
    assert other.accept(handed, 1).verdicts == [TAKEN]
    other.later(30_100)
    assert offsets(other.take(9, visible_end=2).runs) == [0]


def test_after_a_failover_a_holder_has_a_grace() -> None:
    one = world(grace_ms=5_000)
    handed = one.take(1)
    one.clock.now_ms += 40_000
    other = one.elsewhere()
    other.later(4_900)
    assert other.take(9, visible_end=1).runs == ()
    assert other.accept(handed).verdicts == [TAKEN]


def test_after_its_grace_a_holder_has_nothing_more() -> None:
    one = world(grace_ms=5_000)
    one.take(1)
    one.clock.now_ms += 40_000
    other = one.elsewhere()
    other.later(5_100)
    assert offsets(other.take(9, visible_end=1).runs) == [0]


def test_nobody_holds_a_record_for_longer_than_configured() -> None:
    one = world(lock_max_ms=60_000)
    found = one.coordinator.acquire(KEY, Wanted("a", 1, VISIBLE, 1 << 50))
    assert isinstance(found, HandOut)
    one.later(60_200)
    assert offsets(one.take(1, "b").runs) == [0]
