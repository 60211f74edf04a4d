"""What a share takes in memory goes by what its members hold, not by how often they ask."""

from penstock.shares.answers import Claim, Say, Times, say
from penstock.shares.cells import CELLS, CHUNK_BYTES
from penstock.shares.config import SharePolicy
from penstock.shares.due import DUE_MAX, expire
from penstock.shares.hand_out import hand_out
from penstock.shares.ledger import Ledger
from penstock.shares.members import NAMES_BYTES
from penstock.shares.messages import Answer, Unavailable
from penstock.shares.share import SHARE_BYTES
from penstock.shares.state import Moved, ShareKey
from penstock.shares.ticks import IDLE_MAX
from penstock.shares.updates.handed import Wanted
from tests.shares.bench import FAR, KEY, check, flush, new_ledger, offsets, take_over
from tests.shares.world import World

HELD = 2_000
TIMES_OVER = 50
POLICY = SharePolicy(deliveries_max=0)


def take(ledger: Ledger, due: int, count: int = HELD) -> list[int]:
    handed = hand_out(ledger, Wanted("a", count, FAR, 1_000), due, POLICY)
    return [*offsets(handed.runs)]


def every_second(count: int = HELD) -> list[Claim]:
    return [Claim(first, first + 1) for first in range(0, count, 2)]


def ended_at(ledger: Ledger, tick: int) -> list[int]:
    """Let time pass; return what is free again."""
    while expire(ledger, tick, POLICY) == DUE_MAX:
        check(ledger.share)
    handed = hand_out(ledger, Wanted("a", HELD, HELD, 1_000), 1_000_000, POLICY)
    return [*offsets(handed.runs)]


def test_records_that_are_renewed_again_and_again_have_one_timer_each() -> None:
    ledger = new_ledger()
    assert take(ledger, 10) == [*range(HELD)]
    for tick in range(11, 11 + TIMES_OVER):
        for _ in range(3):
            say(ledger, Say.RENEW, every_second(), "a", Times(1, tick), POLICY)
        flush(ledger)
        assert ledger.share.timers.offsets <= IDLE_MAX + 3 * HELD
    check(ledger.share)
    last = 10 + TIMES_OVER
    odd = [*range(1, HELD, 2)]
    assert ended_at(ledger, 10) == odd
    assert ended_at(ledger, last - 1) == []
    assert ended_at(ledger, last) == [*range(0, HELD, 2)]


def test_records_that_are_handed_back_and_forth_have_one_timer_each() -> None:
    ledger = new_ledger()
    for tick in range(10, 10 + TIMES_OVER):
        assert take(ledger, tick) == [*range(HELD)]
        assert ledger.share.timers.offsets <= IDLE_MAX + 3 * HELD
        say(ledger, Say.RELEASE, [Claim(0, HELD)], "a", Times(1), POLICY)
        flush(ledger)
    assert take(ledger, 70) == [*range(HELD)]
    assert ended_at(ledger, 69) == []
    assert ended_at(ledger, 70) == [*range(HELD)]


def test_pauses_end_also_where_timers_were_thinned_out() -> None:
    ledger = new_ledger()
    for _ in range(TIMES_OVER):
        assert take(ledger, 500) == [*range(HELD)]
        say(ledger, Say.RELEASE, [Claim(0, HELD)], "a", Times(1), POLICY)
    assert take(ledger, 500) == [*range(HELD)]
    say(ledger, Say.RELEASE, every_second(), "a", Times(1, pause_ticks=6), POLICY)
    for _ in range(TIMES_OVER):
        say(ledger, Say.RENEW, [Claim(1, 2)] * 500, "a", Times(1, 400), POLICY)
    assert ended_at(ledger, 6) == []
    assert ended_at(ledger, 7) == [*range(0, HELD, 2)]


