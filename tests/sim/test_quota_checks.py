"""Planted bugs of quotas are found by clients that take more than theirs."""

from typing import Any

import pytest

from penstock.controller.metadata import snapshot, snapshot_config
from penstock.kafka import dispatch, throttled
from penstock.kafka.throttled import ThrottledReply
from penstock.net.connection import Connection
from penstock.quotas.resolve import Applied, Levels
from penstock.quotas.windows import Windows
from simulator.run.plan import Fault, Shape
from tests.sim.small_runs import first_findings, kill

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
]
MonkeyPatch = pytest.MonkeyPatch
SHAPE = Shape(
    is_apart=True,
    partitions=1,
    producers=1,
    records_per_second=20,
    snapshot_after_bytes=2_048,
    limited=2,
)


CALM = (kill(6_000, "c1"),)
BROKERS_DIE = tuple(kill(2_000 + 2_500 * at, f"b{at % 3 + 1}") for at in range(4))


def found(faults: tuple[Fault, ...] = CALM, seeds: int = 4) -> list[str]:
    """Run under a few seeds; return what the first one that breaks says."""
    return first_findings(SHAPE, faults, seeds)


def test_clients_with_quotas_find_nothing_wrong_while_brokers_die() -> None:
    assert found(BROKERS_DIE, seeds=2) == []


def test_a_connection_that_is_never_muted_is_found(planted: MonkeyPatch) -> None:
    planted.setattr(Connection, "mute", lambda _, __: None)
    assert any("let through" in one for one in found())


def test_a_delay_that_is_not_told_is_found(planted: MonkeyPatch) -> None:
    planted.setattr(ThrottledReply, "_with_delay", lambda _, fields: fields)
    planted.setattr(throttled, "_begins_with_throttle", lambda *_: False)
    assert any("told no delay" in one for one in found())


def test_half_the_delay_is_found(planted: MonkeyPatch) -> None:
    delay_ms = Windows.delay_ms
    planted.setattr(Windows, "delay_ms", lambda self, now_ms: delay_ms(self, now_ms) // 2)
    assert any("are due" in one for one in found())


def test_a_fetch_that_takes_what_it_likes_is_found(planted: MonkeyPatch) -> None:
    planted.setattr(ThrottledReply, "fetch_bytes_max", None)
    planted.setattr(Connection, "mute", lambda _, __: None)
    assert any("let through" in one for one in found())


def test_a_quota_of_everybody_is_found(planted: MonkeyPatch) -> None:
    def find(_: Levels, quotas: Any, key: str) -> Applied | None:
        bounds = [values[key] for values in quotas.values() if key in values]
        return Applied("", "", min(bounds)) if bounds else None

    planted.setattr(Levels, "find", find)
    assert any("has no quota" in one or "ToldToWait" in one for one in found())


def test_a_connection_that_keeps_the_quotas_of_before_is_found(planted: MonkeyPatch) -> None:
    buckets_of = throttled.buckets_of

    def kept(table: Any, context: Any, now_ms: int) -> Any:
        return context.buckets or buckets_of(table, context, now_ms)

    planted.setattr(throttled, "buckets_of", kept)
    assert any(" a second" in one or "quota any more" in one for one in found())


def test_a_run_of_requests_that_does_not_count_is_found(planted: MonkeyPatch) -> None:
    reply_of: Any = throttled.reply_of

    def uncounted(*parts: Any) -> Any:
        return reply_of(*parts[:7], 0, *parts[8:]) if len(parts) > 8 else reply_of(*parts)

    planted.setattr(dispatch, "reply_of", uncounted)
    assert any("told no delay" in one or "let through" in one for one in found())


def test_a_snapshot_without_quotas_is_found_once_brokers_have_started_from_it(
    planted: MonkeyPatch,
) -> None:
    records = snapshot_config.configuration_records
    planted.setattr(
        snapshot,
        "configuration_records",
        lambda image: [one for one in records(image) if "Quota" not in type(one).__name__],
    )
    assert found(BROKERS_DIE)
