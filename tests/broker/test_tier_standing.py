"""What is told of a partition in the tier: its bounds, and what of it is not copied yet."""

import asyncio
from types import SimpleNamespace
from typing import Any

from penstock.base.ids import TopicId
from penstock.broker.tier.standing import NO_STORE, Standing, standings
from penstock.broker.tier.view import CopyStanding
from penstock.broker.turns import Pace
from penstock.controller.topic_config.local import REMOTE
from simulator.kernel.object_store import Bucket
from tests.extents.files import Part, batch, key
from tests.tier.objects import manifest_of, name, put

ONE = key(1, 0)


def standing(local_start: int, log_end: int, kept_bytes: int) -> tuple[Standing, int]:
    """What is told of a partition of which the tier has four runs [0, 40), and a run's bytes."""
    bucket = Bucket()
    runs = [
        put(bucket, name(at + 1), [Part(ONE, [batch(10 * at, records=10)])])[0] for at in range(4)
    ]
    older = SimpleNamespace(size_bytes=lambda _: 0)
    partition = SimpleNamespace(
        log_start_offset=local_start,
        log_end_offset=log_end,
        topic_partition=ONE,
        size_bytes=kept_bytes * runs[0].entry.batch_bytes,
    )
    log = SimpleNamespace(partitions={ONE: partition}, parts=SimpleNamespace(older=older))
    topic = SimpleNamespace(name="t", internal=False, configs={REMOTE: "true"})
    topics = {ONE.topic_id: topic}
    broker: Any = SimpleNamespace(
        metadata=SimpleNamespace(topics_by_id=topics),
        partitions=SimpleNamespace(by_id={TopicId(ONE.topic_id): SimpleNamespace(local=object())}),
        tier=None,
    )
    member: Any = SimpleNamespace(log=log, replica_set_id=7)
    copying = CopyStanding("idle", None, {ONE: manifest_of(runs)})

    async def told() -> list[Standing]:
        return [one async for one in standings(broker, member, copying, Pace(None))]

    (row,) = asyncio.run(told())
    return row, runs[0].entry.batch_bytes


def test_what_lies_on_the_disks_and_in_the_tier_is_not_waiting() -> None:
    row, size = standing(local_start=20, log_end=50, kept_bytes=3)
    assert (row.start, row.local_start, row.tier_start, row.tier_end) == (0, 20, 0, 40)
    assert (row.runs, row.tier_bytes) == (4, 4 * size)
    assert (row.lag_records, row.lag_bytes) == (10, size), "two of three runs are in both"
    assert row.waits_for == NO_STORE


def test_a_run_of_which_the_disks_have_a_part_counts_as_not_copied() -> None:
    row, size = standing(local_start=15, log_end=50, kept_bytes=3)
    assert (row.lag_records, row.lag_bytes) == (10, size)


def test_where_all_is_copied_nothing_waits_however_large_the_disks_are() -> None:
    row, _ = standing(local_start=20, log_end=40, kept_bytes=9)
    assert (row.lag_records, row.lag_bytes) == (0, 0)
