"""Windows of many chunks: nothing is missed where one ends, and no turn is long."""

import pytest

from penstock.shares.answers import Claim, Say, Times, Verdict, accept, say
from penstock.shares.cells import CELLS
from penstock.shares.config import SharePolicy
from penstock.shares.due import expire
from penstock.shares.hand_out import hand_out, settle_absent
from penstock.shares.ledger import Ledger
from penstock.shares.snapshot import snapshot
from penstock.shares.state import Moved
from penstock.shares.ticks import TICK_MAX, Timers, tick_of, ticks_in
from penstock.shares.updates.handed import Short, Wanted
from tests.shares.bench import FAR, check, flush, load, new_ledger, offsets, picture, take_over

MANY = 5 * CELLS + 100
POLICY = SharePolicy(in_flight_max=10**6, member_in_flight_max=10**6, window_max=10**6)


def take(ledger: Ledger, count: int, end: int = FAR, member: str = "a") -> list[tuple[int, int]]:
    """Return receipts."""
    found: list[tuple[int, int]] = []
    while len(found) < count:
        handed = hand_out(ledger, Wanted(member, count - len(found), end, 1_000), 10, POLICY)
        if not handed.runs:
            break
        found += [(offset, handed.nonce) for offset in offsets(handed.runs)]
    return found


def test_every_record_is_handed_out_and_accepted_once() -> None:
    ledger = new_ledger(CELLS - 7)
    receipts = take(ledger, MANY)
    assert [offset for offset, _ in receipts] == [*range(CELLS - 7, CELLS - 7 + MANY)]
    assert set(accept(ledger, receipts[::-1], FAR, MANY)) == {Verdict.TAKEN}
    flush(ledger)
    assert ledger.share.base == ledger.share.end == CELLS - 7 + MANY
    assert len(ledger.share.chunks) <= 1
    check(ledger.share)


def test_what_comes_back_in_an_early_chunk_is_found() -> None:
    ledger = new_ledger()
    receipts = take(ledger, MANY)
    offset, nonce = receipts[3]
    assert take(ledger, 1, end=MANY) == []
    say(ledger, Say.RELEASE, [Claim(offset, offset + 1, nonce)], "a", Times(1), POLICY)
    late = receipts[-1]
    say(ledger, Say.RELEASE, [Claim(late[0], late[0] + 1, late[1])], "a", Times(1), POLICY)
    assert [found for found, _ in take(ledger, 1, end=MANY)] == [3]
    assert [found for found, _ in take(ledger, 1, end=MANY)] == [MANY - 1]
    check(ledger.share)


def test_what_comes_back_before_what_was_handed_out_last_is_found() -> None:
    ledger = new_ledger()
    receipts = take(ledger, MANY)
    for at in (MANY - 1, CELLS, 3):
        offset, nonce = receipts[at]
        say(ledger, Say.RELEASE, [Claim(offset, offset + 1, nonce)], "a", Times(1), POLICY)
        assert [found for found, _ in take(ledger, 1, end=MANY)] == [at]
    check(ledger.share)


def test_what_comes_back_after_a_failover_is_found() -> None:
    ledger = new_ledger()
    (_, nonce), *_ = take(ledger, MANY)
    accept(ledger, [(0, nonce)], FAR, MANY)
    log = flush(ledger)
    other = take_over(log, 2)
    assert take(other, 1, end=MANY) == []
    while expire(other, 10, POLICY) == 5_000:
        check(other.share)
    assert [found for found, _ in take(other, MANY, end=MANY)] == [*range(1, MANY)]


def test_what_is_written_amid_a_snapshot_is_not_counted_as_covered_by_it() -> None:
    ledger = new_ledger()
    take(ledger, MANY)
    since, steps = ledger.share.seq, snapshot(ledger.share)
    next(steps)
    take(ledger, 1)
    assert ledger.share.seq > since
    assert len([*steps]) > 1
    assert ledger.share.snapshot_seq == since


