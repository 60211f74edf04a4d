"""What lies in the object store of a cluster, read without any node of it."""

import asyncio
from typing import NamedTuple

from penstock.base.ids import TopicPartition
from penstock.record.read import iter_records
from penstock.tier.metadata.times import TierTimes
from penstock.tier.port import ObjectStore
from penstock.tier.read.reader import TierReader
from penstock.tier.read.rebuild import Rebuilt, rebuild

READ_BYTES = 1 << 20
NOW_MS = 1_700_000_000_000


class Stored(NamedTuple):
    """A partition in the store: (offset, value) of all records, in their order."""

    start_offset: int
    end_offset: int
    records: list[tuple[int, bytes]]


def stored(store: ObjectStore, cluster_id: bytes) -> dict[TopicPartition, Stored]:
    """Return everything that the objects of a cluster have. Fails where they contradict."""

    async def read() -> dict[TopicPartition, Stored]:
        found = await rebuild(store, cluster_id, TierTimes(), NOW_MS)
        assert not found.refused, found.refused
        assert not found.gaps, found.gaps
        return {key: await _read(store, found, key) for key in found.metadata.partitions()}

    return asyncio.run(read())


async def _read(store: ObjectStore, found: Rebuilt, key: TopicPartition) -> Stored:
    manifest, reader = found.metadata.manifest(key), TierReader(store)
    records: list[tuple[int, bytes]] = []
    offset = manifest.start_offset
    while offset < manifest.end_offset:
        batches, offset = await reader.read(manifest, key, offset, READ_BYTES)
        for batch in batches:
            records += [(one.offset, bytes(one.value or b"")) for one in iter_records(batch)]
    return Stored(manifest.start_offset, manifest.end_offset, records)
