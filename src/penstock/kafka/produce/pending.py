"""A produce request whose batches are appended and await acknowledgement; its answer.

A request may have batches in several replica sets. Each set confirms, refuses or fails its own: the
loss of a mastership in one set does not affect what the others acknowledge.

Source: Kafka `DelayedProduce` (one status for each partition), KIP-951 (who leads instead).
"""

from itertools import repeat

from penstock.broker.append.append import ACKS_ALL
from penstock.broker.broker import Broker
from penstock.broker.partitions import HostedPartition, hosted_partition
from penstock.kafka.answers.leader_hints import LeaderHints
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import topics_by_key
from penstock.kafka.request import Reply
from penstock.protocol.compiled import encode_appended
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.header import RequestHeader
from penstock.protocol.produce import PartitionAnswer, encode_produce_response, frame_answer
from penstock.protocol.produce_run import ProduceRun
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.errors import ReplicationError

TOPIC_ID_VERSION = 13
HINT_VERSION = 10


class PendingProduce:
    """A produce request whose batches are appended and not yet acknowledged."""

    __slots__ = (
        "_answers",
        "_broker",
        "_correlation_id",
        "_has_errors",
        "_open_count",
        "_reply",
        "_version",
        "deadline_ms",
    )

    def __init__(  # noqa: PLR0917  made for every request, and keywords cost
        self,
        broker: Broker,
        reply: Reply,
        header: RequestHeader,
        answers: list[PartitionAnswer],
        deadline_ms: int,
        has_errors: bool,
    ) -> None:
        self._broker = broker
        self._reply = reply
        _, self._version, self._correlation_id, _, _ = header
        self._answers = answers
        self._has_errors = has_errors
        self._open_count = 0
        self.deadline_ms = deadline_ms

    def park(self, members: list[ReplicaSetMember], acks: int) -> None:
        """Wait for every replica set that got a batch; without any, answer at once."""
        self._open_count = count = len(members)
        if not count:
            self._send()
        for member in members:
            queue = member.waiting_for_all if acks == ACKS_ALL else member.waiting_for_master
            waiting = self if count == 1 else PendingSet(self, member)
            queue.park(member.log.end_position, waiting)

    def complete(self) -> None:
        self._open_count -= 1
        if self._open_count == 0:
            self._send()

    def expire(self) -> bool:
        if self._open_count > 0:
            self._broker.stats.produce_timeouts += 1
            self._open_count = 0
            self._answer_with(ErrorCode.REQUEST_TIMED_OUT)
            self._send()
        return False

    def fail(self) -> None:
        self.end_set(ErrorCode.KAFKA_STORAGE_ERROR)

    def refuse(self, error: ReplicationError) -> None:
        self.end_set(error_code_of(error))

    def end_set(self, error: ErrorCode, member: ReplicaSetMember | None = None) -> None:
        """A set (`member` None: the only one) will not acknowledge any more; others still may."""
        if self._open_count > 0:
            self._answer_with(error, member)
            self.complete()

    def shrunk(self, in_sync_count: int) -> None:
        """Note topics that require more members than are in sync; rare, so looked up only now."""
        if self._open_count > 0:
            self._answers = [self._check_minimum(answer) for answer in self._answers]
            self._has_errors = True

    def _check_minimum(self, answer: PartitionAnswer) -> PartitionAnswer:
        hosted = self._hosted(answer)
        if answer.error_code or hosted is None:
            return answer
        member = hosted.member
        if member.in_sync_count >= member.least_in_step(hosted.topic.rules.min_insync_replicas):
            return answer
        error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return PartitionAnswer(answer.topic, answer.partition, error)

    def _answer_with(self, error: ErrorCode, member: ReplicaSetMember | None = None) -> None:
        """Answer appended batches of the set with `error`; refused ones keep their own error."""
        self._has_errors = True
        self._answers = [
            PartitionAnswer(answer.topic, answer.partition, error)
            if not answer.error_code and (member is None or self._is_of(answer, member))
            else answer
            for answer in self._answers
        ]

    def _is_of(self, answer: PartitionAnswer, member: ReplicaSetMember) -> bool:
        """Whether the partition is in the set; a deleted one counts for any set."""
        hosted = self._hosted(answer)
        return hosted is None or hosted.member is member

    def _hosted(self, answer: PartitionAnswer) -> HostedPartition | None:
        topic = topics_by_key(self._broker, self._version >= TOPIC_ID_VERSION).get(answer.topic)
        return hosted_partition(topic, answer.partition)

    def _send(self) -> None:
        answers, version, throttle_ms = self._answers, self._version, self._reply.throttle_ms
        if self._has_errors or throttle_ms:
            listener = self._reply.connection.listener_name
            self._reply.raw(encode(self._broker, version, answers, listener, throttle_ms))
        elif len(answers) == 1:
            self._reply.whole(encode_appended(version, self._correlation_id, answers[0]))
        else:
            self._reply.raw(encode_produce_response(version, answers))


