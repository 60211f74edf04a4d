"""Produce (key 0), versions 3 to 13: append the batches, answer once they are durable enough.

    parse ─► append each partition's batch ─► park at the log's end ─► answer in request order

acks=0 answers nothing, and an error ends the connection so that the producer looks for the leader
again (as Kafka does). acks=1 waits for the master's own flush policy, acks=all for the confirm
position; a sync-state set that shrinks below the topic's minimum meanwhile turns success into
NOT_ENOUGH_REPLICAS_AFTER_APPEND. A broker that is not master (any more) names the one that is.
Versions 0 to 2 are advertised and refused: librdkafka keys features on the lower bound
(KAFKA-18659).

Source: Kafka `KafkaApis.handleProduceRequest`, KIP-98, KIP-467 (record errors), KIP-896, KIP-951.
"""

from penstock.base.errors import PlatformError
from penstock.broker.append import ACKS_ALL, append_batch, partition_of
from penstock.broker.broker import Broker
from penstock.broker.error_map import error_code_of
from penstock.broker.errors import InvalidAcks, TransactionsNotSupported
from penstock.broker.pending_produce import TOPIC_ID_VERSION, PendingProduce, topics_by_key
from penstock.broker.replica_set import ReplicaSetMember
from penstock.broker.request import Reply
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.compiled import appended, parse_produce_request
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.header import RequestHeader
from penstock.protocol.produce import (
    PartitionAnswer,
    PartitionData,
    ProduceRequest,
)

KEY = ApiKey.PRODUCE
VERSIONS = range(3, 14)
ADVERTISED_MIN_VERSION = 0
WAIT_MS_MAX = 300_000
"""A client may ask for any time-out; nothing is parked for longer than five minutes."""


def handle_frame(broker: Broker, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
    """Append and park; raises WireError for a request that can not be parsed."""
    version = header.api_version
    request = parse_produce_request(frame, header.body_at, version)
    transactional_id, acks, timeout_ms, partitions = request
    topics = topics_by_key(broker, version)
    answers: list[PartitionAnswer] = []
    has_errors = False
    members: list[ReplicaSetMember] = []
    now_ms = broker.clock.wall_ms()
    is_usual = -1 <= acks <= 1 and transactional_id is None
    for part in partitions:
        topic, partition, records_at, records_end = part
        try:
            if not is_usual:
                check_request(request)
            hosted = partition_of(topics.get(topic), partition)
            records = frame[records_at:records_end]
            offset, time_ms = append_batch(hosted, records, acks, now_ms, broker.stats)
        except PlatformError as error:
            has_errors = True
            answers.append(_refused(broker, part, error, version))
            continue
        if hosted.member not in members:
            members.append(hosted.member)
        answers.append(appended(part, offset, time_ms, hosted.log.log_start_offset))
    if acks == 0:
        _finish_without_answer(answers, reply)
        return
    if not 0 <= timeout_ms <= WAIT_MS_MAX:
        timeout_ms = min(max(timeout_ms, 0), WAIT_MS_MAX)
    deadline_ms = reply.started_us // 1000 + timeout_ms
    PendingProduce(broker, reply, header, answers, deadline_ms, has_errors).park(members, acks)


def check_request(request: ProduceRequest) -> None:
    """Refuse what concerns all partitions of a request. Raises BrokerError kinds."""
    if not ACKS_ALL <= request.acks <= 1:
        raise InvalidAcks(request.acks)
    if request.transactional_id is not None:
        raise TransactionsNotSupported


def _refused(
    broker: Broker, part: PartitionData, error: PlatformError, version: int
) -> PartitionAnswer:
    code = error_code_of(error)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and version >= TOPIC_ID_VERSION:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    broker.stats.count_refused(code.name)
    return PartitionAnswer(part.topic, part.partition, code, error_message=str(error) or None)


def _finish_without_answer(answers: list[PartitionAnswer], reply: Reply) -> None:
    if any(answer.error_code for answer in answers):
        reply.close("a batch sent with acks=0 was refused")
    else:
        reply.skip()
