"""Who waits for the end of a transaction is told once, and no more wait than may."""

from functools import partial

from penstock.base.callbacks import nothing
from penstock.coordinator.unwritten import Unwritten
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.runtime.calls.ports import CallLimits
from penstock.transactions.ends import CALLS_MAX, WAITING_MAX, Ends
from tests.transactions.world import World


def test_all_who_wait_for_an_id_are_told_once() -> None:
    ends, told = Ends(), list[str]()
    assert ends.wait("x", lambda: told.append("a"))
    assert ends.wait("x", lambda: told.append("b"))
    assert ends.wait("y", lambda: told.append("c"))
    ends.tell("x")
    ends.tell("x")
    assert sorted(told) == ["a", "b"]
    assert len(ends) == 1


def test_who_gives_up_is_not_told() -> None:
    ends, told = Ends(), list[str]()

    def tell() -> None:
        told.append("a")

    assert ends.wait("x", tell)
    ends.give_up("x", tell)
    ends.give_up("x", tell)
    ends.tell("x")
    assert not told
    assert not len(ends)


def test_no_more_wait_together_than_can_be_told_in_a_turn() -> None:
    ends = Ends()
    waiting = [lambda at=at: None for at in range(WAITING_MAX)]
    assert all(ends.wait("x", one) for one in waiting)
    assert not ends.wait("y", lambda: None)
    ends.give_up("x", waiting[0])
    assert ends.wait("y", lambda: None)
    ends.tell("x")
    assert len(ends) == 1


def test_calls_that_wait_leave_room_for_others_on_a_link() -> None:
    """The marker that they wait for may be behind them."""
    assert CallLimits().served // 2 >= CALLS_MAX
    assert CallLimits().in_flight // 2 >= CALLS_MAX


def test_few_of_those_who_wait_are_calls() -> None:
    ends = Ends()
    calls = [lambda at=at: None for at in range(CALLS_MAX)]
    assert all(ends.wait(f"x{at % 2}", one, is_call=True) for at, one in enumerate(calls))
    assert not ends.wait("y", lambda: None, is_call=True)
    assert ends.wait("y", lambda: None)
    ends.give_up("x0", calls[0])
    assert ends.wait("x0", calls[0], is_call=True)
    ends.tell("x1")
    more = [lambda at=at: None for at in range(CALLS_MAX // 2)]
    assert all(ends.wait("z", one, is_call=True) for one in more)
    assert not ends.wait("z", lambda: None, is_call=True)


def test_who_waits_behind_a_change_that_is_refused_is_told() -> None:
    world, told = World().load(), list[str]()
    producer = world.begun()
    assert world.coordinator.ends.wait("x", lambda: told.append("a"))
    world.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    assert world.add_code(producer) is Code.COORDINATOR_NOT_AVAILABLE
    assert told == ["a"]


def test_who_is_told_may_wait_again_in_the_same_turn_however_many_did() -> None:
    ends, again = Ends(), list[bool]()

    def ask_again() -> None:
        again.append(ends.wait("x", partial(nothing), is_call=True))

    for _ in range(CALLS_MAX):
        assert ends.wait("x", partial(ask_again), is_call=True)
    ends.tell("x")
    assert again == [True] * CALLS_MAX
    assert len(ends) == CALLS_MAX