class PendingRun(PendingProduce):
    """Requests of one partition each, all of one replica set: appended and answered together."""

    __slots__ = ("_correlation_ids",)

    def __init__(  # noqa: PLR0917  as above
        self,
        broker: Broker,
        reply: Reply,
        run: ProduceRun,
        answers: list[PartitionAnswer],
        deadline_ms: int,
        has_errors: bool,
    ) -> None:
        """`answers` are for the first requests of the run, which share `reply`."""
        super().__init__(broker, reply, run.header, answers, deadline_ms, has_errors)
        self._correlation_ids = [request.correlation_id for request in run.requests]

    def _send(self) -> None:
        if self._has_errors or self._reply.throttle_ms:
            wholes = map(self._encode_one, self._correlation_ids, self._answers)
        else:
            wholes = map(
                encode_appended, repeat(self._version), self._correlation_ids, self._answers
            )
        self._reply.whole(b"".join(wholes))

    def _encode_one(self, correlation_id: int, answer: PartitionAnswer) -> bytes:
        listener = self._reply.connection.listener_name
        throttle_ms = self._reply.throttle_ms
        body = encode(self._broker, self._version, [answer], listener, throttle_ms)
        return frame_answer(self._version, correlation_id, body)


class PendingSet:
    """One of several replica sets that a request waits for; each succeeds or fails by itself."""

    __slots__ = ("_member", "_request", "deadline_ms")

    def __init__(self, request: PendingProduce, member: ReplicaSetMember) -> None:
        self._request = request
        self._member = member
        self.deadline_ms = request.deadline_ms

    def complete(self) -> None:
        self._request.complete()

    def expire(self) -> bool:
        return self._request.expire()

    def fail(self) -> None:
        self._request.end_set(ErrorCode.KAFKA_STORAGE_ERROR, self._member)

    def refuse(self, error: ReplicationError) -> None:
        self._request.end_set(error_code_of(error), self._member)

    def shrunk(self, in_sync_count: int) -> None:
        self._request.shrunk(in_sync_count)


def encode(
    broker: Broker,
    version: int,
    answers: list[PartitionAnswer],
    listener: str,
    throttle_ms: int = 0,
) -> bytes:
    """Encode an answer; partitions that are led elsewhere have the leader and its address."""
    if version < HINT_VERSION:
        return encode_produce_response(version, answers, throttle_ms=throttle_ms)
    hints = LeaderHints(
        broker.metadata, topics_by_key(broker, version >= TOPIC_ID_VERSION), listener
    )
    answers = [
        answer._replace(current_leader=hints.of(answer.topic, answer.partition))
        if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        else answer
        for answer in answers
    ]
    return encode_produce_response(
        version, answers, endpoints=hints.endpoints, throttle_ms=throttle_ms
    )
