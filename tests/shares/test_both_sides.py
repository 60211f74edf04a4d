"""Bounds on both sides, and what is left where a share goes away amid something."""

from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from penstock.coordinator.unwritten import Unwritten
from penstock.shares.answers import CLAIM_MAX, Claim, Say, Verdict, are_few
from penstock.shares.cells import ACQUIRED, CELLS, FREE, STATE_COUNT, WAITING, Chunk
from penstock.shares.config import SharePolicy
from penstock.shares.coordinator import Move
from penstock.shares.find import DELIVERIES_TOLD
from penstock.shares.messages import Answer, Outlook, Unavailable
from penstock.shares.reading import OFFSET_MAX
from penstock.shares.state import ShareKey
from penstock.shares.ticks import TICK_MS
from penstock.shares.updates.handed import HandOut, Wanted
from tests.shares.bench import KEY, check, offsets, picture
from tests.shares.test_taking import world
from tests.shares.world import LOCK_MS, VISIBLE, World

OTHER = ShareKey("other", KEY.topic_id, KEY.partition)
ROOMY = SharePolicy(in_flight_max=10**6, member_in_flight_max=10**6, window_max=10**6)


def turning(policy: SharePolicy = ROOMY) -> tuple[World, deque[Callable[[], None]]]:
    """Return a world whose turns are in the test's hand, with a share that has begun."""
    turns: deque[Callable[[], None]] = deque()
    one = World(later=turns.append, policy=policy).load()
    one.coordinator.move(KEY, 0, Move.START, lambda _: None)
    finish(one, turns)
    return one, turns


def finish(one: World, turns: deque[Callable[[], None]]) -> None:
    while turns or one.journal.under_way:
        one.journal.confirm()
        if turns:
            turns.popleft()()


# What a client names


def test_claims_may_be_so_many_and_reach_the_last_offset() -> None:
    assert are_few([Claim(0, CLAIM_MAX)])
    assert are_few([Claim(0, CLAIM_MAX - 1), Claim(7, 8)])
    assert not are_few([Claim(0, CLAIM_MAX), Claim(7, 8)])
    assert are_few([Claim(OFFSET_MAX - 1, OFFSET_MAX)])
    assert not are_few([Claim(OFFSET_MAX, OFFSET_MAX + 1)])
    one = world()
    receipts = [(offset, 0) for offset in range(CLAIM_MAX)]
    accept = one.coordinator.accept
    assert one.ask(lambda told: accept(KEY, receipts, VISIBLE, told)).why_not is None
    assert one.start(OFFSET_MAX, Move.RESET).why_not is None


def test_who_has_the_receipt_needs_no_name() -> None:
    one = world()
    handed = one.take(2)
    claims = [Claim(0, 2, handed.nonce)]
    say = one.coordinator.say
    reply = one.ask(lambda told: say(KEY, Say.ACCEPT, claims, "never seen", told))
    assert reply.verdicts == [Verdict.TAKEN]
    assert one.described().start_offset == 2


@pytest.mark.parametrize("what", [Say.RELEASE, Say.REJECT, Say.ACCEPT])
def test_a_receipt_says_nothing_of_what_another_has_done_with_the_record(what: Say) -> None:
    one = World(policy=SharePolicy(has_dead_letters=True)).load()
    one.start()
    first = one.take(2)
    one.say(Say.RELEASE, first, (1, 2))
    second = one.take(1, "b", visible_end=2)
    assert offsets(second.runs) == [1]
    one.say(what, second, (1, 2))
    assert one.say(what, second, (1, 2)).verdicts == [Verdict.ALREADY]
    assert one.say(what, first, (1, 2)).verdicts == [Verdict.LAPSED]


# Where a window is


def test_an_ordered_share_stays_ordered_when_it_is_reset() -> None:
    one = World().load()
    one.start(0, Move.START_ORDERED)
    one.start(5, Move.RESET)
    found = one.coordinator.outlook(KEY)
    assert isinstance(found, Outlook)
    assert (found.is_ordered, one.elsewhere().described().is_ordered) == (True, True)


