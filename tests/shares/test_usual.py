"""The usual hand-out, in one call: the same as what looks at every case, and what its record says.

Two shares have one history. One hands out as in production, the other by `hand_out_any` alone.
"""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import CoordinatorEpoch
from penstock.coordinator.records import records_bytes
from penstock.shares.answers import Claim, Say, Times, accept, say
from penstock.shares.cells import CELLS, COUNT_MAX, MASK, SHIFT
from penstock.shares.config import SharePolicy
from penstock.shares.due import expire
from penstock.shares.hand_out import hand_out, hand_out_any
from penstock.shares.ledger import Ledger
from penstock.shares.records import SLOTS
from penstock.shares.state import NONCE_MASK, Acquired
from penstock.shares.ticks import IDLE_MAX, TICK_MAX
from penstock.shares.updates.compiled import hand_out_new
from penstock.shares.updates.handed import HAND_OUT_MAX, HandOut, Short, Wanted
from tests.shares.bench import FAR, cells, check, derived, flush, load, new_ledger, picture

twins = pytest.importorskip("penstock.shares.updates._hand_out", reason="needs the compiled twin")

STARTS = (0, CELLS - 9, 3 * CELLS, (1 << 46) - 40)
POLICY = SharePolicy(in_flight_max=60, member_in_flight_max=40, window_max=80, deliveries_max=4)
DUE = 700


def timers(ledger: Ledger) -> Any:
    kept = ledger.share.timers
    return [*kept.entries(-1)], kept.count, kept.offsets, kept.next_tick(), kept.is_crowded


def told(ledger: Ledger) -> Any:
    """Return all that there is of a share, and of what waits for the log."""
    records = [*ledger._records]
    assert ledger._bytes == records_bytes(records)
    tally = ledger._tally.count, ledger.pending_count
    return picture(ledger.share), derived(ledger.share), timers(ledger), records, tally


def counted(ledger: Ledger, count: int, offset: int) -> None:
    """Let the cells of offsets from one on say that they were handed out so often."""
    for at in range(offset, offset + 3):
        number = at >> SHIFT
        chunk = ledger.share.chunks.get(number) or ledger.share._new_chunk(number)
        chunk.counts[at & MASK] = count


class Both:
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        start = self.draw.choice(STARTS)
        self.both = new_ledger(start), new_ledger(start)
        self.logs: tuple[list[Any], list[Any]] = ([], [])
        seq, nonce = self.draw.choice((0, SLOTS - 5, 1 << 34)), self.draw.choice((0, 1, 9))
        for log, each in zip(self.logs, self.both, strict=True):
            log.extend(flush(each))
            each.share.seq += seq
            each.share.nonce = NONCE_MASK - nonce
        self.open: list[tuple[int, int]] = []
        self.now = 600

    def take(self) -> None:
        draw, end = self.draw, self.both[0].share.end
        wanted = Wanted(
            draw.choice("abc"),
            draw.choice((1, 1, 1, 2, 5, 32)),
            draw.choice((end, end + 1, end + 3, end + 30, FAR, FAR)),
            30_000,
            draw.choice(((), (), (), ((end + 1, end + 2),))),
            draw.choice(((), (), (), (end + 2, end + 9))),
        )
        due = self.now + draw.randrange(1, 4)
        one = hand_out(self.both[0], wanted, due, POLICY)
        other = hand_out_any(self.both[1], wanted, due, POLICY)
        assert one == other
        assert bytes(one.counts) == bytes(other.counts)
        self.open += [(offset, one.nonce) for run in one.runs for offset in range(*run)]

    def accept(self) -> None:
        self.draw.shuffle(self.open)
        some, self.open = self.open[:4], self.open[4:]
        one, other = (accept(each, some, FAR, POLICY.window_max) for each in self.both)
        assert one == other

    def release(self) -> None:
        for offset, nonce in self.open[:1]:
            claims = [Claim(offset, offset + 1, nonce)]
            for each in self.both:
                say(each, Say.RELEASE, claims, "a", Times(self.now), POLICY)
        del self.open[:1]

    def pass_time(self) -> None:
        self.now += 1
        assert expire(self.both[0], self.now, POLICY) == expire(self.both[1], self.now, POLICY)

    def flush(self) -> None:
        for log, each in zip(self.logs, self.both, strict=True):
            log.extend(flush(each))
        assert self.logs[0] == self.logs[1]
        loaded = load(self.logs[0])
        assert loaded is not None
        assert cells(loaded) == cells(self.both[0].share)
        assert (loaded.base, loaded.end) == (self.both[0].share.base, self.both[0].share.end)

    def compare(self) -> None:
        assert told(self.both[0]) == told(self.both[1])
        check(self.both[0].share)


@given(st.integers(0, 1 << 32))
def test_a_history_is_the_same_with_and_without_the_usual_hand_out(seed: int) -> None:
    both = Both(seed)
    steps = [both.take] * 6 + [both.accept] * 5 + [both.release, both.pass_time, both.flush]
    for _ in range(40):
        both.draw.choice(steps)()
        both.compare()
    both.flush()


