"""A wall clock that jumps ahead does not empty the logs."""

import logging

import pytest

from penstock.broker.sets.retention_clock import HOLD_MS, JUMP_MS, RetentionClock

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000


class SetClock:
    """A clock that somebody sets."""

    def __init__(self) -> None:
        self.wall, self.monotonic = START_MS, 5_000

    def wall_ms(self) -> int:
        return self.wall

    def monotonic_ms(self) -> int:
        return self.monotonic

    def monotonic_us(self) -> int:
        return self.monotonic * 1000

    def go(self, milliseconds: int) -> None:
        self.wall += milliseconds
        self.monotonic += milliseconds


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


def test_time_goes_on_as_the_wall_clock_says(clock: SetClock) -> None:
    time = RetentionClock(clock)
    for _ in range(100):
        clock.go(60_000)
        clock.wall += 500  # it is a little fast
        assert time.now_ms() == clock.wall
    assert time.jumps == 0


def test_a_jump_ahead_is_not_believed_for_an_hour(
    clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    time = RetentionClock(clock)
    clock.wall += 30 * DAY_MS
    with caplog.at_level(logging.WARNING):
        for minute in range(HOLD_MS // 60_000):
            assert time.now_ms() == START_MS + minute * 60_000
            assert time.is_held
            clock.go(60_000)
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]
    assert time.now_ms() == clock.wall
    assert not time.is_held
    assert time.jumps == 1


def test_a_jump_that_is_put_right_within_the_hour_never_counts(clock: SetClock) -> None:
    time = RetentionClock(clock)
    for _ in range(3):
        clock.wall += DAY_MS
        assert time.now_ms() == clock.wall - DAY_MS
        clock.go(HOLD_MS - 1)
        assert time.now_ms() == clock.wall - DAY_MS
        clock.wall -= DAY_MS
        assert time.now_ms() == clock.wall
        assert not time.is_held
    assert time.jumps == 3


def test_a_clock_that_goes_back_is_believed_at_once(clock: SetClock) -> None:
    time = RetentionClock(clock)
    clock.wall -= DAY_MS
    assert time.now_ms() == clock.wall
    clock.wall += DAY_MS
    assert time.now_ms() == clock.wall - DAY_MS, "forward again is a jump"


def test_a_correction_of_a_minute_is_no_jump(clock: SetClock) -> None:
    time = RetentionClock(clock)
    clock.wall += JUMP_MS
    assert time.now_ms() == clock.wall
    clock.wall += JUMP_MS + 1
    assert time.now_ms() < clock.wall