def outlook_of(one: World) -> Outlook:
    found = one.coordinator.outlook(KEY)
    assert isinstance(found, Outlook), found
    return found


@pytest.mark.parametrize("seed", range(12))
def test_an_outlook_is_what_counting_the_cells_gives(seed: int) -> None:
    """Records come back on either side of the end of a chunk, at its first place too."""
    random = Random(seed)
    policy = SharePolicy(in_flight_max=12, window_max=16, deliveries_max=0)
    one = World(policy=policy).load()
    one.start(CELLS - 6)
    held: list[HandOut] = []
    for _ in range(60):
        if random.random() < 0.5 or not held:
            handed = one.take(random.choice([1, 3, 20]))
            held += [handed] if handed.runs else []
        else:
            handed = held.pop(random.randrange(len(held)))
            for run in handed.runs:
                one.say(random.choice([Say.RELEASE, Say.ACCEPT]), handed, run)
        check_outlook(one, policy)


def check_outlook(one: World, policy: SharePolicy) -> None:
    found, share = outlook_of(one), one.coordinator._shard.by_partition[0].ledgers[KEY].share
    states = {offset: share.state_of(offset) for offset in range(share.base, share.end)}
    free = [offset for offset, state in states.items() if state == FREE]
    assert found[0] == share.base
    assert found[1] == min(free, default=share.end)
    is_open = bool(free) or share.end - share.base < policy.window_max
    in_flight = list(states.values()).count(ACQUIRED)
    assert found[2] == (policy.in_flight_max - in_flight if is_open else 0)


# What was accepted in the same turn

Then = Callable[[World, HandOut, list[object]], None]


def saying(what: Say) -> Then:
    def say(one: World, handed: HandOut, told: list[object]) -> None:
        claims = [Claim(at, at + 1, handed.nonce) for at in range(6)]
        one.coordinator.say(KEY, what, claims, "a", told.append, 500)

    return say


def ends(one: World, _: HandOut, __: list[object]) -> None:
    one.clock.now_ms += LOCK_MS + TICK_MS
    one.coordinator.runtime.tick(one.clock.now_ms)


NEXT: dict[str, Then] = {
    **{what.name.lower(): saying(what) for what in Say},
    "the time ends": ends,
    "the member leaves": lambda one, _, told: one.coordinator.leave(KEY, "a", told.append),
    "the log begins later": lambda one, _, told: one.coordinator.move(
        KEY, 1, Move.ADVANCE, told.append
    ),
    "copies are there": lambda one, _, __: one.coordinator.dead_lettered(KEY, [(0, 4)]),
    "some are absent": lambda one, _, told: one.coordinator.absent(
        KEY, [(1, 3)], VISIBLE, told.append
    ),
    "somebody asks": lambda one, _, told: told.append(outlook_of(one).next_offset),
    "somebody takes": lambda one, _, told: told.append(
        one.coordinator.acquire(KEY, Wanted("b", 3, VISIBLE, 1_000))
    ),
}


def after(then: Then, *, is_ordered: bool, is_settled_first: bool) -> tuple[object, ...]:
    """Return what is answered, and the share then: on this master and on the next one."""
    one, turns = turning(replace(ROOMY, has_dead_letters=True))
    if is_ordered:
        one.coordinator.delete(KEY, lambda _: None)
        one.coordinator.move(KEY, 0, Move.START_ORDERED, lambda _: None)
    hashes = array("I", (1, 2, 1, 3, 2, 4)) if is_ordered else None
    handed = one.coordinator.acquire(KEY, Wanted("a", 6, 6, LOCK_MS, hashes=hashes))
    assert isinstance(handed, HandOut)
    finish(one, turns)
    taken = offsets(handed.runs)
    one.coordinator.accept(KEY, [(at, handed.nonce) for at in taken[:2]], VISIBLE, lambda _: None)
    if is_settled_first:
        finish(one, turns)
    told: list[object] = []
    then(one, handed, told)
    finish(one, turns)
    return told, [shown(each) for each in (one, one.elsewhere())]


