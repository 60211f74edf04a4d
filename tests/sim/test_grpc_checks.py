"""Planted bugs of the gRPC front are found by its clients in a simulated cluster."""

from typing import Any

import pytest

from penstock.grpc.consuming.claims import say
from penstock.remoting.pop.saying import tell_shares
from penstock.shares.answers import Say
from simulator.clients.grpc import consumer
from simulator.run.one_run import run_plan
from simulator.run.plan import Fault, Plan, Shape
from tests.sim.small_runs import first_findings, kill

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MonkeyPatch = pytest.MonkeyPatch
SHAPE = Shape(is_apart=True, partitions=1, producers=1, records_per_second=10, grpc=1)
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

    planted.setattr("penstock.grpc.methods.ack_message.tell_shares", told)
    assert is_found("comes again")


def test_what_is_forwarded_and_lost_is_found(planted: MonkeyPatch) -> None:
    def accepted(call: Any, claim: Any, what: Say, *rest: Any) -> None:
        say(call, claim, Say.ACCEPT if what is Say.REJECT else what, *rest)

    planted.setattr("penstock.grpc.methods.change_invisible.say", accepted)
    planted.setattr(consumer, "WEIGHTS", (4, 4, 0, 0, 0, 4, 0))
    assert is_found("is no dead letter")