@pytest.mark.parametrize("to", [0, 5, CELLS, 3 * CELLS + 17])
def test_a_snapshot_after_a_reset_has_nothing_of_before(to: int) -> None:
    """Where a compaction has left the chunks of before, and none of the updates."""
    ledger = new_ledger()
    take(ledger, MANY)
    flush(ledger)
    log = [*snapshot(ledger.share)]
    ledger.write(Moved(to, True, False, ledger.next_nonce()))
    take(ledger, 10)
    flush(ledger)
    log += snapshot(ledger.share)
    take(ledger, MANY // 2)
    log += flush(ledger)
    latest = {key: at for at, (key, *_) in enumerate(log)}
    loaded = load(record for at, record in enumerate(log) if latest[record[0]] == at)
    assert loaded is not None
    assert picture(loaded) == picture(ledger.share)


def test_a_snapshot_that_the_window_leaves_behind_says_where_it_begins() -> None:
    ledger = new_ledger()
    (_, nonce), *receipts = take(ledger, 3 * CELLS)
    accept(ledger, [(CELLS + 200, nonce)], FAR, MANY)
    flush(ledger)
    going = snapshot(ledger.share)
    log = [next(going)]
    accept(ledger, [(0, nonce), *receipts[: 2 * CELLS]], FAR, MANY)
    log += flush(ledger)
    log += going
    loaded = load(log)
    assert loaded is not None
    assert (loaded.base, loaded.end) == (2 * CELLS + 1, 3 * CELLS)
    assert picture(loaded) == picture(ledger.share)


def test_a_gap_of_a_million_is_one_update() -> None:
    ledger = new_ledger()
    take(ledger, 5)
    settle_absent(ledger, [(5, 900_000)], FAR, POLICY)
    assert len(flush(ledger)) <= 4
    assert [offset for offset, _ in take(ledger, 2)] == [900_000, 900_001]
    check(ledger.share)


def test_the_start_of_the_log_passes_chunks() -> None:
    ledger = new_ledger()
    take(ledger, MANY)
    ledger.write(Moved(3 * CELLS + 5, False, False, 0))
    assert min(ledger.share.chunks) == 3
    assert ledger.share.in_flight == MANY - 3 * CELLS - 5
    check(ledger.share)


def test_a_hand_out_has_a_bound_of_its_own() -> None:
    ledger = new_ledger()
    handed = hand_out(ledger, Wanted("a", 10**6, FAR, 1_000), 10, POLICY)
    assert len(offsets(handed.runs)) == 10_000
    assert handed.short is not Short.IN_FLIGHT


def test_a_hold_is_never_shorter_than_asked_for() -> None:
    assert [ticks_in(ms) for ms in (0, 1, 99, 100, 101)] == [0, 1, 1, 1, 2]


def test_wall_times_that_no_tick_has_are_the_first_or_the_last() -> None:
    assert tick_of(0) == 0
    assert tick_of(1 << 60) == TICK_MAX


def test_timers_give_runs_of_any_length_in_slices_and_nothing_early() -> None:
    timers = Timers()
    timers.add(7, 1_000, 200_000)
    timers.add(5, 3, 1)
    assert timers.pop_due(4, 10) is None
    assert timers.pop_due(5, 10) == (3, 4)
    assert timers.next_tick() == 7
    found: set[int] = set()
    while (run := timers.pop_due(7, 5_000)) is not None:
        assert run[1] - run[0] <= 5_000
        assert not found & set(range(*run))
        found.update(range(*run))
    assert found == set(range(1_000, 201_000))
    assert timers.next_tick() is None


def test_timers_count_the_offsets_that_are_left_of_a_run_taken_in_slices() -> None:
    timers = Timers()
    timers.add(5, 100, 10)
    assert timers.pop_due(5, 3) == (100, 103)
    assert (timers.offsets, timers.count) == (7, 1)
    assert timers.pop_due(5, 7) == (103, 110)
    assert (timers.offsets, timers.count) == (0, 0)
