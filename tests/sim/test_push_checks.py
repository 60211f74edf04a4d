"""Planted bugs of client metrics are found by clients that push them, and who reads the rows."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from penstock.broker.audit.client_metrics import ClientMetrics
from penstock.broker.audit.row_log import RowLog
from penstock.record.compression import Bounds
from penstock.telemetry.instances import Instance
from penstock.telemetry.row import Writer
from penstock.telemetry.subscriptions import Asked, Subscriptions
from simulator.clients.pushers.pusher import Pusher, Visit
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Fault, FaultKind, Plan, Shape
from tests.sim.small_runs import first_findings, kill

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
]
MonkeyPatch = pytest.MonkeyPatch
SHAPE = Shape(is_apart=True, partitions=1, producers=1, records_per_second=20, pushers=2)
CALM = (kill(4_000, "c1"),)
BROKERS_DIE = tuple(kill(1_500 + 2_000 * at, f"b{at % 3 + 1}") for at in range(4))
PAUSED_S = 0.6
"""Longer than any interval, and less than a client waits for an answer."""
PAUSES = 5


def found(faults: tuple[Fault, ...] = CALM, seeds: int = 3) -> list[str]:
    """Run under a few seeds; return what the first one that breaks says."""
    return first_findings(SHAPE, faults, seeds)


def test_clients_push_under_rules_and_quotas_while_brokers_die() -> None:
    shape = replace(SHAPE, administrators=1, limited=1)
    assert first_findings(shape, BROKERS_DIE, 2) == []


def pause(run: Run, host: str) -> None:
    """Stop a broker's process for a while, from outside of all processes."""
    context, loop = run.simulation.processes[0].context, run.simulation.loop
    fault = Fault(kind=FaultKind.PAUSE, at_ms=0, lasting_ms=0, targets=(host,))

    def begin() -> None:
        heal = run.faults.begin(fault)
        assert heal is not None
        loop.call_later(PAUSED_S, heal, context=context)

    loop.call_later(0, begin, context=context)


def test_what_a_paused_broker_hears_when_it_is_due_is_not_called_too_early(
    planted: MonkeyPatch,
) -> None:
    right, runs, paused = Pusher._too_early, list[Run](), list[str]()

    async def late(self: Pusher, visit: Visit) -> None:
        if runs and len(paused) < PAUSES:
            paused.append(visit.link.host)
            pause(runs[0], visit.link.host)
            await asyncio.sleep(0.001)
        await right(self, visit)

    async def schedule(run: Run) -> None:
        runs.append(run)
        await run.until(lambda: len(paused) == PAUSES, seconds=60.0)
        await asyncio.sleep(PAUSED_S)

    planted.setattr(Pusher, "_too_early", late)
    assert run_plan(Plan(seed=0, shape=SHAPE), schedule).findings == []


def test_a_push_that_is_taken_too_early_is_found(planted: MonkeyPatch) -> None:
    right = Instance.push

    def eager(self: Instance, now_ms: int, number: int, *, is_last: bool) -> None:
        self.may_push = True
        right(self, now_ms, number, is_last=is_last)

    planted.setattr(Instance, "push", eager)
    assert any("pushes what is THROTTLING" in one and "NONE" in one for one in found())


def test_a_question_that_is_answered_too_early_is_found(planted: MonkeyPatch) -> None:
    def eager(self: Instance, now_ms: int) -> None:
        self.may_ask, self.may_push, self.got_ms = False, True, now_ms

    planted.setattr(Instance, "get", eager)
    assert any("asks too early, and is answered" in one for one in found())


def test_a_client_that_may_never_ask_again_is_found(planted: MonkeyPatch) -> None:
    planted.setattr(Instance, "may_ask", property(lambda _: False, lambda *_: None))
    assert any("asks, and is answered with THROTTLING" in one for one in found())


def test_a_subscription_that_a_node_does_not_hear_of_is_found(planted: MonkeyPatch) -> None:
    planted.setattr(ClientMetrics, "_on_delta", lambda *_: None)
    assert any("is asked for, and not" in one or "not known in time" in one for one in found())


def test_a_subscription_that_is_removed_and_stays_is_found(planted: MonkeyPatch) -> None:
    right = Subscriptions.__init__

    def kept(self: Subscriptions, now: Mapping[str, Mapping[str, str]]) -> None:
        _ever.update({name: values for name, values in now.items() if values})
        right(self, {**_ever})

    _ever: dict[str, Mapping[str, str]] = {}
    planted.setattr(Subscriptions, "__init__", kept)
    assert any("not known in time" in one for one in found(seeds=4))


def test_a_number_that_differs_between_nodes_is_found(planted: MonkeyPatch) -> None:
    right = Subscriptions.asked_of

    def own(self: Subscriptions, instance: UUID, client: Mapping[str, str]) -> Asked:
        asked = right(self, instance, client)
        return asked._replace(subscription_id=asked.subscription_id ^ (id(self) & 0xFFF0))

    planted.setattr(Subscriptions, "asked_of", own)
    assert any(" before" in one for one in found())


def test_an_instance_that_goes_on_after_its_end_is_found(planted: MonkeyPatch) -> None:
    planted.setattr(Instance, "has_ended", property(lambda _: False, lambda *_: None))
    assert any("pushes after its last time" in one for one in found(seeds=6))


def test_a_row_that_is_lost_while_it_waits_is_found(planted: MonkeyPatch) -> None:
    right: Any = RowLog.wait

    def forgetful(self: RowLog[Any], *rows: Any) -> bool:
        is_kept: bool = right(self, *rows)
        if self._number % 7 == 0:
            self._waiting.pop()
        return is_kept

    planted.setattr(RowLog, "wait", forgetful)
    assert any("is missing" in one or "not written" in one for one in found())


def test_a_push_that_is_told_as_taken_and_dropped_is_found(planted: MonkeyPatch) -> None:
    planted.setattr("penstock.broker.audit.client_metrics.WAITING_BYTES_MAX", 600)
    assert any("not written in time" in one or "is missing" in one for one in found())


def test_a_push_that_is_refused_and_kept_is_found(planted: MonkeyPatch) -> None:
    right = ClientMetrics._check

    def late(self: ClientMetrics, push: Any, client: Mapping[str, str]) -> None:
        right(self, push._replace(codec=0 if push.codec == 9 else push.codec), client)

    planted.setattr(ClientMetrics, "_check", late)
    assert found(seeds=4)


def test_more_bytes_than_a_push_may_have_are_found(planted: MonkeyPatch) -> None:
    right = ClientMetrics.__init__

    def wide(self: ClientMetrics, *parts: Any) -> None:
        right(self, *parts)
        self._unpack_here = Bounds(64 << 10, ratio_free_bytes=64 << 10)

    planted.setattr(ClientMetrics, "__init__", wide)
    assert any("pushes what is TELEMETRY_TOO_LARGE" in one for one in found(seeds=4))


def test_rows_of_somebody_else_are_found(planted: MonkeyPatch) -> None:
    right = Writer.__init__

    def nameless(self: Writer, source: Any) -> None:
        right(self, source._replace(who=source.who._replace(client_id="x")))

    planted.setattr(Writer, "__init__", nameless)
    assert any("and was pushed as" in one for one in found())


def test_a_handler_that_takes_the_same_push_twice_is_found(planted: MonkeyPatch) -> None:
    right = ClientMetrics._take

    async def twice(self: ClientMetrics, push: Any, who: Any, pace: Any) -> None:
        await right(self, push, who, pace)
        await right(self, push, who, pace)

    planted.setattr(ClientMetrics, "_take", twice)
    assert any("is there 2 times" in one for one in found())
