"""What shares have done with their records is told, once it is confirmed."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.unwritten import Unwritten
from penstock.shares.answers import Say
from penstock.shares.config import SharePolicy
from penstock.shares.coordinator import Move
from penstock.shares.ledger import NONE_UNWANTED
from penstock.shares.messages import Told, Unavailable
from penstock.shares.runs import runs_of
from penstock.shares.state import ShareKey
from penstock.shares.updates.tracing import Event, parted
from tests.shares.bench import KEY
from tests.shares.world import LOCK_MS, World


class Heard:
    """Keeps what is told; wants nothing while `is_on` is False."""

    def __init__(self) -> None:
        self.is_on = True
        self.events: list[Event] = []

    def wants(self, key: ShareKey) -> bool:
        assert key == KEY
        return self.is_on

    def happened(self, key: ShareKey, events: Sequence[Event]) -> None:
        assert key == KEY
        self.events += events

    def taken(self) -> list[tuple[str, list[tuple[int, int]], str]]:
        events, self.events = self.events, []
        return [(one.name, list(one.runs), one.member) for one in events]


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def one(heard: Heard) -> World:
    world = World(traces=heard).load()
    world.start()
    assert heard.taken() == []
    return world


def test_a_delivery_and_each_of_its_results_are_told(one: World, heard: Heard) -> None:
    handed = one.take(5)
    assert heard.taken() == [("delivered", [(0, 5)], "a")]
    one.accept(handed, 0)
    one.say(Say.RELEASE, handed, (1, 2))
    one.say(Say.REJECT, handed, (2, 3))
    one.say(Say.RENEW, handed, (3, 4))
    assert heard.taken() == [
        ("done", [(0, 1)], ""),
        ("released", [(1, 2)], ""),
        ("given_up", [(2, 3)], ""),
        ("renewed", [(3, 4)], ""),
    ]
    one.take(1, member="b")
    one.later(2 * LOCK_MS)
    told = heard.taken()
    assert told[0] == ("delivered", [(1, 2)], "b")
    assert {name for name, _, _ in told[1:]} == {"released"}, "its time is over"
    assert sorted(run for _, runs, _ in told[1:] for run in runs) == [(1, 2), (3, 5)]


def test_a_dead_letter_is_told_as_it_is_given_and_once_its_copy_is_there(heard: Heard) -> None:
    one = World(policy=SharePolicy(has_dead_letters=True), traces=heard).load()
    one.start()
    one.say(Say.REJECT, one.take(1))
    assert [name for name, _, _ in heard.taken()] == ["delivered", "dead_letter"]
    one.coordinator.dead_lettered(KEY, [(0, 1)])
    one.settle()
    assert heard.taken() == [("given_up", [(0, 1)], "")]


def test_nothing_is_told_before_it_is_confirmed(one: World, heard: Heard) -> None:
    one.is_prompt = False
    one.take(1)
    assert heard.events == []
    one.journal.confirm()
    assert heard.taken() == [("delivered", [(0, 1)], "a")]


def test_what_the_log_has_refused_is_told_once_when_it_has_it(one: World, heard: Heard) -> None:
    one.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    one.take(1)
    assert heard.events == []
    one.journal.refuses = None
    one.later(one.coordinator.config.retry_ms)
    assert heard.taken() == [("delivered", [(0, 1)], "a")]


def test_what_is_lost_with_a_mastership_is_not_told(one: World, heard: Heard) -> None:
    one.is_prompt = False
    one.take(1)
    (batch,) = one.journal.lose(0)
    batch.done(Unwritten.OVERTAKEN)
    assert heard.events == []


def test_what_is_not_wanted_is_not_looked_at(one: World, heard: Heard) -> None:
    heard.is_on = False
    one.accept(one.take(1))
    assert heard.events == []
    heard.is_on = True
    one.take(1)
    assert heard.taken() == [("delivered", [(1, 2)], "a")]


def test_a_number_that_has_another_member_by_now_does_not_take_the_first_one_s_records(
    heard: Heard,
) -> None:
    # Both hand-outs are in one write, and the second member gets the number of the first.
    turn: list[Callable[[], None]] = []
    one = World(policy=SharePolicy(members_max=1), traces=heard, later=turn.append).load()

    def end_turn() -> None:
        while turn:
            turn.pop(0)()
        one.settle()

    one.begin(lambda told: one.coordinator.move(KEY, 0, Move.START, told))
    end_turn()
    receipts = [(0, one.take(1, member="first").nonce)]
    end_turn()
    assert heard.taken() == [("delivered", [(0, 1)], "first")]
    receipts.append((1, one.take(1, member="first").nonce))
    one.begin(lambda told: one.coordinator.accept(KEY, receipts, 100, told))
    one.take(1, member="second")
    end_turn()
    told = [(runs, member) for name, runs, member in heard.taken() if name == "delivered"]
    assert told == [([(1, 2)], ""), ([(2, 3)], "second")]


def test_a_reset_tells_nothing_of_records(one: World, heard: Heard) -> None:
    one.take(2)
    heard.taken()
    one.start(1, why=Move.RESET)
    assert heard.events == []


def test_what_a_member_gets_and_does_not_want_is_passed_over_and_not_delivered(
    heard: Heard,
) -> None:
    turn: list[Callable[[], None]] = []
    held = World(traces=heard, later=turn.append).load()
    held.begin(lambda told: held.coordinator.move(KEY, 0, Move.START, told))

    def end_turn() -> None:
        while turn:
            turn.pop(0)()
        held.settle()

    end_turn()
    handed = held.take(6)
    receipts = [(offset, handed.nonce) for offset in (1, 2, 5)]

    def pass_over(told: Told) -> None:
        held.coordinator.accept(KEY, receipts, 100, told, is_unwanted=True)

    held.begin(pass_over)
    end_turn()
    assert heard.taken() == [
        ("delivered", [(0, 1), (3, 5)], "a"),
        ("passed_over", [(1, 3), (5, 6)], ""),
    ]
    held.begin(lambda told: held.coordinator.accept(KEY, [(0, handed.nonce)], 100, told))
    end_turn()
    assert heard.taken() == [("done", [(0, 1)], "")]


def test_what_was_passed_over_may_be_delivered_after_a_reset(one: World, heard: Heard) -> None:
    receipts = [(0, one.take(1).nonce)]
    one.begin(lambda told: one.coordinator.accept(KEY, receipts, 9, told, is_unwanted=True))
    one.start(0, why=Move.RESET)
    heard.taken()
    one.take(1)
    assert heard.taken() == [("delivered", [(0, 1)], "a")]


def test_without_a_trace_nothing_is_noted_of_what_is_passed_over() -> None:
    one = World().load()
    one.start()
    handed = one.take(1)
    receipts = [(0, handed.nonce)]
    one.begin(lambda told: one.coordinator.accept(KEY, receipts, 9, told, is_unwanted=True))
    found = one.coordinator.here.found(KEY)
    assert not isinstance(found, Unavailable)
    assert found[1].unwanted is NONE_UNWANTED


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_runs_are_parted_as_sets_of_offsets_are(offsets: set[int], unwanted: set[int]) -> None:
    others, taken = parted(runs_of(sorted(offsets)), unwanted)
    assert {at for first, end in others for at in range(first, end)} == offsets - unwanted
    assert {at for first, end in taken for at in range(first, end)} == offsets & unwanted
