"""What a client with a quota was let through and told is judged by what surely counts, and may."""

from simulator.history.quotas import Meter, Taken


def took(sent_s: float, size: int, told_ms: float = 0.0, *, is_full: bool = True) -> Taken:
    return Taken(sent_s, sent_s + 0.01, size, told_ms, is_let_through=is_full)


def wrong(meter: Meter, *bursts: list[Taken]) -> list[str]:
    return [text for burst in bursts for text in meter.add(burst)]


def test_who_takes_the_quota_and_waits_as_told_is_in_order() -> None:
    meter = Meter(quota=1_000)
    found = wrong(meter, [took(1.0, 500)], [took(1.1, 1_500, 1_900)], [took(3.1, 200, 200)])
    assert found == []


def test_who_is_let_through_above_the_quota_is_found() -> None:
    found = wrong(Meter(quota=1_000), [took(1.0, 2_500, 2_500)], [took(1.2, 100, 2_390)])
    assert found == ["let through after 2500 bytes, with 1000 a second"]


def test_an_empty_answer_to_a_fetch_above_the_quota_is_in_order() -> None:
    empty = took(1.2, 40, 2_330, is_full=False)
    assert wrong(Meter(quota=1_000), [took(1.0, 2_500, 2_495)], [empty]) == []


def test_a_delay_that_is_not_told_is_found() -> None:
    (found,) = wrong(Meter(quota=1_000), [took(1.0, 2_500)])
    assert "told no delay after 2500 bytes" in found


def test_a_delay_that_is_too_short_or_too_long_is_found() -> None:
    assert wrong(Meter(quota=1_000), [took(1.0, 2_500, 1_200)]) == [
        "told 1200 ms, and 2413 are due"
    ]
    (long,) = wrong(Meter(quota=1_000), [took(1.0, 2_500, 2_600)])
    assert "due at most" in long


def test_a_delay_within_a_seconds_worth_is_found_unless_more_may_have_been_taken_before() -> None:
    assert wrong(Meter(quota=1_000), [took(1.0, 900, 5)])
    assert wrong(Meter(quota=1_000, is_fresh=False), [took(1.0, 900, 5)]) == []


def test_what_the_windows_have_forgotten_does_not_count() -> None:
    late = took(12.0, 500)
    assert wrong(Meter(quota=100), [took(1.0, 1_090, 10_890)], [late]) == []


def test_the_first_request_after_a_change_is_let_through_and_told_by_the_new_quota() -> None:
    meter = Meter(quota=1_000)
    assert wrong(meter, [took(1.0, 1_000)]) == []
    meter.change(500)
    assert wrong(meter, [took(2.0, 100, 1_190)]) == []
    meter.change(100)
    (found,) = wrong(meter, [took(3.2, 100)])
    assert "told no delay after 1200 bytes, with 100 a second" in found


def test_requests_that_are_sent_together_are_let_through_together() -> None:
    burst = [took(1.0, 800), took(1.0, 800, 1_590), took(1.0, 800, 2_390)]
    assert wrong(Meter(quota=1_000), burst) == []


def test_requests_that_are_sent_together_may_be_counted_in_any_order() -> None:
    burst = [took(1.0, 800, 2_390), took(1.0, 800, 1_590), took(1.0, 800)]
    assert wrong(Meter(quota=1_000), burst) == []


def test_a_delay_that_counts_not_all_that_was_sent_together_is_found() -> None:
    burst = [took(1.0, 800), took(1.0, 800, 1_590), took(1.0, 800, 1_590)]
    assert wrong(Meter(quota=1_000), burst) == ["told 1590 ms, and 2316 are due"]
