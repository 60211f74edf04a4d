"""Which offsets a living cluster has for an archive, while its retention goes on."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.archive.source import BrokerSource
from penstock.cli.archive.ages import FOREVER, age_ms, age_text
from penstock.spark.ranges import PartitionName

HOUR_MS = 3_600_000


class Access:
    """A partition whose log moves on with each question."""

    def __init__(self, starts: Sequence[int], ends: Sequence[int]) -> None:
        self._moments = list(zip(starts, ends, strict=True))

    def partitions(self, topic: str) -> list[int]:
        assert topic == "t"
        return [0]

    def latest(self, names: Sequence[PartitionName]) -> dict[PartitionName, int]:
        _, end = self._moments.pop(0)
        return dict.fromkeys(names, end)

    def earliest(self, names: Sequence[PartitionName]) -> dict[PartitionName, int]:
        start, _ = self._moments.pop(0)
        return dict.fromkeys(names, start)


@pytest.mark.parametrize(
    ("starts", "ends", "span"),
    [
        ((0, 0), (10, 10), (0, 10)),
        ((0, 0), (10, 30), (0, 10)),
        ((5, 9), (10, 30), (9, 10)),
        ((5, 10), (10, 30), (10, 10)),
        ((5, 20), (10, 30), (20, 20)),
    ],
)
def test_nothing_that_retention_takes_between_two_questions_is_asked_for(
    starts: tuple[int, int], ends: tuple[int, int], span: tuple[int, int]
) -> None:
    access: Any = Access(starts, ends)
    assert BrokerSource(access, "t").spans() == {0: [span]}


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (1, "1h"),
        (23, "23h"),
        (24, "1d"),
        (25, "25h"),
        (6 * 24, "6d"),
        (7 * 24, "1w"),
        (8 * 24, "8d"),
        (364 * 24, "52w"),
        (365 * 24, "1y"),
        (366 * 24, "366d"),
    ],
)
def test_an_age_is_told_in_the_largest_unit_of_which_it_is_a_whole_number(
    hours: int, text: str
) -> None:
    assert age_text(hours * HOUR_MS) == text
    assert age_ms(text) == hours * HOUR_MS
    assert age_text(age_ms(FOREVER)) == FOREVER
