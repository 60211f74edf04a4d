"""A run as bytes: in rows of the tier's metadata, and in answers to readers.

    set i32, leader epoch i32, object id i64, end i64, the extent's entry 112 (extent-file.md),
    epochs: count i32, each i32 and i64

The cluster is not in them: runs of one cluster alone are in its metadata.

Source: docs/formats/tier.md.
"""

import struct
from collections.abc import Sequence
from itertools import pairwise

from penstock.base.ids import LeaderEpoch, TopicId
from penstock.extents.layout import ENTRY, EPOCH, Entry
from penstock.tier.metadata.manifest import Run
from penstock.tier.names import ObjectName

_HEAD = struct.Struct(">iiqq")
_COUNT = struct.Struct(">i")
_FIXED_BYTES = _HEAD.size + ENTRY.size + _COUNT.size


def encode_run(run: Run) -> bytes:
    """Return the bytes of a run."""
    _, set_id, epoch, object_id = run.name
    epochs = b"".join(EPOCH.pack(*one) for one in run.epochs)
    head = _HEAD.pack(set_id, epoch, object_id, run.end_offset)
    return head + ENTRY.pack(*run.entry) + _COUNT.pack(len(run.epochs)) + epochs


def decode_run(cluster_id: bytes, data: bytes) -> Run:
    """Return the run in `data`. Raises ValueError: its length is not that of what it counts."""
    if len(data) < _FIXED_BYTES:
        raise ValueError(f"a run of {len(data)} bytes")
    set_id, epoch, object_id, end_offset = _HEAD.unpack_from(data)
    topic_id, *numbers = ENTRY.unpack_from(data, _HEAD.size)
    (count,) = _COUNT.unpack_from(data, _FIXED_BYTES - _COUNT.size)
    if count < 0 or len(data) != _FIXED_BYTES + EPOCH.size * count:
        raise ValueError(f"{count} epochs in a run of {len(data)} bytes")
    epochs = tuple(EPOCH.iter_unpack(data[_FIXED_BYTES:]))
    name = ObjectName(cluster_id, set_id, LeaderEpoch(epoch), object_id)
    return Run(name, Entry(TopicId(topic_id), *numbers), epochs, end_offset)


def are_in_sequence(runs: Sequence[Run]) -> bool:
    """Whether runs are of one partition, and each begins where the one before ends."""
    if any(not run.first_offset < run.end_offset <= run.entry.end_offset for run in runs):
        return False
    return all(
        one.end_offset == other.first_offset
        and one.entry.topic_partition == other.entry.topic_partition
        for one, other in pairwise(runs)
    )