def shown(one: World) -> dict[str, object]:
    share = one.coordinator._shard.by_partition[0].ledgers[KEY].share
    check(share)
    seen = picture(share)
    return {name: seen[name] for name in seen if name not in {"seq", "epoch"}}


@pytest.mark.parametrize("is_ordered", [False, True])
@pytest.mark.parametrize("then", NEXT.values(), ids=NEXT)
def test_what_comes_next_finds_what_was_accepted_in_the_same_turn_over(
    then: Then, *, is_ordered: bool
) -> None:
    both = [after(then, is_ordered=is_ordered, is_settled_first=first) for first in (True, False)]
    assert both[0] == both[1]


# What time does


def test_a_hold_ends_with_its_tick_also_beside_records_that_are_over() -> None:
    one = World(policy=SharePolicy(deliveries_max=0)).load()
    one.start()
    one.clock.now_ms -= one.clock.wall_ms() % TICK_MS
    handed = one.take(4)
    one.accept(handed, 1)
    one.later(LOCK_MS - 1)
    assert one.described().in_flight_count == 3
    one.later(1)
    assert one.described().in_flight_count == 0
    assert offsets(one.take(10, visible_end=4).runs) == [0, 2, 3]
    assert one.coordinator.counters.ended == 4


@pytest.mark.parametrize("is_late", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_places_that_wait_for_a_tick_are_those_that_say_so(seed: int, *, is_late: bool) -> None:
    random, chunk = Random(seed), Chunk(is_ordered=False)
    tick, count = 50, 40
    for place in range(count):
        chunk.states[place] = random.choice([ACQUIRED, WAITING, *range(STATE_COUNT)])
        chunk.dues[place] = random.choice([tick - 1, tick, tick, tick + 1])
    found = offsets([*chunk.timed(3, count, tick, is_late=is_late)])
    assert found == [
        place
        for place in range(3, count)
        if chunk.states[place] in {ACQUIRED, WAITING}
        if chunk.dues[place] == tick or (is_late and chunk.dues[place] < tick)
    ]


def test_records_are_counted_by_how_often_they_were_handed_out() -> None:
    one = World(policy=SharePolicy(deliveries_max=0)).load()
    one.start()
    for times in range(DELIVERIES_TOLD + 3):
        (found,) = one.described().delivered if times else ([0] * DELIVERIES_TOLD,)
        assert [at + 1 for at, count in enumerate(found) for _ in range(count)] == (
            [min(times, DELIVERIES_TOLD)] if times else []
        )
        one.say(Say.RELEASE, one.take(1, visible_end=1), (0, 1))


def test_deliveries_are_counted_where_a_chunk_has_gone_since_the_last_step() -> None:
    one = World(policy=ROOMY).load()
    one.start()
    for _ in range(2):
        one.take(10_000, visible_end=3 * CELLS)
    steps = one.described().delivered
    assert sum(next(steps)) == CELLS
    one.start(2 * CELLS + 5, Move.ADVANCE)
    assert [sum(counts) for counts in steps] == [CELLS - 5]


# What goes away


def many_held(one: World) -> None:
    for _ in range(4):
        assert isinstance(one.take(10_000), HandOut)


def leave(one: World, told: list[Answer]) -> None:
    one.coordinator.leave(KEY, "a", told.append)


def advance(one: World, told: list[Answer]) -> None:
    one.coordinator.move(KEY, 39_000, Move.ADVANCE, told.append)


@pytest.mark.parametrize("work", [leave, advance])
@pytest.mark.parametrize("is_remade", [False, True])
def test_long_work_stops_where_its_share_is_deleted_meanwhile(
    work: Callable[[World, list[Answer]], None], *, is_remade: bool
) -> None:
    one, turns = turning()
    many_held(one)
    told: list[Answer] = []
    work(one, told)
    assert turns, "it takes more than one turn"
    one.coordinator.delete(KEY, lambda _: None)
    if is_remade:
        one.coordinator.move(KEY, 0, Move.START, lambda _: None)
        one.take(5)
    finish(one, turns)
    assert told == [Answer(Unavailable.NOT_HERE)]
    following = one.elsewhere()
    if is_remade:
        for each in (one, following):
            assert (each.described().start_offset, each.described().in_flight_count) == (0, 5)
    else:
        *_, last = one.journal.records()
        assert last.value is None, "nothing is written behind the deletion"
        assert one.coordinator.describe(KEY) is Unavailable.NOT_STARTED
        assert following.coordinator.describe(KEY) is Unavailable.NOT_STARTED


@pytest.mark.parametrize("work", [leave, advance])
def test_long_work_does_all_of_it(work: Callable[[World, list[Answer]], None]) -> None:
    one, turns = turning()
    many_held(one)
    told: list[Answer] = []
    work(one, told)
    finish(one, turns)
    assert told == [Answer()]
    state = one.described()
    expected = (0, 0) if work is leave else (39_000, 1_000)
    assert (state.start_offset, state.in_flight_count) == expected
    assert one.elsewhere().described().start_offset == expected[0]


def test_a_share_that_is_deleted_while_others_are_forgotten_is_left_alone() -> None:
    one, turns = turning()
    keys = [KEY._replace(group=f"g{number}") for number in range(5)]
    for key in keys:
        one.coordinator.move(key, 0, Move.START, lambda _: None)
    finish(one, turns)

    def is_gone(key: ShareKey) -> bool:
        if key == keys[0]:
            one.coordinator.delete(keys[-1], lambda _: None)
            one.coordinator.move(keys[-1], 7, Move.START, lambda _: None)
        return key != KEY

    one.coordinator.forget(is_gone)
    finish(one, turns)
    for each in (one, one.elsewhere()):
        assert {*each.coordinator.here.keys()} == {KEY, keys[-1]}
        assert each.described(keys[-1]).start_offset == 7


def deadlines(one: World) -> int:
    return len(one.coordinator._base.deadlines)


WAYS_TO_GO: dict[str, Callable[[World], None]] = {
    "deleted": lambda one: one.coordinator.delete(KEY, lambda _: None),
    "forgotten": lambda one: one.coordinator.forget(lambda key: key == KEY),
    "elsewhere": lambda one: one.coordinator.runtime.unload(0),
}


@pytest.mark.parametrize("go", WAYS_TO_GO.values(), ids=WAYS_TO_GO)
def test_a_share_that_goes_leaves_no_deadline(go: Callable[[World], None]) -> None:
    one = world()
    one.take(3)
    assert deadlines(one) == 1
    go(one)
    one.settle()
    assert deadlines(one) == 0


def test_a_partition_that_goes_leaves_no_write_to_be_repeated() -> None:
    one = world()
    one.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    one.take(3)
    assert one.coordinator.counters.refused_writes == 1
    assert deadlines(one) == 2
    one.coordinator.runtime.unload(0)
    assert deadlines(one) == 0


def test_only_shares_whose_data_is_gone_are_forgotten_and_the_log_forgets_them_too() -> None:
    one = world()
    one.start(key=OTHER)
    handed = one.take(3)
    one.take(3, key=OTHER)
    one.coordinator.forget(lambda key: key == KEY)
    one.settle()
    assert one.accept(handed).why_not is Unavailable.NOT_STARTED
    for each in (one, one.elsewhere()):
        assert [*each.coordinator.here.keys()] == [OTHER]
        assert each.described(OTHER).in_flight_count == 3
