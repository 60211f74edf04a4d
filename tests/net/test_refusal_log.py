"""Refused connections in the log: at once, then once a minute, and bounded."""

import pytest

from penstock.net.errors import RefuseKind
from penstock.net.refusal_log import ADDRESSES_MAX, EVERY_TICKS, RefusalLog

KIND = RefuseKind.TOO_FAST_FROM_ADDRESS


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", logger="penstock.net")


def test_refusals_are_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog()
    for tick in range(EVERY_TICKS):
        refusals.note(KIND, "10.0.0.1", tick, "kafka")
        refusals.tell_due(tick)
    assert len(caplog.messages) == 1
    refusals.tell_due(EVERY_TICKS)
    assert "refused=59 " in caplog.messages[1], "those since the line before"
    assert "most from 10.0.0.1=59" in caplog.messages[1]
    refusals.tell_due(2 * EVERY_TICKS)
    assert len(caplog.messages) == 2, "there is nothing more to tell"


def test_each_reason_has_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog()
    refusals.note(KIND, "10.0.0.1", 0, "kafka")
    refusals.note(RefuseKind.TOO_MANY, "10.0.0.2", 0, "kafka")
    settings = ["net.connection_rate_per_address_max", "net.connections_max"]
    assert [name in line for name, line in zip(settings, caplog.messages, strict=True)] == [
        True
    ] * 2


def test_many_addresses_are_counted_in_bounded_memory(caplog: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog()
    for number in range(2 * ADDRESSES_MAX):
        refusals.note(KIND, f"address {number}", 0, "kafka")
    refusals.tell_due(EVERY_TICKS)
    assert f"refused={2 * ADDRESSES_MAX - 1} " in caplog.messages[1]
