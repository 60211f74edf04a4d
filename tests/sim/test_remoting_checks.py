"""Planted bugs of the remoting front are found by its clients in a simulated cluster."""

from typing import Any

import pytest

from penstock.remoting.halves import state
from penstock.remoting.handlers import send, send_back
from penstock.remoting.later import due
from penstock.remoting.later.retries import retry_level
from penstock.remoting.pop import records
from penstock.remoting.pop.saying import tell_shares
from penstock.shares.answers import Say
from simulator.clients.remoting import popper, puller, transactor
from simulator.run.one_run import run_plan
from simulator.run.plan import Fault, Plan, Shape
from tests.sim.small_runs import first_findings, kill

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MonkeyPatch = pytest.MonkeyPatch
SHAPE = Shape(is_apart=True, partitions=1, producers=1, records_per_second=10, remoting=1)
CALM = (kill(3_000, "c1"),)
"""Nothing happens to masters."""
MASTERS_DIE = tuple(kill(1_000 + 1_500 * at, f"master:{at % 3}") for at in range(4))


def is_found(told: str, faults: tuple[Fault, ...] = CALM, seeds: int = 2) -> bool:
    """Whether one of the first runs that break says so."""
    return any(told in one for one in first_findings(SHAPE, faults, seeds))


def test_promises_are_kept_while_masters_die_and_equal_seeds_give_equal_traces() -> None:
    plan = Plan(seed=5, shape=SHAPE, faults=MASTERS_DIE)
    one, other = run_plan(plan), run_plan(plan)
    assert one.findings == []
    assert one.digest
    assert one.digest == other.digest


def test_what_is_acknowledged_and_given_back_is_found(planted: MonkeyPatch) -> None:
    def told(broker: Any, said: Any, *rest: Any) -> None:
        said = said._replace(what=Say.RELEASE) if said.what is Say.ACCEPT else said
        tell_shares(broker, said, *rest)

    planted.setattr("penstock.remoting.handlers.acks.tell_shares", told)
    assert is_found("comes again")


def test_two_decisions_that_both_hold_are_found(planted: MonkeyPatch) -> None:
    verdict = state.OpenHalves.verdict

    def same(halves: Any, *named: Any) -> state.Verdict:
        found = verdict(halves, *named)
        return state.Verdict.SAME if found is state.Verdict.CONTRARY else found

    planted.setattr(state.OpenHalves, "verdict", same)
    planted.setattr(transactor, "WEIGHTS", (0, 0, 1, 8, 0))
    planted.setattr(transactor, "AGAIN_SHARE", 1.0)
    assert is_found("was committed and rolled back")


def test_a_half_message_that_is_sent_at_once_is_found(planted: MonkeyPatch) -> None:
    planted.setattr(send, "is_half", lambda *_: False)
    assert is_found("nobody has committed it")


def test_a_delay_that_is_over_too_early_is_found(planted: MonkeyPatch) -> None:
    take = due.take_due
    planted.setattr(
        "penstock.remoting.later.delivery.take_due",
        lambda data, first, now_ms: take(data, first, now_ms + 500),
    )
    assert is_found("ms early")


def test_what_is_sent_back_and_lost_is_found(planted: MonkeyPatch) -> None:
    def lost(context: Any, one: Any, done: Any) -> None:
        del context, one
        done(0)

    planted.setattr(send_back, "resend", lost)
    planted.setattr(puller, "RETURNED_SHARE", 0.3)
    assert is_found("comes no more")


def test_a_message_that_comes_once_too_often_is_found(planted: MonkeyPatch) -> None:
    planted.setattr(
        "penstock.remoting.later.resending.retry_level",
        lambda failed: retry_level(failed._replace(times=failed.times - 1)),
    )
    planted.setattr(puller, "RETURNED_SHARE", 0.3)
    planted.setattr(puller, "GIVEN_UP_SHARE", 0.8)
    assert is_found("nobody asked")


def test_pops_that_are_not_counted_are_found(planted: MonkeyPatch) -> None:
    divide = records.divided

    def counted(looked: Any, runs: Any, counts: Any) -> Any:
        return divide(looked, runs, [count + 4 for count in counts])

    planted.setattr("penstock.remoting.pop.popping.divided", counted)
    planted.setattr(popper, "VANISHES_SHARE", 0.0)
    assert is_found("at most")
