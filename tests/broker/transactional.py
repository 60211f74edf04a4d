"""Transactions in a test's cluster, and a consumer that reads as Kafka's Java client does."""

from collections.abc import Iterable
from heapq import heapify, heappop
from typing import Any

from penstock.base.ids import CoordinatorEpoch, ProducerEpoch, ProducerId
from penstock.broker.append.markers import append_marker
from penstock.broker.partitions import HostedPartition
from penstock.protocol.api_keys import ApiKey
from penstock.record.batch import CONTROL, TRANSACTIONAL, read_header
from penstock.record.build import Record, build_batch
from penstock.record.marker import read_marker
from penstock.record.read import iter_batches, iter_records
from penstock.storage.index.transactions import TransactionEnd
from penstock.transactions.state import BUMPING_VERSION
from tests.broker.cluster import Asked, Cluster, Node, fetch_fields

TOPIC_ID_VERSION = 13
SAME_EPOCH_VERSION = BUMPING_VERSION - 1
"""Of transactions: markers have the epoch of the batches before them."""
COMMIT, ABORT = True, False
EVENTS = "events"


def hosted(node: Node, topic: str = EVENTS) -> HostedPartition:
    found = node.broker.partitions.find(topic, 0)
    assert found is not None
    return found


def write(node: Node, producer_id: int, value: bytes, *, topic: str = EVENTS) -> int:
    """Append a batch of one record to a producer's transaction, or a plain one of producer -1."""
    place = hosted(node, topic)
    fields: dict[str, int] = {}
    if producer_id >= 0:
        known = place.log.producers.known(ProducerId(producer_id))
        at = (0, 0) if known is None else (known.epoch, known.last_sequence + 1)
        fields = {"producer_epoch": at[0], "base_sequence": at[1], "attributes": TRANSACTIONAL}
        fields["producer_id"] = producer_id
    record = Record(None, value, (), 1_700_000_000_000)
    data = memoryview(build_batch([record], **fields))
    base = place.member.log.append(place.log, data, read_header(data))
    place.watch()
    return base


def end(node: Node, producer_id: int, is_commit: bool, *, topic: str = EVENTS) -> int:
    """Append the marker of a producer's transaction, as its coordinator has it appended."""
    place = hosted(node, topic)
    known = place.log.producers.known(ProducerId(producer_id))
    epoch = ProducerEpoch(0) if known is None else known.epoch
    append_marker(
        place,
        TransactionEnd(ProducerId(producer_id), epoch, CoordinatorEpoch(3), is_commit),
        SAME_EPOCH_VERSION,
    )
    return place.log.log_end_offset - 1


def fetch(
    node: Node,
    offset: int,
    *,
    isolation: int = 1,
    version: int = 12,
    wait_ms: int = 0,
    topic: str = EVENTS,
    rack: str = "",
    partition_max: int = 1 << 20,
    **fields: Any,
) -> Asked:
    """Send a fetch of partition 0; `fields` are those of the request."""
    wanted = fetch_fields(topic, offset, wait_ms, -1, -1)
    wanted |= {"isolation_level": isolation, "rack_id": rack} | fields
    place = wanted["topics"][0]
    place["partitions"][0]["partition_max_bytes"] = partition_max
    if version >= TOPIC_ID_VERSION:
        place["topic_id"] = hosted(node, topic).topic.topic_id
    return node.send(ApiKey.FETCH, version, wanted)


def fetched(asked: Asked) -> Any:
    """The answer for the partition; None while the fetch is parked."""
    return asked.answer and asked.answer.responses[0].partitions[0]


def ask_fetch(node: Node, offset: int, **how: Any) -> Any:
    asked = fetch(node, offset, **how)
    node.cluster.world.run()
    return fetched(asked)


def ask_latest(node: Node, timestamp: int = -1, *, isolation: int = 1, version: int = 7) -> Asked:
    partition = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
    topics = [{"name": EVENTS, "partitions": [partition]}]
    fields = {"replica_id": -1, "isolation_level": isolation, "topics": topics}
    return node.send(ApiKey.LIST_OFFSETS, version, fields)


def list_offset(node: Node, timestamp: int, *, isolation: int = 1, version: int = 7) -> Any:
    asked = ask_latest(node, timestamp, isolation=isolation, version=version)
    node.cluster.world.run()
    return asked.answer.topics[0].partitions[0]


def told_aborted(partition: Any) -> list[tuple[int, int]] | None:
    found = partition.aborted_transactions
    return None if found is None else [(one.producer_id, one.first_offset) for one in found]


def bases(partition: Any) -> list[int]:
    data = memoryview(partition.records or b"")
    return [header.base_offset for header, _ in iter_batches(data)]


Read = tuple[int, bytes | None]
"""(offset, value)"""


def committed(partition: Any, position: int) -> tuple[list[Read], int]:
    """Return what a consumer of committed records gets out of an answer, and where it goes on.

    As Kafka's `CompletedFetch.nextFetchedRecord`: the queue of aborted transactions by their first
    offsets, producers that are being aborted, and the marker that ends it.
    """
    waiting = [(first, producer_id) for producer_id, first in told_aborted(partition) or ()]
    heapify(waiting)
    being_aborted: set[int] = set()
    found: list[Read] = []
    for header, batch in iter_batches(memoryview(partition.records or b"")):
        last = header.base_offset + header.last_offset_delta
        while waiting and waiting[0][0] <= last:
            being_aborted.add(heappop(waiting)[1])
        if header.attributes & CONTROL:
            marker = read_marker(batch)
            assert marker is not None
            if not marker.is_commit:
                being_aborted.discard(header.producer_id)
        elif not (header.attributes & TRANSACTIONAL and header.producer_id in being_aborted):
            found += _records(header.base_offset, batch, position)
        position = max(position, last + 1)
    return found, position


def _records(base: int, batch: memoryview, position: int) -> Iterable[Read]:
    for delta, record in enumerate(iter_records(batch)):
        if base + delta >= position:
            yield base + delta, record.value


def events(count: int = 2, **config: Any) -> Cluster:
    cluster = Cluster(count, **config)
    cluster.create(EVENTS)
    cluster.replicate()
    return cluster


def forget_indexes(node: Node) -> None:
    """Let the disk be asked for the indexes of closed segments."""
    log = node.member.log
    for segment in log.parts.store.segments[:-1]:
        log.parts.reader.cache.drop_segment(segment.base)
