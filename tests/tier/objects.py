"""Objects of tests, with real extent files in them."""

import asyncio
from collections.abc import Sequence

from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.extents.reader import read_summary
from penstock.tier.copies.transfer import put_object
from penstock.tier.envelope import ENVELOPE_BYTES
from penstock.tier.metadata.manifest import Manifest, Run, Snapshot
from penstock.tier.names import ObjectName
from penstock.tier.port import Capabilities
from simulator.kernel.object_store import Bucket, ModelledStore
from tests.extents.files import CLUSTER, SET, Part, reading, written_with_directory

ALL = Capabilities(creates=True, swaps=True)


def name(object_id: int, leader_epoch: int = 1, replica_set_id: int = SET) -> ObjectName:
    return ObjectName(CLUSTER, replica_set_id, LeaderEpoch(leader_epoch), object_id)


def put(bucket: Bucket, of: ObjectName, parts: Sequence[Part]) -> list[Run]:
    """Put an object with these partitions; return its runs, in their order."""
    data, entries = written_with_directory(parts, (of.cluster_id, of.replica_set_id))
    asyncio.run(put_object(ModelledStore(bucket), ALL, of, [data]))
    summaries = [read_summary("a", entry, reading(data)) for entry in entries]
    return [
        Run(of, entry, tuple(summary.notes.epochs), entry.end_offset)
        for entry, summary in zip(entries, summaries, strict=True)
    ]


def manifest_of(runs: Sequence[Run], of: TopicPartition | None = None) -> Manifest:
    """Return the manifest of one partition's runs."""
    own = tuple(run for run in runs if of in {None, run.entry.topic_partition})
    return Manifest(Snapshot(1, own[0].first_offset, own[-1].end_offset, own))


def change(bucket: Bucket, of: ObjectName, at: int, bits: int = 1) -> None:
    """Flip bits of one byte of an object."""
    data, version = bucket.objects[str(of)]
    changed = bytearray(data)
    changed[at] ^= bits
    bucket.objects[str(of)] = bytes(changed), version


def file_at(at: int) -> int:
    """Return where a byte of the extent file stands in its object."""
    return ENVELOPE_BYTES + at
