"""ListOffsets (key 2), versions 1 to 11: the offset at an end of a partition or at a time.

    -1 latest                 the high watermark
    -2 earliest, -4 (v8)      the log start; all of the log is local
    -3 (v7)                   the record with the largest timestamp
    -5 (v9), -6 (v11)         bounds of the remote tier: there is none, so no offset
    0 and more                the first record with that timestamp or a later one

Look-ups by time go through the index off the loop and are answered when they are done. A batch is
opened only here, to find the record in it.

Source: Kafka `UnifiedLog.fetchOffsetByTimestamp`, `KafkaApis.handleListOffsetRequest`; KIP-79,
KIP-320 (leader epoch, v4), KIP-734 (-3), KIP-405 (-4), KIP-1005 (-5), KIP-1023 (-6).
"""

from typing import Any, NamedTuple

from penstock.base.errors import PlatformError
from penstock.broker.broker import Broker
from penstock.broker.error_map import error_code_of
from penstock.broker.errors import UnknownPartition
from penstock.broker.fetch_operation import check_leader_epoch
from penstock.broker.partitions import HostedPartition
from penstock.broker.pending_answer import PendingAnswer
from penstock.broker.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.batch import read_header
from penstock.record.errors import RecordError
from penstock.record.read import iter_records
from penstock.storage.set_log import TimestampHit

KEY = ApiKey.LIST_OFFSETS
VERSIONS = range(1, 12)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
_SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING: 11,
}


class Found(NamedTuple):
    """An offset with its record's timestamp and epoch; -1 where there is none."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


NOTHING = Found(-1)


def handle(broker: Broker, request: Request, reply: Reply) -> None:
    """Answer partition by partition."""
    topics: list[dict[str, object]] = []
    pending = PendingAnswer(reply, {"topics": topics})
    for topic in request.body.topics:
        answers: list[dict[str, object]] = []
        topics.append({"name": topic.name, "partitions": answers})
        for wanted in topic.partitions:
            answer: dict[str, object] = {"partition_index": wanted.partition_index}
            answers.append(answer)
            if request.api_version < _since_version(wanted.timestamp):
                answer["error_code"] = ErrorCode.UNSUPPORTED_VERSION
                continue
            hosted = broker.partitions.find(topic.name, wanted.partition_index)
            try:
                _look_up(hosted, wanted, answer, pending)
            except PlatformError as error:
                answer["error_code"] = error_code_of(error)
    pending.end()


def _since_version(timestamp: int) -> int:
    """The version that knows this special timestamp; none knows the numbers below -6."""
    return 1 if timestamp >= 0 else _SINCE_VERSION.get(timestamp, VERSIONS.stop)


def _look_up(
    hosted: HostedPartition | None, wanted: Any, answer: dict[str, object], pending: PendingAnswer
) -> None:
    timestamp = wanted.timestamp
    if hosted is None:
        raise UnknownPartition
    check_leader_epoch(hosted.member, getattr(wanted, "current_leader_epoch", -1))
    if timestamp >= 0 or timestamp == MAX_TIMESTAMP:
        _search(hosted, timestamp, answer, pending)
    else:
        answer.update(_at_an_end(hosted, timestamp)._asdict())


def _at_an_end(hosted: HostedPartition, timestamp: int) -> Found:
    if timestamp == LATEST:
        return Found(
            hosted.member.high_watermark(hosted.log), leader_epoch=hosted.member.leader_epoch
        )
    if timestamp in {EARLIEST, EARLIEST_LOCAL}:
        return Found(hosted.log.log_start_offset)
    return NOTHING


def _search(
    hosted: HostedPartition, timestamp: int, answer: dict[str, object], pending: PendingAnswer
) -> None:
    member, log = hosted.member, hosted.log

    def done(hit: TimestampHit | None, error: PlatformError | None) -> None:
        try:
            if error is not None:
                raise error
            found = NOTHING if hit is None else _record_in(hit, timestamp, log.log_start_offset)
            answer.update(found._asdict())
        except PlatformError as failed:
            answer["error_code"] = error_code_of(failed)
        pending.end()

    pending.begin()
    limit = member.confirm_position
    if timestamp == MAX_TIMESTAMP:
        member.log.offset_for_max_timestamp(log, limit, done)
    else:
        member.log.offset_for_timestamp(log, timestamp, limit, done)


def _record_in(hit: TimestampHit, timestamp: int, log_start_offset: int) -> Found:
    """Find the record in the batch. One below the log start stands for the log start itself."""
    header = read_header(hit.batch)
    if header.base_offset + header.last_offset_delta < log_start_offset:
        return NOTHING
    wanted = hit.max_timestamp if timestamp == MAX_TIMESTAMP else timestamp
    offset, found_timestamp = header.base_offset, hit.max_timestamp
    if not header.is_log_append_time:
        for record in iter_records(hit.batch):
            if record.timestamp_ms >= wanted:
                offset, found_timestamp = record.offset, record.timestamp_ms
                break
        else:
            raise RecordError("a batch does not hold the timestamp of its header")
    return Found(max(offset, log_start_offset), found_timestamp, header.leader_epoch)
