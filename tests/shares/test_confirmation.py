"""What is answered as done is in the log for good; what is handed out is answered at once."""

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

from penstock.coordinator.unwritten import Unwritten
from penstock.shares.answers import Claim, Say, Verdict
from penstock.shares.config import SharePolicy
from penstock.shares.coordinator import Move
from penstock.shares.messages import Answer, Unavailable
from penstock.shares.records import UPDATE, decode_key, decode_update
from penstock.shares.runs import length
from penstock.shares.state import Acquired, Settled
from penstock.shares.updates.handed import HandOut, Short, Wanted
from tests.shares.bench import KEY, offsets
from tests.shares.world import VISIBLE, World


def world(**settings: Any) -> World:
    made = World(**settings).load()
    made.start()
    return made


def accepting(one: World, nonce: int, *which: int) -> list[Answer]:
    receipts = [(at, nonce) for at in which]
    return one.begin(lambda told: one.coordinator.accept(KEY, receipts, VISIBLE, told))


def test_a_hand_out_does_not_wait_for_the_log() -> None:
    one = world()
    one.is_prompt = False
    assert offsets(one.take(2).runs) == [0, 1]
    assert len(one.journal.under_way) == 1


def test_an_acceptance_waits_for_the_log() -> None:
    one = world()
    handed = one.take(2)
    one.is_prompt = False
    told = accepting(one, handed.nonce, 0)
    assert told == []
    assert one.described().start_offset == 0
    one.journal.confirm()
    assert told == [Answer(None, [Verdict.TAKEN])]
    assert one.described().start_offset == 1


def test_accepting_again_waits_for_the_first_time_to_be_confirmed() -> None:
    one = world()
    handed = one.take(1)
    one.is_prompt = False
    accepting(one, handed.nonce, 0)
    again = accepting(one, handed.nonce, 0)
    assert again == []
    one.journal.confirm()
    assert again == [Answer(None, [Verdict.ALREADY])]


def test_copies_are_asked_for_though_the_log_had_refused_what_was_given_up() -> None:
    one = World(policy=SharePolicy(has_dead_letters=True)).load()
    one.start()
    handed = one.take(2)
    one.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    one.say(Say.REJECT, handed)
    assert one.letters.duties == []
    one.journal.refuses = None
    one.later(one.coordinator.config.retry_ms)
    assert one.letters.duties == [(KEY, [(0, 2)])]


def test_what_the_log_refuses_is_told_and_written_later_in_order() -> None:
    one = world()
    handed = one.take(2)
    one.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    (told,) = accepting(one, handed.nonce, 0)
    assert told.why_not is Unwritten.TOO_FEW_IN_STEP
    other = one.take(1, "b")
    one.journal.refuses = None
    one.later(1_000)
    kinds = [type(update) for update in written(one)[-2:]]
    assert kinds == [Settled, Acquired]
    assert offsets(other.runs) == [2]
    assert one.accept(handed, 0).verdicts == [Verdict.ALREADY]


def written(one: World) -> list[object]:
    found: list[object] = []
    for record in one.journal.records(with_all=True):
        assert record.value is not None
        assert decode_key(record.key or b"")[0] == UPDATE
        found.append(decode_update(record.value)[1])
    return found


def test_who_asks_while_too_many_writes_are_under_way_is_told_in_the_same_turn() -> None:
    turns: deque[Callable[[], None]] = deque()
    one = World(later=turns.append, writes_in_flight_max=1)
    one.load()
    told: list[Answer] = []
    for offset in (0, 5):
        one.coordinator.move(KEY, offset, Move.RESET if offset else Move.START, told.append)
        while turns:
            turns.popleft()()
    assert [answer.why_not for answer in told] == [Unavailable.FULL]


def test_what_is_late_is_told_and_who_comes_then_waits_for_the_outcome() -> None:
    one = world()
    handed = one.take(1)
    one.is_prompt = False
    first = accepting(one, handed.nonce, 0)
    one.journal.tell_late()
    assert [answer.why_not for answer in first] == [Unwritten.LATE]
    second = accepting(one, handed.nonce, 0)
    assert second == []
    one.journal.confirm()
    assert second == [Answer(None, [Verdict.ALREADY])]
    assert len(first) == 1


def test_who_waits_is_told_when_the_mastership_ends() -> None:
    one = world()
    handed = one.take(1)
    one.is_prompt = False
    told = accepting(one, handed.nonce, 0)
    (batch,) = one.journal.lose(0)
    batch.done(Unwritten.OVERTAKEN)
    assert [answer.why_not for answer in told] == [Unwritten.OVERTAKEN]
    found = one.coordinator.acquire(KEY, Wanted("b", 1, VISIBLE, 1_000))
    assert found is Unavailable.NOT_HERE, "the state is ahead of what the log has"