def usual(count: int = 1, **differs: Any) -> Wanted:
    return Wanted("a", count, FAR, 30_000)._replace(**differs)


def begun(start: int = 0) -> Ledger:
    """Return a share of which the member has a record, so that it has a number."""
    ledger = new_ledger(start)
    hand_out_any(ledger, usual(), DUE, POLICY)
    return ledger


def test_a_member_with_a_number_has_new_records_by_the_usual_hand_out() -> None:
    ledger = begun()
    found = hand_out_new(ledger, usual(3), DUE, POLICY)
    assert found == HandOut(ledger.share.nonce - 1, [(1, 4)], bytes((1, 1, 1)), None)
    short = hand_out_new(ledger, usual(5, visible_end=6), DUE, POLICY)
    assert short is not None
    assert (short.runs, short.short) == ([(4, 6)], Short.NO_MORE)
    assert [type(one) for one in ledger.unwritten()][-2:] == [Acquired, Acquired]


@pytest.mark.parametrize(
    ("wanted", "due", "policy"),
    [
        pytest.param(usual(member="b"), DUE, POLICY, id="a member without a number"),
        pytest.param(usual(0), DUE, POLICY, id="none"),
        pytest.param(usual(HAND_OUT_MAX + 1), DUE, SharePolicy(), id="more than one hand-out has"),
        pytest.param(usual(absent=[(9, 10)]), DUE, POLICY, id="absent records"),
        pytest.param(usual(batch_ends=[9]), DUE, POLICY, id="ends of batches"),
        pytest.param(usual(visible_end=1), DUE, POLICY, id="nothing that is visible"),
        pytest.param(usual(2), DUE, SharePolicy(in_flight_max=2), id="the share's bound"),
        pytest.param(usual(2), DUE, SharePolicy(member_in_flight_max=2), id="the member's bound"),
        pytest.param(usual(2), DUE, SharePolicy(window_max=2), id="the window's bound"),
        pytest.param(usual(), TICK_MAX + 1, POLICY, id="a tick of more than 32 bits"),
    ],
)
def test_what_is_not_usual_changes_nothing(wanted: Any, due: int, policy: SharePolicy) -> None:
    ledger = begun()
    before = told(ledger)
    assert hand_out_new(ledger, wanted, due, policy) is None
    assert told(ledger) == before


def test_what_came_back_is_not_passed_over() -> None:
    ledger = begun()
    say(ledger, Say.RELEASE, [Claim(0, 1, ledger.share.nonce - 1)], "a", Times(1), POLICY)
    assert hand_out_new(ledger, usual(), DUE, POLICY) is None
    assert hand_out(ledger, usual(), DUE, POLICY).runs == [(0, 1)]


def test_a_share_with_order_and_a_mastership_that_has_not_written_are_looked_at_closely() -> None:
    ordered, fresh = new_ledger(is_ordered=True), begun()
    ordered.share.members.put(1, "a")
    fresh.share.begin_tenure(CoordinatorEpoch(2))
    for ledger in (ordered, fresh):
        before = told(ledger)
        assert hand_out_new(ledger, usual(), DUE, POLICY) is None
        assert told(ledger) == before


@pytest.mark.parametrize("count", [0, 1, COUNT_MAX - 1, COUNT_MAX])
def test_cells_that_were_handed_out_before_count_on_up_to_their_bound(count: int) -> None:
    one, other = begun(7), begun(7)
    for each in (one, other):
        counted(each, count, 8)
    assert hand_out_new(one, usual(3), DUE, POLICY) == hand_out_any(other, usual(3), DUE, POLICY)
    assert told(one) == told(other)


def test_records_up_to_the_end_of_a_chunk_are_usual_and_those_over_it_are_not() -> None:
    ledger = begun(CELLS - 4)
    assert hand_out_new(ledger, usual(4), DUE, POLICY) is None
    assert hand_out_new(ledger, usual(3), DUE, POLICY) is not None
    following = hand_out_new(ledger, usual(2), DUE, POLICY)
    assert following is not None
    assert following.runs == [(CELLS, CELLS + 2)]


def test_timers_of_what_is_over_are_thinned_as_often_as_they_are_without_it() -> None:
    one, other = begun(), begun()
    receipt, usually = (0, one.share.nonce - 1), 0
    for number in range(IDLE_MAX + 40):
        for each in (one, other):
            accept(each, [receipt], FAR, POLICY.window_max)
        if number % 30 == 0:
            assert flush(one) == flush(other)
        due = DUE + number % 3
        found = hand_out_new(one, usual(), due, POLICY)
        usually += found is not None
        found = found or hand_out_any(one, usual(), due, POLICY)
        assert found == hand_out_any(other, usual(), due, POLICY)
        receipt = found.runs[0][0], found.nonce
    assert told(one) == told(other)
    assert one.share.timers.count < 100
    assert usually > 0.9 * IDLE_MAX
