"""What is denied is counted, and logged in a bounded form."""

import logging
from typing import NamedTuple

import pytest

from penstock.broker.access import Operation, Resource
from penstock.broker.denials import NAMED_MAX, NAMED_OF_PRINCIPAL, PERIOD_MS, Denials


class Who(NamedTuple):
    principal: str = "User:a"
    host: str = "10.0.0.1"


class Clock:
    def __init__(self) -> None:
        self.now_ms = 5

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_us(self) -> int:
        return self.now_ms * 1000

    def wall_ms(self) -> int:
        return self.now_ms


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


def test_the_first_of_a_kind_has_a_line_and_the_others_of_the_minute_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    denials = Denials(clock)
    for _ in range(3):
        denials.note(Who(), Operation.WRITE, Resource.TOPIC, "t")
    assert lines(caplog) == ["denied host=10.0.0.1 principal='User:a' operation=write topic='t'"]
    denials.expire(clock.now_ms + PERIOD_MS - 1)
    assert lines(caplog) == []
    denials.expire(clock.now_ms + PERIOD_MS)
    assert lines(caplog) == ["denied again times=2 principal='User:a' operation=write topic='t'"]
    denials.expire(clock.now_ms + 3 * PERIOD_MS)
    denials.note(Who(), Operation.WRITE, Resource.TOPIC, "t")
    assert len(lines(caplog)) == 1
    assert denials.counts == {(Operation.WRITE, Resource.TOPIC): 4}


def test_a_flood_of_names_has_a_bounded_number_of_short_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    denials = Denials(clock)
    with caplog.at_level(logging.WARNING):
        for number in range(NAMED_MAX + 50):
            who, name = Who(f"User:{number}"), f"{number}\n" + "x" * 10_000
            denials.note(who, Operation.READ, Resource.GROUP, name)
        denials.expire(clock.now_ms + PERIOD_MS)
    found = lines(caplog)
    assert len(found) == NAMED_MAX + 1
    assert max(map(len, found)) < 300
    assert not any("\n" in line for line in found)
    assert found[-1] == "denied others times=50"


def test_who_is_denied_without_end_leaves_lines_for_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    denials = Denials(clock)
    for _ in range(2):  # a minute begins anew
        for number in range(10 * NAMED_MAX):
            denials.note(Who(), Operation.READ, Resource.GROUP, f"g-{number}")
        assert len(lines(caplog)) == NAMED_OF_PRINCIPAL
        denials.note(Who("User:thief"), Operation.READ, Resource.TOPIC, "t")
        (told,) = lines(caplog)
        assert "User:thief" in told
        clock.now_ms += PERIOD_MS
        denials.expire(clock.now_ms)
        assert lines(caplog) == [f"denied others times={10 * NAMED_MAX - NAMED_OF_PRINCIPAL}"]