def test_who_waits_for_what_was_not_written_is_told_when_the_partition_goes() -> None:
    turns: deque[Callable[[], None]] = deque()
    one = World(later=turns.append)
    one.load()
    while turns:
        turns.popleft()()
    told: list[Answer] = []
    one.coordinator.move(KEY, 0, Move.START, told.append)
    one.coordinator.runtime.unload(0)
    while turns:
        turns.popleft()()
    assert [answer.why_not for answer in told] == [Unavailable.NOT_HERE]
    assert one.letters.cancelled == [0]


def test_who_waits_for_what_stands_behind_a_lost_write_is_told_in_the_same_turn() -> None:
    """The partition may stay here for long: the log is fenced, and nobody else leads."""
    turns: deque[Callable[[], None]] = deque()
    one = World(later=turns.append)
    one.load()

    def run() -> None:
        while turns:
            turns.popleft()()

    run()
    first: list[Answer] = []
    second: list[Answer] = []
    one.coordinator.move(KEY, 0, Move.START, first.append)
    run()
    one.coordinator.move(KEY, 5, Move.RESET, second.append)
    (batch,) = one.journal.lose(0)
    batch.done(Unwritten.FAILED)
    run()
    assert [answer.why_not for answer in first] == [Unwritten.FAILED]
    assert [answer.why_not for answer in second] == [Unavailable.NOT_HERE]


def test_all_that_a_turn_brings_is_one_batch() -> None:
    turns: deque[Callable[[], None]] = deque()
    one = World(later=turns.append)
    one.load()
    while turns:
        turns.popleft()()
    told: list[Answer] = []
    one.coordinator.move(KEY, 0, Move.START, told.append)
    handed = one.coordinator.acquire(KEY, Wanted("a", 50, VISIBLE, 1_000))
    assert not isinstance(handed, Unavailable)
    for offset in range(50):
        one.coordinator.accept(KEY, [(offset, handed.nonce)], VISIBLE, told.append)
    assert one.journal.batches == []
    while turns:
        turns.popleft()()
    (batch,) = one.journal.batches
    assert len(batch.records) == 4, "began, moved, acquired, settled"
    one.journal.confirm()
    while turns:
        turns.popleft()()
    assert len(told) == 51
    assert one.described().start_offset == 50


def test_what_takes_two_batches_is_told_when_the_second_is_in_the_log() -> None:
    turns: deque[Callable[[], None]] = deque()
    one = World(later=turns.append, policy=SharePolicy(in_flight_max=10**6))
    one.load()

    def run() -> None:
        while turns:
            turns.popleft()()

    told: list[Answer] = []
    run()
    one.coordinator.move(KEY, 0, Move.START, lambda _: None)
    run()
    one.journal.confirm()
    for number in range(6_000):
        member = str(number % 4)
        assert isinstance(one.coordinator.acquire(KEY, Wanted(member, 1, VISIBLE, 1_000)), HandOut)
    first = one.coordinator._shard.by_partition[0].ledgers[KEY].share.tenure[1]
    one.coordinator.accept(KEY, [(0, first)], VISIBLE, told.append)
    run()
    assert len(one.journal.under_way) == 2, "it is in the second one"
    one.journal.confirm(1)
    run()
    assert (told, one.described().start_offset) == ([], 0)
    one.journal.confirm()
    run()
    assert (told, one.described().start_offset) == ([Answer(None, [Verdict.TAKEN])], 1)


def test_a_master_that_may_be_replaced_hands_nothing_out_and_accepts_nothing() -> None:
    one = world()
    handed = one.take(1)
    one.has_lease = False
    assert one.coordinator.acquire(KEY, Wanted("b", 1, 9, 1_000)) is Unavailable.NOT_HERE
    assert one.accept(handed).why_not is Unavailable.NOT_HERE
    one.has_lease = True
    assert one.accept(handed).why_not is None


def test_too_much_that_waits_for_the_log_is_refused_until_it_is_confirmed() -> None:
    one = world(updates_under_way_max=5)
    one.is_prompt = False
    for _ in range(5):
        one.take(1)
    assert one.coordinator.acquire(KEY, Wanted("a", 1, 9, 1_000)) is Unavailable.FULL
    one.journal.confirm()
    assert offsets(one.take(1).runs) == [5]


def test_a_share_elsewhere_is_refused() -> None:
    one = world()
    one.place = None
    assert one.coordinator.describe(KEY) is Unavailable.NOT_HERE
    one.place = 0
    one.coordinator.runtime.unload(0)
    assert one.coordinator.describe(KEY) is Unavailable.NOT_HERE
    one.coordinator.runtime.begin_loading(0)
    assert one.coordinator.describe(KEY) is Unavailable.LOADING


