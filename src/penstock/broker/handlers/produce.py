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
from penstock.broker.leader_hints import LeaderHints
from penstock.broker.partitions import HostedTopic, hosted_partition
from penstock.broker.replica_set import ReplicaSetMember
from penstock.broker.request import Reply
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.header import RequestHeader
from penstock.protocol.produce import (
    PartitionAnswer,
    PartitionData,
    ProduceRequest,
    appended,
    encode_produce_response,
    parse_produce_request,
)
from penstock.replication.errors import ReplicationError

KEY = ApiKey.PRODUCE
VERSIONS = range(3, 14)
ADVERTISED_MIN_VERSION = 0
TOPIC_ID_VERSION = 13
HINT_VERSION = 10
WAIT_MS_MAX = 300_000
"""A client may ask for any time-out; nothing is parked for longer than five minutes."""


class PendingProduce:
    """A produce request whose batches are appended and not yet acknowledged."""

    __slots__ = (
        "_answers",
        "_broker",
        "_open_count",
        "_reply",
        "_version",
        "deadline_ms",
    )

    def __init__(
        self,
        broker: Broker,
        reply: Reply,
        version: int,
        answers: list[PartitionAnswer],
        deadline_ms: int,
    ) -> None:
        self._broker = broker
        self._reply = reply
        self._version = version
        self._answers = answers
        self._open_count = 0
        self.deadline_ms = deadline_ms

    def park(self, members: list[ReplicaSetMember], acks: int) -> None:
        """Wait for every replica set that got a batch; with none, answer at once."""
        if not members:
            self._send()
            return
        self._open_count = len(members)
        for member in members:
            queue = member.waiting_for_all if acks == ACKS_ALL else member.waiting_for_master
            queue.park(member.log.end_position, self)

    def complete(self) -> None:
        self._open_count -= 1
        if self._open_count == 0:
            self._send()

    def expire(self) -> None:
        if self._open_count > 0:
            self._broker.stats.produce_timeouts += 1
            self._answer_all_with(ErrorCode.REQUEST_TIMED_OUT)

    def fail(self) -> None:
        if self._open_count > 0:
            self._answer_all_with(ErrorCode.KAFKA_STORAGE_ERROR)

    def refuse(self, error: ReplicationError) -> None:
        if self._open_count > 0:
            self._answer_all_with(error_code_of(error))

    def shrunk(self, in_sync_count: int) -> None:
        """Note which topics ask for more members than are in step; rare, so looked up only now."""
        if self._open_count > 0:
            self._answers = [self._check_minimum(answer) for answer in self._answers]

    def _check_minimum(self, answer: PartitionAnswer) -> PartitionAnswer:
        topic = _topics(self._broker, self._version).get(answer.topic)
        hosted = hosted_partition(topic, answer.partition)
        if answer.error_code or hosted is None:
            return answer
        if hosted.member.in_sync_count >= hosted.topic.rules.min_insync_replicas:
            return answer
        error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return PartitionAnswer(answer.topic, answer.partition, error)

    def _answer_all_with(self, error: ErrorCode) -> None:
        """Batches that were refused keep their own error; the appended ones get this one."""
        self._open_count = -1
        self._answers = [
            answer if answer.error_code else PartitionAnswer(answer.topic, answer.partition, error)
            for answer in self._answers
        ]
        self._send()

    def _send(self) -> None:
        self._reply.raw(encode(self._broker, self._version, self._answers))


def handle_frame(broker: Broker, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
    """Append and park; raises WireError for a request that can not be parsed."""
    version = header.api_version
    request = parse_produce_request(frame, header.body_at, version)
    _, acks, timeout_ms, partitions = request
    topics = _topics(broker, version)
    answers: list[PartitionAnswer] = []
    members: list[ReplicaSetMember] = []
    now_ms = broker.clock.wall_ms()
    is_usual = -1 <= acks <= 1 and request.transactional_id is None
    for part in partitions:
        topic, partition, records_at, records_end = part
        try:
            if not is_usual:
                check_request(request)
            hosted = partition_of(topics.get(topic), partition)
            records = frame[records_at:records_end]
            offset, time_ms = append_batch(hosted, records, acks, now_ms, broker.stats)
        except PlatformError as error:
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
    PendingProduce(broker, reply, version, answers, deadline_ms).park(members, acks)


def encode(broker: Broker, version: int, answers: list[PartitionAnswer]) -> bytes:
    """Encode an answer; partitions that are led elsewhere say by whom."""
    if version < HINT_VERSION or not any(answer.error_code for answer in answers):
        return encode_produce_response(version, answers)
    hints = LeaderHints(broker.metadata, _topics(broker, version))
    answers = [
        answer._replace(current_leader=hints.of(answer.topic, answer.partition))
        if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        else answer
        for answer in answers
    ]
    return encode_produce_response(version, answers, endpoints=hints.endpoints)


def _topics(broker: Broker, version: int) -> dict[bytes, HostedTopic]:
    return broker.partitions.by_id if version >= TOPIC_ID_VERSION else broker.partitions.by_name


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
