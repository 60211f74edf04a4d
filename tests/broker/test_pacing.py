"""A node's housekeeper hears of its rate: when syncs are slow, and when a log has too much due."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.broker.api_stats import Histogram
from penstock.broker.sets.pacing import Pacing
from penstock.housekeeper.pace import QUIET_LOOKS, WINDOW_LOOKS, Pace
from penstock.storage.config import LogConfig
from penstock.storage.second_level.planning import FILE_BYTES_MAX
from penstock.storage.second_level.splitting import FILES_BEHIND, Splitting

BASE = 1 << 20


def splitting(backlog_bytes: int, **config: Any) -> Splitting:
    parts = {"copies": None, "damage": SimpleNamespace(pieces=None), "shrinking": None}
    second_level = cast("Any", SimpleNamespace(**parts))
    made = Splitting(second_level, "set-0", LogConfig(**config), dict)
    made.backlog_bytes = backlog_bytes
    return made


class Paced:
    """A housekeeper that notes what it is told."""

    def __init__(self) -> None:
        self.syncs = Histogram()
        self.told: list[int] = []
        self.pacing = Pacing(Pace(BASE, 1000), lambda: self.syncs.buckets, self.told.append)

    def looks(self, count: int, *, sync_us: int = 10, backlog_bytes: int = 0) -> None:
        log = SimpleNamespace(splitting=splitting(backlog_bytes, level0_ms=1))
        members = {1: SimpleNamespace(log=log)}
        for _ in range(count):
            self.syncs.observe(sync_us)
            self.pacing.look(cast("Any", members))


def test_a_rate_is_told_where_it_changes() -> None:
    paced = Paced()
    paced.looks(3 * QUIET_LOOKS)
    assert paced.told == []
    paced.looks(2 * WINDOW_LOOKS, sync_us=100_000)
    assert paced.told == [BASE // 2, BASE // 4]
    assert paced.pacing.bytes_per_second == BASE // 4


def test_a_log_that_is_behind_raises_it() -> None:
    paced = Paced()
    paced.looks(2 * QUIET_LOOKS, backlog_bytes=FILES_BEHIND * FILE_BYTES_MAX)
    assert paced.told == []
    paced.looks(QUIET_LOOKS, backlog_bytes=FILES_BEHIND * FILE_BYTES_MAX + 1)
    assert paced.told == [2 * BASE]


@pytest.mark.parametrize(
    ("config", "most"),
    [
        ({"level0_ms": 5}, FILES_BEHIND * FILE_BYTES_MAX),
        ({"level0_bytes": 200 << 20, "segment_bytes": 64 << 20}, 100 << 20),
        ({"level0_bytes": 0, "segment_bytes": 64 << 20}, 64 << 20),
        ({"level0_bytes": 1 << 40}, FILES_BEHIND * FILE_BYTES_MAX),
    ],
)
def test_a_log_is_behind_with_two_files_due_or_half_of_its_bound(
    config: dict[str, int], most: int
) -> None:
    assert not splitting(most, **config).is_behind
    assert splitting(most + 1, **config).is_behind