def test_many_hand_outs_that_end_at_once_end_in_slices() -> None:
    turns: deque[Callable[[], None]] = deque()
    one = World(later=turns.append)
    one.policy = one.policy.__class__(in_flight_max=30_000, member_in_flight_max=30_000)
    one.load()
    one.coordinator.move(KEY, 0, Move.START, lambda _: None)
    for _ in range(3):
        one.coordinator.acquire(KEY, Wanted("a", 10_000, VISIBLE, 1_000))
    while turns:
        turns.popleft()()
    one.clock.now_ms += 1_200
    one.coordinator.runtime.tick(one.clock.now_ms)
    left = []
    while turns:
        left.append(one.described().in_flight_count)
        turns.popleft()()
    assert one.described().in_flight_count == 0
    assert all(before - after <= 5_000 for before, after in pairwise(left))


def test_what_a_client_names_out_of_range_is_refused() -> None:
    one = world()
    handed = one.take(1)
    for name in ("", "x" * 1_025):
        found = one.coordinator.acquire(KEY, Wanted(name, 1, VISIBLE, 1_000))
        assert found is Unavailable.INVALID
    assert accepting(one, handed.nonce, *[0] * 10_001)[0].why_not is Unavailable.INVALID
    for claim in (Claim(0, 10_001), Claim(5, 5), Claim(-1, 3), Claim(0, 1 << 50)):
        begin = partial(one.coordinator.say, KEY, Say.ACCEPT, [claim], "a")
        assert one.ask(begin).why_not is Unavailable.INVALID
    for offset in (-1, 1 << 47):
        assert one.start(offset, Move.RESET).why_not is Unavailable.INVALID
    assert one.accept(handed).verdicts == [Verdict.TAKEN]


def test_it_is_counted_why_members_get_less_than_they_want() -> None:
    one = World(policy=SharePolicy(window_max=3)).load()
    one.start()
    one.take(2)
    one.take(2, "b")
    one.take(2, "b")
    counters = one.coordinator.counters
    assert (counters.handed_out, counters.short) == (3, {Short.WINDOW: 2})


def test_confirmed_copies_are_noted_whatever_waits_for_the_log_and_without_a_lease() -> None:
    one = World(policy=SharePolicy(has_dead_letters=True), updates_under_way_max=6).load()
    one.start()
    one.say(Say.REJECT, one.take(1))
    one.is_prompt = False
    while isinstance(one.coordinator.acquire(KEY, Wanted("a", 1, VISIBLE, 1_000)), HandOut):
        pass
    one.has_lease = False
    one.coordinator.dead_lettered(KEY, [(0, 1)])
    one.journal.confirm()
    one.has_lease = True
    assert one.described().start_offset == 1


def test_leaving_in_portions_stops_where_another_has_the_number() -> None:
    """Two leave under one name; the second is not done when somebody else has all."""
    turns: deque[Callable[[], None]] = deque()
    policy = SharePolicy(in_flight_max=10**6, member_in_flight_max=10**6, members_max=1)
    one = World(later=turns.append, policy=policy)
    one.load()

    def take(member: str) -> int:
        wanted = Wanted(member, 10_000, 40_000, 1_000)
        handed = [one.coordinator.acquire(KEY, wanted) for _ in range(4)]
        return sum(length(each.runs) for each in handed if isinstance(each, HandOut))

    one.coordinator.move(KEY, 0, Move.START, lambda _: None)
    assert take("a") == 40_000
    one.coordinator.leave(KEY, "a", lambda _: None)
    one.coordinator.leave(KEY, "a", lambda _: None)
    while not take("b"):
        turns.popleft()()
    while turns:
        turns.popleft()()
    assert one.described().in_flight_count == 40_000


def test_a_member_that_is_back_keeps_what_it_gets_while_it_is_still_leaving() -> None:
    """Its connection broke: what it had is freed in portions, and it fetches by a new one."""
    turns: deque[Callable[[], None]] = deque()
    policy = SharePolicy(in_flight_max=10**6, member_in_flight_max=10**6)
    one = World(later=turns.append, policy=policy)
    one.load()
    one.coordinator.move(KEY, 0, Move.START, lambda _: None)

    def take(count: int) -> HandOut:
        handed = one.coordinator.acquire(KEY, Wanted("a", count, VISIBLE, 60_000))
        assert isinstance(handed, HandOut)
        return handed

    assert [length(take(10_000).runs) for _ in range(2)] == [10_000, 10_000]
    one.coordinator.leave(KEY, "a", lambda _: None)
    again = take(20_000)
    while turns:
        turns.popleft()()
    assert one.described().in_flight_count == length(again.runs) > 0
