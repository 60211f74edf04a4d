"""What a broker copies in a second, and how long it waits."""

from hypothesis import given
from hypothesis import strategies as st

from harness.log_world import World
from penstock.replication.copy_pace import CopyPace

RATE = 1_000


def test_what_was_sent_is_waited_for_and_counted() -> None:
    world = World()
    pace = CopyPace(RATE, world)
    assert pace.wait_ms() == 0
    pace.sent(2 * RATE)
    assert pace.wait_ms() == 2_000
    world.now_ms += 1_999
    assert pace.wait_ms() == 1
    world.now_ms += 1
    assert pace.wait_ms() == 0
    assert pace.copied_bytes == 2 * RATE


def test_a_part_of_a_millisecond_is_waited_for_as_a_whole_one() -> None:
    pace = CopyPace(3 * RATE, World())
    pace.sent(301)
    assert pace.wait_ms() == 101


def test_without_a_rate_bytes_are_counted_all_the_same() -> None:
    pace = CopyPace(0, World())
    pace.sent(1 << 40)
    assert (pace.wait_ms(), pace.copied_bytes) == (0, 1 << 40)


def test_another_rate_holds_at_once_for_what_was_sent_before() -> None:
    pace = CopyPace(RATE, World())
    pace.sent(10 * RATE)
    pace.use_rate(10 * RATE)
    assert (pace.wait_ms(), pace.bytes_per_second) == (1_000, 10 * RATE)
    pace.use_rate(10 * RATE)
    assert pace.wait_ms() == 1_000
    pace.use_rate(0)
    assert pace.wait_ms() == 0


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 3_000)), max_size=40))
def test_who_waits_as_told_sends_no_more_than_the_rate_and_one_message(
    messages: list[tuple[int, int]],
) -> None:
    world = World()
    pace, began_ms = CopyPace(RATE, world), world.now_ms
    for count, pause_ms in messages:
        world.now_ms += pause_ms
        world.now_ms += pace.wait_ms()
        assert pace.wait_ms() == 0
        seconds = (world.now_ms - began_ms) / 1_000
        assert pace.copied_bytes <= RATE * (seconds + 0.1) + 1
        pace.sent(count)
