"""Interpretation of a fetch request: its partitions, its session, and the replicas that serve it.

Source: as in kafka/handlers/records/fetch.py; KIP-227 (sessions), KIP-392 (slaves).
"""

from penstock.broker.access import Operation
from penstock.broker.broker import Broker
from penstock.broker.config import SlaveReads
from penstock.broker.errors import TopicNotAuthorised, UnknownPartition
from penstock.broker.fetch.partition_read import PartitionRead
from penstock.broker.fetch.slave_reads import ReplicaSelector
from penstock.broker.partitions import hosted_partition
from penstock.kafka.context import RequestContext
from penstock.kafka.fetch.reply import TOPIC_ID_VERSION
from penstock.kafka.fetch.session import (
    PARTITION_BYTES,
    Client,
    FetchSession,
    SessionPartition,
)
from penstock.kafka.gate import hosted_topics
from penstock.kafka.session_epochs import FINAL_EPOCH, INITIAL_EPOCH
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.fetch import FetchRequest
from penstock.replication.errors import NotMaster

RACK_VERSION = 11
READ_COMMITTED = 1
_READ = Operation.READ


def answer_bytes(broker: Broker, request: FetchRequest, quota_bytes: int | None) -> int:
    """Return the size limit for the records of the answer, by request, setting and quota.

    It is lower while clients have pinned much memory; a single batch may exceed it.
    """
    most = max(1, min(request.max_bytes, broker.config.fetch_max_bytes))
    return most if quota_bytes is None else min(most, quota_bytes)


def find(
    context: RequestContext, wanted: list[SessionPartition], version: int
) -> list[PartitionRead]:
    """Return the partition to read, or the error for one that the client may not read."""
    topics = hosted_topics(context, _READ, by_id=version >= TOPIC_ID_VERSION)
    reads: list[PartitionRead] = []
    for part in wanted:
        key, partition = part.key
        try:
            topic = topics.get(key)
        except TopicNotAuthorised:
            reads.append(PartitionRead(part, None, TopicNotAuthorised))
            continue
        hosted = hosted_partition(topic, partition)
        is_elsewhere = hosted is None and topic is not None and 0 <= partition < len(topic.placed)
        reads.append(PartitionRead(part, hosted, NotMaster if is_elsewhere else UnknownPartition))
    return reads


def selector_of(broker: Broker, version: int, rack: str, client: object) -> ReplicaSelector | None:
    """Return a selector if the request version can name a preferred read replica."""
    if version < RACK_VERSION or broker.config.slave_reads == SlaveReads.OFF:
        return None
    return ReplicaSelector(broker, rack, client)


def session_of(
    context: RequestContext,
    request: FetchRequest,
    wanted: list[SessionPartition],
    version: int,
    *,
    client: Client,
    count: int,
) -> FetchSession | ErrorCode | None:
    """Create, continue or end a session as the request says; None if there is none.

    `count` is the number of partitions the request names, of which `wanted` are the first.
    """
    cache = context.front.fetch_sessions
    epoch = request.session_epoch
    if epoch == FINAL_EPOCH:
        cache.close(request.session_id)
        return None
    now_ms = context.broker.clock.monotonic_ms()
    uses_topic_ids = version >= TOPIC_ID_VERSION
    if epoch == INITIAL_EPOCH:
        cache.close(request.session_id)
        if not wanted:
            return None
        session = cache.create(
            client,
            uses_topic_ids=uses_topic_ids,
            now_ms=now_ms,
            wanted_bytes=count * PARTITION_BYTES,
        )
        return session if session is not None and cache.apply(session, wanted, ()) else None
    found = cache.resume(
        client, request.session_id, epoch, uses_topic_ids=uses_topic_ids, now_ms=now_ms
    )
    if isinstance(found, FetchSession) and not cache.apply(found, wanted, request.forgotten):
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    return found
