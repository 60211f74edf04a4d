"""Appends one produced batch: the checks in protocol order, then the append.

    find partition ─ internal? ─ master? ─ replicas? ─ one whole valid batch? ─ size ─ timestamps
      ─ prepare? ─ log append time? ─ transaction ─ producer sequence ─ log.append

Every refusal is an error with its own Kafka code (error_map.py), and nothing is appended. A
duplicate of an idempotent producer is a success with the offset of the first copy. The size limit
applies to the batch as sent and, if the codec is changed, to the batch as stored.

Source: Kafka `ReplicaManager.appendRecords`, `LogValidator`, `UnifiedLog.append`; KIP-98 for
sequences.

Checks of records and compression that may take long are left to a worker (preparation.py).
"""

from penstock.broker.append.batch_rules import BatchRules
from penstock.broker.append.preparation import Prepared, needs_preparation, prepare_here
from penstock.broker.append.timestamps import check_times
from penstock.broker.append.transactional import check_transaction, note_opened
from penstock.broker.errors import (
    InternalTopicRefused,
    UnknownPartition,
)
from penstock.broker.partitions import HostedPartition, HostedTopic
from penstock.broker.stats import BrokerStats
from penstock.record.batch import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    check_from_client,
    read_header,
    stamp_log_append_time,
)
from penstock.record.compiled import check_batch, check_plain
from penstock.record.errors import BatchTooLarge, InvalidRecord
from penstock.record.walk import Times
from penstock.replication.errors import NotMaster
from penstock.storage.errors import OutOfOrderSequence, ProducerFenced
from penstock.storage.index.producers import Duplicate

ACKS_ALL = -1
NO_TIMESTAMP = -1
_CONTROL_OR_APPEND_TIME = CONTROL | LOG_APPEND_TIME


def partition_of(topic: HostedTopic | None, partition: int) -> HostedPartition:
    """Return the hosted partition.

    Raises UnknownPartition, InternalTopicRefused, NotMaster if another broker has it.
    """
    if topic is None or not 0 <= partition < len(topic.partitions):
        raise UnknownPartition
    if topic.internal:
        raise InternalTopicRefused
    hosted = topic.partitions[partition] or topic.find(partition)
    if hosted is None:
        raise NotMaster("another broker carries this partition")
    return hosted


def partition_to_mark(topic: HostedTopic | None, partition: int) -> HostedPartition:
    """Return the partition for a marker, which internal topics get too.

    Raises UnknownPartition, NotMaster.
    """
    if topic is None or not 0 <= partition < len(topic.partitions):
        raise UnknownPartition
    hosted = topic.partitions[partition] or topic.find(partition)
    if hosted is None:
        raise NotMaster("another broker carries this partition")
    return hosted


def append_batch(  # noqa: PLR0917  called for every batch; keyword arguments are slower
    hosted: HostedPartition,
    records: memoryview,
    acks: int,
    now_ms: int,
    stats: BrokerStats,
    prepared: Prepared | None = None,
) -> tuple[int, int] | None:
    """Check `records`, which must be exactly one batch, and append it.

    Returns (base offset, log append time in ms, -1 under CreateTime). If a worker has to prepare
    the batch first, returns None and appends nothing; `prepared` is the worker's result.
    The bytes are stamped in place, and may be reused after the call.
    Raises RecordError, ReplicationError, StorageError, ProducerError kinds.
    """
    rules = hosted.topic.rules
    member = hosted.member
    size = len(records)
    if not member.is_master:
        member.check_writable()
    if acks == ACKS_ALL:
        member.check_in_step(rules.min_insync_replicas)
    header, append_time = None, NO_TIMESTAMP
    if rules.takes_plain and size <= rules.max_message_bytes:
        before_ms, after_ms = rules.timestamp_before_max_ms, rules.timestamp_after_max_ms
        header = check_plain(records, now_ms, before_ms, after_ms)
    if header is None:
        ready = _looked_at(records, rules, now_ms, prepared)
        if ready is None:
            return None
        records, header, append_time = ready
    if header.producer_id >= 0 or header.attributes & TRANSACTIONAL:
        check_transaction(hosted, header)
        earlier = _earlier_copy(hosted, header)
        if earlier is not None:
            stats.duplicate_batches += 1
            return earlier.base_offset, append_time
    base_offset = member.log.append(hosted.log, records, header)
    if hosted.guards:
        note_opened(hosted, header)
    stats.bytes_produced += size
    stats.records_produced += header.record_count
    if hosted.waiters:
        member.watch(member.log.end_position, hosted)
    return base_offset, append_time


def _earlier_copy(hosted: HostedPartition, header: BatchHeader) -> Duplicate | None:
    """Return where the log has the batch already; None if it is the next of its producer.

    Clients end a producer whose sequence is refused. A replaced master that does not know it yet
    lacks the batches its successor accepted, so it answers that another broker may lead.
    """
    try:
        return hosted.log.producers.check(header)
    except (OutOfOrderSequence, ProducerFenced):
        hosted.member.check_readable()
        raise


def _looked_at(
    records: memoryview, rules: BatchRules, now_ms: int, prepared: Prepared | None
) -> tuple[memoryview, BatchHeader, int] | None:
    """Check a batch step by step: any that is not plain, and those that are to be refused.

    As `_ready`, which is the last step.
    """
    size = len(records)
    header = check_batch(records, 0, size)
    if header.batch_length + 12 != size:
        raise InvalidRecord("a produce request holds exactly one batch for each partition")
    if header.attributes & _CONTROL_OR_APPEND_TIME:
        check_from_client(header)
    if size > rules.max_message_bytes:
        raise BatchTooLarge(size, rules.max_message_bytes)
    return _ready(records, header, rules, now_ms, prepared)


def _ready(
    records: memoryview,
    header: BatchHeader,
    rules: BatchRules,
    now_ms: int,
    prepared: Prepared | None,
) -> tuple[memoryview, BatchHeader, int] | None:
    """Check the records, change the codec, stamp for LogAppendTime; return also the append time.

    None if a worker has to prepare the batch. Who looks at the records checks their times.
    """
    if needs_preparation(header, rules):
        prepared = prepared or prepare_here(records, header, rules, now_ms)
        if prepared is None:
            return None
        records, header = prepared
        if len(records) > rules.max_message_bytes:
            raise BatchTooLarge(len(records), rules.max_message_bytes)
    elif not rules.is_log_append_time:
        check_times(Times(header.base_timestamp, header.max_timestamp), rules, now_ms)
    if not rules.is_log_append_time:
        return records, header, NO_TIMESTAMP
    stamp_log_append_time(records, 0, now_ms)
    return records, read_header(records), now_ms