def test_holders_that_were_found_when_loading_keep_their_grace() -> None:
    ledger = new_ledger()
    take(ledger, 10)
    other = take_over(flush(ledger), 2, expires_from=200)
    for _ in range(2 * IDLE_MAX // HELD):
        say(other, Say.RENEW, every_second(), "a", Times(1, 300), POLICY)
        say(other, Say.RENEW, every_second(), "a", Times(1, 301), POLICY)
    assert other.share.timers.offsets < IDLE_MAX + 3 * HELD
    assert ended_at(other, 199) == []
    assert ended_at(other, 200) == [*range(1, HELD, 2)]
    assert ended_at(other, 301) == [*range(0, HELD, 2)]


def test_a_share_with_nothing_in_its_window_has_no_cells() -> None:
    ledger = new_ledger()
    for first in (0, 1, 5_000):
        ledger.write(Moved(first, False, False, 0))
        assert ledger.share.chunks == {}
        assert take(ledger, 10, 1) == [first]
        say(ledger, Say.ACCEPT, [Claim(first, first + 1)], "a", Times(1), POLICY)
        assert ledger.share.chunks == {}
    log = flush(ledger)
    other = take_over(log, 2)
    assert other.share.chunks == {}
    assert take(other, 10, 3) == [5_001, 5_002, 5_003]
    check(other.share)
    other.write(Moved(6_000, False, False, 0))
    assert other.share.chunks == {}


def test_names_of_members_that_hold_nothing_give_way_to_others() -> None:
    ledger = new_ledger()
    policy = SharePolicy()
    for number in range(500):
        name = f"{number:->1000}"
        (offset,) = offsets(hand_out(ledger, Wanted(name, 1, FAR, 1_000), 10, policy).runs)
        say(ledger, Say.ACCEPT, [Claim(offset, offset + 1)], name, Times(1), policy)
        flush(ledger)
    assert ledger.share.members.names_bytes <= NAMES_BYTES + 2_000
    check(ledger.share)


def other(number: int) -> ShareKey:
    return KEY._replace(group=f"other {number}")


def world(memory_bytes_max: int) -> World:
    policy = SharePolicy(in_flight_max=10**6, member_in_flight_max=10**6)
    found = World(policy=policy, memory_bytes_max=memory_bytes_max).load()
    assert found.start() == Answer()
    return found


def fill(of: World) -> int:
    """Hand out as much as there is memory for; return how many records that are."""
    count = 0
    while handed := of.take(CELLS).counts:
        count += len(handed)
    return count


def test_a_share_with_a_large_window_leaves_half_of_the_memory_to_others() -> None:
    of = world(10 * CHUNK_BYTES)
    assert fill(of) == 5 * CELLS
    assert of.start(key=other(0)) == Answer()
    assert len(of.take(100, key=other(0)).counts) == 100


def test_what_comes_back_is_handed_out_where_there_is_no_memory_for_more() -> None:
    of = world(2 * CHUNK_BYTES)
    assert fill(of) > 0
    of.later(40_000)
    assert [*offsets(of.take(10).runs)] == [*range(10)]


def test_no_share_begins_where_there_is_no_memory_until_one_is_deleted() -> None:
    of = world(4 * SHARE_BYTES)
    for number in range(3):
        assert of.start(key=other(number)) == Answer()
    assert of.start(key=other(3)) == Answer(Unavailable.TOO_MANY)
    assert of.ask(lambda told: of.coordinator.delete(other(0), told)) == Answer()
    assert of.start(key=other(3)) == Answer()


def test_memory_is_told_and_comes_back_when_records_are_accepted() -> None:
    of = world(10 * CHUNK_BYTES)
    before = of.coordinator.here.memory_bytes
    handed = of.take(2 * CELLS)
    during = of.coordinator.here.memory_bytes
    assert during >= before + 2 * CHUNK_BYTES
    assert of.elsewhere().coordinator.here.memory_bytes >= before + 2 * CHUNK_BYTES
    of.accept(handed)
    of.later(40_000)
    assert of.coordinator.here.memory_bytes < before + 1_000
    of.ask(lambda told: of.coordinator.delete(KEY, told))
    assert of.coordinator.here.memory_bytes == 0
