"""Which partition is next: dirtiest first, never too early, not the one that keeps failing."""

from typing import Any

import pytest

from penstock.base.ids import TopicId, TopicPartition
from penstock.compaction.choose import (
    FIRST_WAIT_MS,
    WAIT_MS_MAX,
    Dirt,
    SetAside,
    choose_dirtiest,
)

NOW = 1_000_000


def key(number: int) -> TopicPartition:
    return TopicPartition(TopicId(bytes(16)), number)


def dirt(number: int = 0, **changed: Any) -> Dirt:
    fields: dict[str, Any] = {
        "topic_partition": key(number), "clean_bytes": 100, "dirty_bytes": 100,
        "oldest_dirty_ms": NOW - 10, "dirty_ratio_min": 0.5, "compaction_lag_ms_max": 1_000,
    }  # fmt: skip
    return Dirt(**(fields | changed))


def chosen(*dirts: Dirt, set_aside: SetAside | None = None, at: int = 0) -> int | None:
    found = choose_dirtiest(dirts, wall_ms=NOW, set_aside=set_aside or SetAside(), monotonic_ms=at)
    return None if found is None else found.topic_partition.partition


@pytest.mark.parametrize(("dirty", "is_due"), [(99, False), (100, False), (101, True)])
def test_a_ratio_that_is_exceeded_makes_it_due(dirty: int, is_due: bool) -> None:
    assert dirt(dirty_bytes=dirty).is_due(NOW) is is_due


@pytest.mark.parametrize(("age", "is_due"), [(999, False), (1_000, False), (1_001, True)])
def test_a_dirty_record_beyond_the_largest_lag_makes_it_due(age: int, is_due: bool) -> None:
    assert dirt(dirty_bytes=1, oldest_dirty_ms=NOW - age).is_due(NOW) is is_due


def test_nothing_is_due_without_dirt_unless_a_horizon_has_passed() -> None:
    nothing: dict[str, Any] = {"dirty_bytes": 0, "oldest_dirty_ms": None, "dirty_ratio_min": 0.0}
    assert not dirt(**nothing).is_due(NOW)
    assert not dirt(**nothing, newest_horizon_ms=NOW + 1).is_due(NOW)
    assert dirt(**nothing, newest_horizon_ms=NOW).is_due(NOW)
    assert not dirt(**nothing, clean_bytes=0).is_due(NOW)
    assert dirt(**nothing, newest_horizon_ms=0).is_due(0)


def test_dirt_whose_age_is_not_known_is_due_by_its_share() -> None:
    assert not dirt(dirty_bytes=100, oldest_dirty_ms=None).is_due(NOW)
    assert dirt(dirty_bytes=101, oldest_dirty_ms=None).is_due(NOW)


def test_the_dirtiest_is_first_and_of_equals_the_one_with_more_dirt() -> None:
    assert chosen(dirt(0, dirty_bytes=150), dirt(1, dirty_bytes=300), dirt(2)) == 1
    assert chosen(dirt(3, clean_bytes=0), dirt(4, clean_bytes=0, dirty_bytes=500)) == 4
    assert chosen(dirt(5), dirt(6)) is None


def test_what_fails_waits_longer_each_time_and_the_others_go_on() -> None:
    aside, waits = SetAside(), []
    bad, good = dirt(0, dirty_bytes=900), dirt(1, dirty_bytes=200)
    for _ in range(12):
        failure = aside.failed(key(0), 5, "no space")
        assert chosen(bad, good, set_aside=aside, at=failure.until_ms - 1) == 1
        assert chosen(bad, good, set_aside=aside, at=failure.until_ms) == 0
        waits.append(failure.until_ms - 5)
    assert waits[:3] == [FIRST_WAIT_MS, 2 * FIRST_WAIT_MS, 4 * FIRST_WAIT_MS]
    assert waits[-1] == WAIT_MS_MAX
    assert aside.failures[key(0)].in_a_row == 12
    assert aside.failures[key(0)].reason == "no space"


def test_a_pass_that_succeeds_ends_the_alarm_and_the_waits() -> None:
    aside = SetAside()
    aside.failed(key(0), 0, "first")
    aside.failed(key(0), 0, "second")
    aside.succeeded(key(0))
    aside.succeeded(key(1))
    assert not aside.failures
    assert aside.failed(key(0), 0, "again").until_ms == FIRST_WAIT_MS
