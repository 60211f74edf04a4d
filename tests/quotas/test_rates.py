"""Rates on a virtual clock: what a client that obeys the delays gets, and what windows forget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.quotas.tokens import TokenBucket
from penstock.quotas.windows import DELAY_MS_MAX, WINDOWS, Windows

MIB = 1 << 20


def taken(bucket: Windows, size: int, until_ms: int, start_ms: int = 0, answer_ms: int = 1) -> int:
    """What a client takes that sends requests of `size`, waits for each answer and obeys."""
    now_ms, total = start_ms, 0
    while now_ms < until_ms:
        bucket.record(size, now_ms)
        total += size
        now_ms += answer_ms
        now_ms += bucket.delay_ms(now_ms)
    return total


@pytest.mark.parametrize(
    ("bound", "size"),
    [(MIB, 16 << 10), (MIB, 64 << 10), (MIB, 1000), (500 * MIB, 256 << 10), (100_000, 16 << 10)],
)
@pytest.mark.parametrize("start_ms", [0, 12_345_678])
def test_a_rate_is_within_five_percent_over_thirty_seconds(
    bound: int, size: int, start_ms: int
) -> None:
    answer_ms = 0 if bound > 100 * MIB else 1
    bucket = Windows(bound)
    total = taken(bucket, size, start_ms + 30_000, start_ms, answer_ms)
    assert total / 30 == pytest.approx(bound, rel=0.05)


def test_a_rate_is_within_five_percent_in_the_thirty_seconds_after_a_pause() -> None:
    bucket = Windows(MIB)
    taken(bucket, 16 << 10, 20_000)
    assert taken(bucket, 16 << 10, 75_000, 45_000) / 30 == pytest.approx(MIB, rel=0.05)


def test_several_clients_of_one_bucket_have_its_rate_together() -> None:
    bucket, size = Windows(MIB), 16 << 10
    due = dict.fromkeys(range(10), 0)
    total = 0
    while (now_ms := min(due.values())) < 30_000:
        client = min(due, key=lambda one: due[one])
        bucket.record(size, now_ms)
        total += size
        due[client] = now_ms + 1 + bucket.delay_ms(now_ms + 1)
    assert total / 30 == pytest.approx(MIB, rel=0.05)


@given(
    st.lists(st.tuples(st.integers(0, 15_000), st.integers(1, 10_000)), max_size=40),
    st.integers(1, 5_000),
)
def test_the_mean_and_the_delay_equal_those_of_a_list_of_amounts(
    steps: list[tuple[int, int]], bound: int
) -> None:
    bucket, now_ms, began_ms = Windows(bound), 50_000, -1
    seen: list[tuple[int, int]] = []
    for wait_ms, amount in steps:
        now_ms += wait_ms
        oldest_ms = (now_ms // 1000 - WINDOWS + 1) * 1000
        still = [at for at, _ in seen if at // 1000 * 1000 >= oldest_ms]
        began_ms = max(began_ms, oldest_ms) if still else now_ms
        seen.append((now_ms, amount))
        bucket.record(amount, now_ms)
        total = sum(size for at, size in seen if at // 1000 * 1000 >= oldest_ms)
        elapsed_ms = max(now_ms - began_ms, 1000)
        assert bucket.rate(now_ms) == pytest.approx(total * 1000 / elapsed_ms)
        delay_ms = bucket.delay_ms(now_ms)
        assert (delay_ms > 0) is (total * 1000 > bound * elapsed_ms)
        if delay_ms:
            over_ms = now_ms + delay_ms - began_ms
            assert total * 1000 <= bound * over_ms
            assert total * 1000 > bound * (over_ms - 1)


def test_after_eleven_seconds_of_silence_nothing_counts() -> None:
    bucket = Windows(10)
    bucket.record(1_000, 500)
    assert bucket.delay_ms(10_999) > 0
    assert not bucket.is_idle(10_999)
    assert bucket.is_idle(11_000)
    assert bucket.delay_ms(11_000) == 0


def test_delays_have_a_bound_of_their_own() -> None:
    assert Windows(0, 1_000).delay_ms(0) == 0
    blocked, short, tiny = Windows(0, 1_000), Windows(1, 1_000), Windows(1e-3)
    for bucket in (blocked, short, tiny):
        bucket.record(1 << 30, 0)
    assert (blocked.delay_ms(0), short.delay_ms(0)) == (1_000, 1_000)
    assert tiny.delay_ms(0) == DELAY_MS_MAX


def test_what_is_given_back_does_not_count() -> None:
    bucket = Windows(1)
    bucket.record(1, 0)
    bucket.record(1, 0)
    assert bucket.delay_ms(0) == 2_000
    bucket.record(-1, 0)
    assert bucket.delay_ms(0) == 0


def test_tokens_allow_a_burst_that_is_paid_for_afterwards() -> None:
    bucket = TokenBucket(2)
    assert bucket.take(100, 0)
    assert bucket.delay_ms(0) == (100 - 22) * 500
    assert not bucket.take(1, 38_999)
    assert bucket.take(1, 39_000)
    assert bucket.delay_ms(39_000) == 500
    assert bucket.tokens(10_000_000) == 22
    assert bucket.is_idle(10_000_000)


def test_who_has_spent_all_tokens_may_still_owe_once() -> None:
    bucket = TokenBucket(1)
    assert bucket.take(11, 0)
    assert bucket.tokens(0) == 0
    assert bucket.take(3, 0)
    assert not bucket.take(1, 0)


def test_tokens_are_owed_by_who_is_not_refused() -> None:
    bucket = TokenBucket(1)
    bucket.owe(30, 0)
    bucket.owe(1, 0)
    assert bucket.delay_ms(0) == 20_000


@given(st.floats(0.1, 100), st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 50))))
def test_tokens_given_never_exceed_the_rate_and_one_burst(
    bound: float, steps: list[tuple[int, int]]
) -> None:
    bucket, now_ms, given_count, last = TokenBucket(bound), 0, 0, 0
    for wait_ms, count in steps:
        now_ms += wait_ms
        if bucket.take(count, now_ms):
            given_count, last = given_count + count, count
        assert given_count - last <= bound * (now_ms / 1000 + 11) + 1e-6


def test_what_is_owed_is_taken_from_what_was_filled_meanwhile() -> None:
    bucket = TokenBucket(10)
    assert bucket.take(110, 0)
    bucket.owe(50, 60_000)
    assert bucket.tokens(60_000) == 60
