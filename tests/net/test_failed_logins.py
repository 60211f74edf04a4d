"""Lines about clients that were not let in: bounded, shared out over addresses, and all counted."""

import logging

import pytest

from penstock.net.tls.failed_logins import (
    ADDRESSES_MAX,
    LINES_MAX,
    LINES_OF_ADDRESS,
    FailedLogins,
)
from tests.net.minutes import Minutes


@pytest.fixture
def minutes() -> Minutes:
    return Minutes()


@pytest.fixture
def failures(minutes: Minutes, caplog: pytest.LogCaptureFixture) -> FailedLogins:
    caplog.set_level(logging.INFO)
    return FailedLogins(minutes)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return told


def test_the_first_failures_of_a_minute_have_lines_with_the_reason(
    failures: FailedLogins, minutes: Minutes, caplog: pytest.LogCaptureFixture
) -> None:
    failures.note("10.0.0.1", "a wrong password")
    assert lines(caplog) == ["client=10.0.0.1 a wrong password"]
    minutes.end_minute()
    assert not lines(caplog), "each had its line"
    failures.note("10.0.0.1", "another")
    assert lines(caplog) == ["client=10.0.0.1 another"]


def test_an_address_that_fails_without_end_leaves_lines_for_others(
    failures: FailedLogins, minutes: Minutes, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(10_000):
        failures.note("10.0.0.1", "guesses")
    assert lines(caplog) == ["client=10.0.0.1 guesses"] * LINES_OF_ADDRESS
    failures.note("10.0.0.2", "a wrong password")
    assert lines(caplog) == ["client=10.0.0.2 a wrong password"]
    minutes.end_minute()
    left = 10_000 - LINES_OF_ADDRESS
    told = f"not let in, without a line each: {left}, most from 10.0.0.1={left}"
    assert lines(caplog) == [told]
    failures.note("10.0.0.1", "guesses")
    assert lines(caplog) == ["client=10.0.0.1 guesses"], "a minute begins anew"


def test_all_together_have_so_many_lines_and_the_others_are_counted(
    failures: FailedLogins, minutes: Minutes, caplog: pytest.LogCaptureFixture
) -> None:
    count = LINES_MAX + ADDRESSES_MAX + 7
    for number in range(count):
        failures.note(f"::{number:x}", "guesses")
    failures.note(f"::{LINES_MAX:x}", "guesses")
    assert len(lines(caplog)) == LINES_MAX
    minutes.end_minute()
    (told,) = lines(caplog)
    left = count + 1 - LINES_MAX
    assert told == f"not let in, without a line each: {left}, most from ::{LINES_MAX:x}=2"
    failures.note("::1", "a wrong password")
    assert lines(caplog) == ["client=::1 a wrong password"], "a minute begins anew"


def test_a_quiet_minute_has_no_timer(failures: FailedLogins, minutes: Minutes) -> None:
    assert not minutes.due
    for _ in range(3):
        failures.note("::1", "a wrong password")
    minutes.end_minute()
    assert not minutes.due
