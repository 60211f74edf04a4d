"""Check: members with equal logs have equal state in memory.

    logs have the same end and are confirmed ─► same epochs, ends, times, index and producers

A log is copied byte for byte, but every member derives its state itself: while it appends, from a
snapshot and the frames behind it, or from a base. Checked when a run is idle at its end. If a
member's log begins later, or more of it is deleted, only the common part is compared. A disk that
was damaged is no exception: by then it was scrubbed and repaired (run/last_scrub.py), and what its
member makes of it is what others have.

Log starts are compared where nothing goes by retention; elsewhere, as sizes, each member changes
them at its own time.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from penstock.audit.row import TOPIC as AUDIT
from penstock.base.ids import ReplicaSetId, TopicId, TopicPartition
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.topic_config.local import local_limits
from penstock.node.node import Node
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.index.producers import BatchSpan
from simulator.run.server import Server

LONG_MS = 7 * 86_400_000
"""Longer than any run."""
_Named = tuple[str, ReplicaSetMember]


def differences(servers: Iterable[Server], kept: frozenset[TopicId] = frozenset()) -> Iterator[str]:
    """Name what differs between members of a set, whose logs are known to be equal.

    `kept` are the topics whose log starts have to be equal.
    """
    by_set: dict[ReplicaSetId, list[_Named]] = {}
    for server in servers:
        node = server.node
        if not isinstance(node, Node) or node.manager is None:
            continue
        for set_id, member in node.manager.members.items():
            if not member.log.is_fenced and not member.log.is_busy:
                by_set.setdefault(set_id, []).append((server.name, member))
    for set_id, named in by_set.items():
        for one, other in pairwise(named):
            for text in (*_between(one[1], other[1]), *_starts(one[1], other[1], kept)):
                yield f"set {set_id}: {one[0]} and {other[0]} differ in {text}"


def kept_for_long(image: ClusterImage) -> frozenset[TopicId]:
    """Return topics of which nothing goes but what a client deletes: each member is told of that.

    That is so where no wall clock is wrong by days. Of coordinators' topics members let go what
    they have written anew.
    """
    return frozenset(
        topic.topic_id
        for topic in image.topics_by_name.values()
        if (not topic.internal or topic.name == AUDIT)
        and topic.settings.retention_bytes == -1
        and not 0 <= topic.settings.retention_ms < LONG_MS
        and topic.settings.cleanup_policy == "delete"
        and local_limits(topic.configs) is None
    )


def _starts(
    member: ReplicaSetMember, other: ReplicaSetMember, kept: frozenset[TopicId]
) -> Iterator[str]:
    for key, partition in member.log.partitions.items():
        copy = other.log.partitions.get(key)
        if copy is None or key.topic_id not in kept:
            continue
        starts = partition.log_start_offset, copy.log_start_offset
        if starts[0] != starts[1]:
            yield f"{key}: the first offsets, {starts[0]} and {starts[1]}"


def _between(member: ReplicaSetMember, other: ReplicaSetMember) -> Iterator[str]:
    if member.log.end_position != other.log.end_position:
        return  # an append under way; the lengths themselves are looked at elsewhere
    start = max(member.log.start_position, other.log.start_position)
    ours, theirs = (
        [(epoch, at) for epoch, at in each.log.epochs if at >= start] for each in (member, other)
    )
    if ours != theirs:
        yield f"epochs from {start}: {ours} and {theirs}"
    producers, others = _producers(member), _producers(other)
    for key, partition in member.log.partitions.items():
        copy = other.log.partitions.get(key)
        if copy is None:
            if partition.last_end_position > start:
                yield f"{key}, which only one has"
            continue
        for text in _of_partition(partition, copy, start):
            yield f"{key}: {text}"
    for producer in producers.keys() & others.keys():
        if producers[producer] != others[producer]:
            yield f"producer {producer}: {producers[producer]} and {others[producer]}"


def _of_partition(partition_log: PartitionLog, other: PartitionLog, start: int) -> Iterator[str]:
    names = ["log_end_offset"]
    if min(partition_log.last_end_position, other.last_end_position) > start:
        names += ["last_end_position", "max_timestamp"]
    for name in names:
        if getattr(partition_log, name) != getattr(other, name):
            yield f"{name}: {getattr(partition_log, name)} and {getattr(other, name)}"
    index, copy = _index(partition_log), _index(other)
    for position in index.keys() & copy.keys():
        if index[position] != copy[position]:
            yield f"index at {position}: {index[position]} and {copy[position]}"


def _index(partition_log: PartitionLog) -> dict[int, tuple[int, int, int]]:
    """Return position -> (base offset, bytes, time) of the open segment."""
    rows = zip(
        partition_log.positions,
        partition_log.bases,
        partition_log.sizes,
        partition_log.timestamps,
        strict=True,
    )
    return {position: (base, size, time) for position, base, size, time in rows}


def _producers(
    member: ReplicaSetMember,
) -> dict[tuple[TopicPartition, int], tuple[int, tuple[BatchSpan, ...]]]:
    """Return (partition, producer id) -> (epoch, newest batch, if its epoch has one)."""
    by_serial = {partition.serial: key for key, partition in member.log.partitions.items()}
    return {
        (by_serial[serial], producer_id): (epoch, window[-1:])
        for (serial, producer_id), (epoch, _, window, _) in member.log.parts.states.entries.items()
        if serial in by_serial
    }
