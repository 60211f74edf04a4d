"""Hand-outs beside what a turn has accepted: the same as if that had been settled before."""

import random
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.shares.answers import Claim, Say, Times, Verdict, accept, say
from penstock.shares.cells import DONE
from penstock.shares.config import SharePolicy
from penstock.shares.hand_out import hand_out
from penstock.shares.ledger import Ledger
from penstock.shares.state import Acquired, Settled
from penstock.shares.updates.handed import HandOut, Short, Wanted
from tests.shares.bench import FAR, cells, derived, flush, load, new_ledger, take_over

DUE = 600
NOW = Times(1)


def take(ledger: Ledger, count: int, member: str = "a", **wanted: Any) -> HandOut:
    asked = Wanted(member, count, **{"visible_end": FAR, "lock_ms": 30_000} | wanted)
    return hand_out(ledger, asked, DUE, SharePolicy())


def updates(ledger: Ledger) -> list[type]:
    return [type(update) for update in ledger.unwritten()]


def receipts(handed: HandOut) -> list[tuple[int, int]]:
    return [(offset, handed.nonce) for run in handed.runs for offset in range(*run)]


def test_a_turn_of_many_hand_outs_settles_all_that_it_accepted_by_one_update() -> None:
    ledger = new_ledger()
    take(ledger, 1)
    flush(ledger)
    for _ in range(20):
        accept(ledger, receipts(take(ledger, 1)), FAR, 1_000)
    records = flush(ledger)
    assert len(records) == 21
    assert ledger.share.in_flight == 1
    assert cells(ledger.share)[1:] == [(offset, DONE) for offset in range(1, 21)]


def test_a_hand_out_closes_where_a_bound_is_near() -> None:
    ledger = new_ledger()
    policy = SharePolicy(in_flight_max=4)
    wanted = Wanted("a", 2, FAR, 30_000)
    first = hand_out(ledger, wanted, DUE, policy)
    hand_out(ledger, wanted, DUE, policy)
    accept(ledger, receipts(first), FAR, 1_000)
    third = hand_out(ledger, wanted, DUE, policy)
    assert third.runs == [(4, 6)]
    assert third.short is None
    assert updates(ledger)[-2:] == [Settled, Acquired]


def test_what_a_forgiven_receipt_has_accepted_is_not_handed_out() -> None:
    """The log does not know its hand-out: the record is FREE, or not in the window yet."""
    ledger = new_ledger()
    log = flush(ledger)
    take(ledger, 1, "b")
    log += flush(ledger)
    lost = take(ledger, 3)
    following = take_over(log, 2)
    take(following, 1, "a")
    assert accept(following, receipts(lost)[1:], FAR, 1_000) == [Verdict.TAKEN] * 2
    assert take(following, 3).runs == [(4, 7)]


@pytest.mark.parametrize("is_ordered", [False, True])
def test_a_record_that_comes_back_in_the_same_turn_is_handed_out_again(*, is_ordered: bool) -> None:
    ledger = new_ledger(is_ordered=is_ordered)
    keys = array("I", range(10)) if is_ordered else None
    handed = take(ledger, 3, hashes=keys)
    accept(ledger, receipts(handed)[:1], FAR, 1_000)
    say(ledger, Say.RELEASE, [Claim(1, 2, handed.nonce)], "a", NOW, SharePolicy())
    assert take(ledger, 1, hashes=keys).runs == [(1, 2)]


class Twins:
    """One share that settles what is accepted before each hand-out, and one that need not."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.both = new_ledger(), new_ledger()
        self.logs: tuple[list[Any], list[Any]] = ([], [])
        self.open: list[tuple[int, int]] = []
        self.policy = SharePolicy(in_flight_max=25, member_in_flight_max=14, window_max=40)

    def take(self) -> None:
        count, member = self.draw.randrange(1, 7), self.draw.choice("abc")
        end = self.both[0].share.end
        visible = self.draw.choice((end + 3, end + 30, FAR))
        ends = self.draw.choice(((), (end + 2, end + 9)))
        wanted = Wanted(member, count, visible, 30_000, batch_ends=ends)
        self.both[0].close()
        one, other = (hand_out(each, wanted, DUE, self.policy) for each in self.both)
        assert one == other
        self.open += receipts(one)

    def accept(self) -> None:
        self.draw.shuffle(self.open)
        some, self.open = self.open[:3], self.open[3:]
        one, other = (accept(each, some, FAR, 40) for each in self.both)
        assert one == other

    def release(self) -> None:
        for offset, nonce in self.open[:1]:
            for each in self.both:
                claims = [Claim(offset, offset + 1, nonce)]
                say(each, Say.RELEASE, claims, "a", NOW, self.policy)
        del self.open[:1]

    def flush(self) -> None:
        for log, each in zip(self.logs, self.both, strict=True):
            log.extend(flush(each))
        states = [(cells(each.share), derived(each.share)) for each in self.both]
        assert states[0] == states[1]
        loaded = [load(log) for log in self.logs]
        assert all(loaded)
        assert [cells(each) for each in loaded if each] == [states[0][0]] * 2


@given(st.integers(0, 1 << 32))
def test_hand_outs_are_the_same_whether_what_was_accepted_is_settled_before(seed: int) -> None:
    twins = Twins(seed)
    steps = [twins.take] * 5 + [twins.accept] * 5 + [twins.release, twins.flush]
    for _ in range(40):
        twins.draw.choice(steps)()
    twins.flush()


def test_a_hand_out_of_none_says_why_as_before() -> None:
    ledger = new_ledger()
    take(ledger, 1)
    assert take(ledger, 1, visible_end=1).short is Short.NO_MORE
