"""The token bucket: the mean is kept whatever the sizes are."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.token_bucket import BURST_US, TokenBucket

SECOND = 1_000_000


def test_the_first_bytes_are_taken_and_paid_for_before_the_next() -> None:
    bucket = TokenBucket(1000, 0)
    assert bucket.take(50, 100_000) == 0, "what was unused before is free, up to the burst"
    assert bucket.take(500, 100_000) == 450_000
    assert bucket.take(1, 550_000) == 1_000


def test_what_was_not_used_for_long_is_not_saved_up() -> None:
    bucket = TokenBucket(1000, 0)
    assert bucket.take(1000, 100 * SECOND) == SECOND - BURST_US


def test_without_a_rate_nothing_waits() -> None:
    bucket = TokenBucket(0, 0)
    assert bucket.take(1 << 40, 0) == 0


def test_what_is_owed_is_paid_at_a_rate_that_is_told_later() -> None:
    bucket = TokenBucket(1000, 0)
    assert bucket.take(1000, 0) == SECOND
    bucket.set_rate(10_000, 0)
    assert bucket.take(0, 0) == SECOND // 10
    bucket.set_rate(500, 0)
    assert bucket.take(0, 0) == SECOND * 2
    bucket.set_rate(0, 0)
    assert bucket.take(1 << 40, 0) == 0
    bucket.set_rate(1000, SECOND)
    assert bucket.take(0, SECOND) == 0


@given(st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, SECOND)), max_size=50))
def test_whoever_waits_as_told_stays_below_the_rate(takes: list[tuple[int, int]]) -> None:
    rate, now_us, taken = 100_000, 0, 0
    bucket = TokenBucket(rate, now_us)
    for count, pause_us in takes:
        now_us += pause_us
        now_us += bucket.take(count, now_us)
        taken += count
        assert taken * SECOND <= rate * (now_us + BURST_US) + len(takes) * rate
