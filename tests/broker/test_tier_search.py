"""Look-ups of the largest timestamp: of what the log has told, and of what only the tier has."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch
from penstock.broker.fetch.record_search import MAX_TIMESTAMP, Found
from penstock.broker.tier.search import TierSearch
from penstock.record.compression import READER_BOUNDS
from tests.runtime.test_tier_reads import World
from tests.tier.store_contract import run

NEWEST = 19
"""Timestamp of the last record that only the tier has: that of each is its offset."""


def newest(told: Found | None) -> Found | None:
    """Return what is found where the log has told this."""
    world = World()
    rules = SimpleNamespace(bounds=READER_BOUNDS)
    world.hosted.topic = SimpleNamespace(local=object(), rules=rules)
    tier: Any = SimpleNamespace(manifest=lambda *_: world.manifest, reads=world.reads)
    client: Any = SimpleNamespace(has_gone=lambda: False, client_host="host")
    found: list[tuple[Found | None, PlatformError | None]] = []

    async def story() -> None:
        search = TierSearch(world.hosted, MAX_TIMESTAMP, client, tier)
        search.newest(lambda *one: found.append(one), told, None)
        await world.over()

    run(story())
    ((result, error),) = found
    assert error is None
    return result


@pytest.mark.parametrize("timestamp", [NEWEST - 1, NEWEST])
def test_of_records_with_the_largest_timestamp_the_first_one_is_told(timestamp: int) -> None:
    found = newest(Found(25, timestamp, LeaderEpoch(3)))
    assert found is not None
    assert (found.offset, found.timestamp) == (NEWEST, NEWEST)


def test_a_newer_record_of_the_log_is_told() -> None:
    told = Found(25, NEWEST + 1, LeaderEpoch(3))
    assert newest(told) == told


def test_where_the_log_has_none_the_tier_is_asked() -> None:
    found = newest(None)
    assert found is not None
    assert found.offset == NEWEST
