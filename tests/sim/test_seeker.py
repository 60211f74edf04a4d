"""What a client that looks records up by their time may be answered."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from penstock.broker.fetch.record_search import Found as Told
from penstock.broker.fetch.record_search import RecordSearch
from penstock.storage.commit_log.set_log import TimestampHit
from simulator.clients.reading.seeker import Found, Seeker
from simulator.clients.world import ClientWorld
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan, Shape
from simulator.run.topology import TOPIC

SHAPE = Shape(partitions=1, producers=1, level0_bytes=65_536)


def wrong(before: Found, found: Found) -> str:
    """Return what is said of an answer after another one, in logs whose records are deleted."""
    seeker = Seeker(world=cast("ClientWorld", None), random=cast("Any", None), is_cut=True)
    return seeker._wrong(TOPIC, [before], found, begun_ns=3)


def test_a_next_master_may_have_deleted_less() -> None:
    """Seeds 5059 and 5200: the log of one began at 745, and that of the next one at 646."""
    before = Found(asked=58, offset=745, timestamp_ms=6676, told_ns=1, log_start_offset=745)
    assert wrong(before, Found(asked=782, offset=646, timestamp_ms=5926, told_ns=4)) == ""


def test_a_record_that_was_there_may_not_be_left_out() -> None:
    before = Found(asked=58, offset=745, timestamp_ms=6676, told_ns=1, log_start_offset=646)
    assert " after " in wrong(before, Found(asked=782, offset=646, timestamp_ms=5926, told_ns=4))


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("retention_bytes", [-1, 40_000])
def test_a_search_that_skips_a_batch_now_and_then(
    monkeypatch: pytest.MonkeyPatch, retention_bytes: int
) -> None:
    search, asked = RecordSearch.__call__, [0]

    def skips(self: RecordSearch, hit: TimestampHit) -> Told | None:
        asked[0] += 1
        return None if asked[0] % 3 == 1 else search(self, hit)

    async def a_while(_: Run) -> None:
        await asyncio.sleep(6.0)

    monkeypatch.setattr(RecordSearch, "__call__", skips)
    shape = replace(SHAPE, retention_bytes=retention_bytes)
    told = run_plan(Plan(seed=3, shape=shape, settle_ms=300), a_while).findings
    assert any(" after Found(" in text for text in told), told
