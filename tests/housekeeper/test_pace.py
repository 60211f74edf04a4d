"""The rate of a housekeeper: it gives way to slow syncs, and hurries when level 0 runs short."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.api_stats import Histogram
from penstock.housekeeper.pace import (
    FLOOR_SHARE,
    QUIET_LOOKS,
    SHORT_FACTOR,
    WINDOW_LOOKS,
    Pace,
    slow_count,
)

BASE = 32 << 20
FAST_US = 500
SLOW_US = 50_000
BOUND_US = 30_000


class Disk:
    """Syncs of a disk, a look at a time."""

    def __init__(self, base: int = BASE, bound_us: int = BOUND_US) -> None:
        self.times = Histogram()
        self.pace = Pace(base, bound_us)

    def look(self, *, fast: int = 200, slow: int = 0, is_short: bool = False) -> int:
        for time_us, count in ((FAST_US, fast), (SLOW_US, slow)):
            for _ in range(count):
                self.times.observe(time_us)
        return self.pace.look(self.times.buckets, is_short=is_short)

    def looks(self, count: int, *, slow: int = 0, is_short: bool = False) -> list[int]:
        return [self.look(slow=slow, is_short=is_short) for _ in range(count)]


def test_slow_syncs_are_those_of_the_bound_or_longer() -> None:
    times = Histogram()
    for time_us in (1, 511, 512, 1023, 1024, 1 << 40):
        times.observe(time_us)
    assert slow_count(times.buckets, 512) == 4
    assert slow_count(times.buckets, 513) == 2, "rounded up to 1024"
    assert slow_count(times.buckets, 1024) == 2
    assert slow_count(times.buckets, 0) == 0


def test_quiet_disks_leave_it_the_whole_rate() -> None:
    assert set(Disk().looks(50)) == {BASE}


def test_one_slow_sync_of_a_hundred_is_within_the_bound_and_two_are_not() -> None:
    disk = Disk()
    disk.look()
    assert disk.looks(2 * WINDOW_LOOKS, slow=2)[-1] == BASE, "2 of 202"
    assert disk.looks(WINDOW_LOOKS, slow=3)[-1] == BASE // 2, "3 of 203"


def test_it_is_halved_once_in_a_window_down_to_a_floor() -> None:
    disk = Disk()
    disk.look()
    rates = disk.looks(10 * WINDOW_LOOKS, slow=100)
    assert rates[:WINDOW_LOOKS].count(BASE // 2) == 2
    assert rates[WINDOW_LOOKS + 4] == BASE // 4
    assert rates[-1] == BASE // FLOOR_SHARE


def test_what_was_slow_counts_for_a_whole_window_and_no_longer() -> None:
    disk = Disk()
    disk.looks(WINDOW_LOOKS)
    assert disk.looks(WINDOW_LOOKS, slow=100)[-1] == BASE // 2
    disk.look(slow=100)  # the first one of the next window
    assert disk.looks(WINDOW_LOOKS - 2) == [BASE // 2] * (WINDOW_LOOKS - 2)
    assert disk.look() == BASE // 4
    assert disk.looks(QUIET_LOOKS)[-1] == BASE // 2


def test_it_comes_back_step_by_step_once_the_disk_is_quiet() -> None:
    disk = Disk()
    disk.look()
    disk.looks(3 * WINDOW_LOOKS, slow=100)
    lowest = disk.pace.rate
    assert lowest < BASE // 2
    rates = disk.looks(20 * QUIET_LOOKS)
    assert rates[0] == lowest, "slow ones are still within the window"
    assert rates[-1] == BASE
    steps = [after / before for before, after in pairwise(rates[WINDOW_LOOKS:])]
    assert set(steps) == {1, 2}


def test_backlog_raises_it_above_its_base_where_the_disk_permits() -> None:
    disk = Disk()
    rates = disk.looks(4 * QUIET_LOOKS, is_short=True)
    assert (rates[0], rates[-1]) == (BASE, BASE * SHORT_FACTOR)
    assert disk.look() == BASE, "no backlog any more"


def test_backlog_keeps_it_at_its_base_also_while_syncs_are_slow() -> None:
    disk = Disk()
    disk.look()
    assert disk.looks(5 * WINDOW_LOOKS, slow=100)[-1] < BASE
    assert set(disk.looks(3 * WINDOW_LOOKS, slow=100, is_short=True)) == {BASE}


def test_a_raised_rate_gives_way_at_once() -> None:
    disk = Disk()
    disk.looks(4 * QUIET_LOOKS, is_short=True)
    assert disk.looks(2, slow=100, is_short=True) == [2 * BASE, BASE]


def test_without_syncs_nobody_waits() -> None:
    disk = Disk()
    disk.looks(2 * WINDOW_LOOKS, slow=100)
    for _ in range(40 * QUIET_LOOKS):
        disk.look(fast=0)
    assert disk.pace.rate == BASE


def test_without_a_bound_it_is_never_changed() -> None:
    assert set(Disk(base=0).looks(20, slow=200, is_short=True)) == {0}
    assert set(Disk(bound_us=0).looks(20, slow=200)) == {BASE}


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5), st.booleans()), max_size=60))
def test_the_rate_stays_within_its_bounds(looks: list[tuple[int, int, bool]]) -> None:
    disk = Disk()
    for fast, slow, is_short in looks:
        rate = disk.look(fast=fast, slow=slow, is_short=is_short)
        lowest = BASE if is_short else BASE // FLOOR_SHARE
        assert lowest <= rate <= (BASE * SHORT_FACTOR if is_short else BASE)
