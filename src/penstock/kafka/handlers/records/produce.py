"""Produce (key 0), versions 3 to 13: append the batches, answer once they are durable enough.

    parse ─► append each partition's batch ─► park at the log's end ─► answer in request order
                    └─► a batch takes long to prepare, or there are many: the rest follows later

acks=0 has no answer, and an error closes the connection so that the producer looks for the leader
again. Requests that a client has pipelined are appended and answered as a run (ADR 0023). acks=1
waits for the master's own flush policy, acks=all for the confirm position; a sync-state set that
shrinks below the topic's minimum meanwhile turns success into NOT_ENOUGH_REPLICAS_AFTER_APPEND.
Versions 0 to 2 are advertised and refused: librdkafka derives features from the lowest version.

Source: Kafka `KafkaApis.handleProduceRequest`, KIP-98, KIP-467 (record errors), KIP-896, KIP-951.
"""

from collections.abc import Callable

from penstock.base.errors import PlatformError
from penstock.broker.append.append import append_batch, partition_of
from penstock.broker.partitions import HostedPartition
from penstock.kafka.audited import note_produced
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import topic_to_write
from penstock.kafka.produce.pending import TOPIC_ID_VERSION, PendingProduce, PendingRun
from penstock.kafka.produce.refusals import finish_without_answer, refused
from penstock.kafka.produce.refused_batches import Refusal
from penstock.kafka.produce.transactional import (
    TransactionalProduce,
    before_transactional,
    refusal_of_all,
    told_again,
)
from penstock.kafka.produce.unprepared import (
    BATCHES_HERE,
    Appended,
    PreparedOrError,
    UnpreparedProduce,
)
from penstock.kafka.request import Reply
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.compiled import appended, parse_produce_request
from penstock.protocol.header import RequestHeader
from penstock.protocol.produce import PartitionAnswer, PartitionData, ProduceRequest
from penstock.protocol.produce_run import ProduceRun
from penstock.replica.replica_set import ReplicaSetMember

KEY = ApiKey.PRODUCE
VERSIONS = range(3, 14)
ADVERTISED_MIN_VERSION = 0
WAIT_MS_MAX = 300_000
"""Upper bound for the client's time-out."""


def handle_frame(
    context: RequestContext, header: RequestHeader, frame: memoryview, reply: Reply
) -> None:
    """Append and park. Raises WireError for a request that cannot be parsed."""
    request = parse_produce_request(frame, header.body_at, header.api_version)
    error = refusal_of_all(context, request, frame)
    if error is not None:
        _refuse_all(context, header, request, reply, error)
    elif request.transactional_id is None:
        _append_all(context, header, request, frame, reply)
    else:
        _append_verified(context, header, request, frame, reply)


def _append_verified(
    context: RequestContext,
    header: RequestHeader,
    request: ProduceRequest,
    frame: memoryview,
    reply: Reply,
) -> None:
    """Append the batches of a transaction, after its coordinator was asked if that is needed."""

    def append(memory: memoryview, ended: Callable[[], None], is_held: bool) -> None:
        _append_all(context, header, request, memory, reply, ended, is_held=is_held)

    produce = TransactionalProduce(context, header, request, append)
    if len(request.partitions) > BATCHES_HERE or not produce.begin(frame):
        memory = memoryview(bytearray(frame))
        context.front.run_long(reply, header, len(memory), produce.run(memory))


def _append_all(  # noqa: PLR0913, PLR0917  called for every request
    context: RequestContext,
    header: RequestHeader,
    request: ProduceRequest,
    frame: memoryview,
    reply: Reply,
    ended: Callable[[], None] | None = None,
    *,
    is_held: bool = False,
) -> None:
    """Append the batches; `ended` is called once no more are.

    `is_held`: the connection is, and the frame is the request's own.
    """
    _, acks, timeout_ms, parts = request
    here = parts[:BATCHES_HERE]
    answers, members, has_errors = _append(context, header.api_version, frame, here, acks)
    if len(answers) < len(parts):
        begun = Appended(answers, members, has_errors)
        rest = _prepare_rest(context, header, request, reply, ended)
        rest.start(frame, begun, is_held=is_held)
        return
    if ended is not None:
        ended()
    if acks == 0:
        finish_without_answer(answers, reply)
        return
    deadline_ms = reply.started_us // 1000 + _wait_ms(timeout_ms)
    pending = PendingProduce(context.broker, reply, header, answers, deadline_ms, has_errors)
    pending.park(members, acks)


def _prepare_rest(
    context: RequestContext,
    header: RequestHeader,
    request: ProduceRequest,
    reply: Reply,
    ended: Callable[[], None] | None,
) -> UnpreparedProduce:
    """Return what continues a request with a batch that a worker has to prepare."""
    broker, version, acks = context.broker, header.api_version, request.acks

    def find(topic: bytes, partition: int) -> HostedPartition:
        by_id = version >= TOPIC_ID_VERSION
        return partition_of(topic_to_write(context, topic, by_id=by_id), partition)

    def append(
        memory: memoryview, parts: list[PartitionData], prepared: PreparedOrError | None
    ) -> Appended:
        return Appended(*_append(context, version, memory, parts, acks, prepared=prepared))

    def finish(appended: Appended) -> None:
        answers = appended.answers
        if acks == 0:
            finish_without_answer(answers, reply)
            return
        deadline_ms = broker.clock.monotonic_ms() + _wait_ms(request.timeout_ms)
        pending = PendingProduce(broker, reply, header, answers, deadline_ms, appended.has_errors)
        pending.park(appended.members, acks)

    return UnpreparedProduce(
        context, reply, request, find=find, append=append, finish=finish, ended=ended
    )


def handle_run(
    context: RequestContext, memory: memoryview, run: ProduceRun, owe: Callable[[int], Reply]
) -> Reply | None:
    """Append and park requests that came together; they are then answered together.

    Processes the first of them, as many as go to one replica set: a failure of another set must not
    affect these. `owe(count)` returns the reply for those that were processed. None is processed if
    a worker has to prepare the first, or it is of a transaction: it is handled again alone.
    """
    header, acks, timeout_ms, requests = run
    parts = before_transactional(memory, [request.part for request in requests])
    version = header.api_version
    answers, members, has_errors = _append(context, version, memory, parts, acks, is_one_set=True)
    if not answers:
        return None
    reply = owe(len(answers))
    deadline_ms = reply.started_us // 1000 + _wait_ms(timeout_ms)
    PendingRun(context.broker, reply, run, answers, deadline_ms, has_errors).park(members, acks)
    return reply


def _append(  # noqa: PLR0913, PLR0917  called for every request
    context: RequestContext,
    version: int,
    memory: memoryview,
    parts: list[PartitionData],
    acks: int,
    is_one_set: bool = False,
    prepared: PreparedOrError | None = None,
) -> tuple[list[PartitionAnswer], list[ReplicaSetMember], bool]:
    """Append the batch of each part; with `is_one_set` up to the first of a second replica set.

    Stops before a batch that a worker has to prepare; `prepared` is the first batch, or its error.
    Returns the answers, the sets that got batches, and whether any was refused.
    """
    broker, refusals = context.broker, context.front.refused_batches
    by_id = version >= TOPIC_ID_VERSION
    answers: list[PartitionAnswer] = []
    members: list[ReplicaSetMember] = []
    has_errors = False
    now_ms = broker.clock.wall_ms()
    found, found_key = None, None
    for part in parts:
        topic, partition, records_at, records_end = part
        try:
            if topic != found_key:  # those that come together are mostly of one
                found, found_key = topic_to_write(context, topic, by_id=by_id), topic
            hosted = partition_of(found, partition)
            if is_one_set and members and hosted.member is not members[0]:
                break
            records = memory[records_at:records_end]
            if isinstance(prepared, PlatformError):
                raise prepared
            if refusals.kept:
                refusals.check_first(topic, partition, records, hosted.log.producers)
            appended_at = append_batch(hosted, records, acks, now_ms, broker.stats, prepared)
        except PlatformError as error:
            has_errors = True
            batch = memory[records_at:records_end]
            told = refusals.refuse(topic, partition, batch, told_again(error, version))
            answers.append(refused(broker, part, told, version, error))
            prepared = None
            continue
        if appended_at is None:
            break
        prepared = None
        offset, time_ms = appended_at
        if hosted.member not in members:
            members.append(hosted.member)
        answers.append(appended(part, offset, time_ms, hosted.log.log_start_offset))
    if broker.audit is not None:
        note_produced(context, memory, parts, answers, by_id=by_id)
    return answers, members, has_errors


def _wait_ms(timeout_ms: int) -> int:
    return timeout_ms if 0 <= timeout_ms <= WAIT_MS_MAX else min(max(timeout_ms, 0), WAIT_MS_MAX)


def _refuse_all(
    context: RequestContext,
    header: RequestHeader,
    request: ProduceRequest,
    reply: Reply,
    error: PlatformError,
) -> None:
    """Refuse a request for a reason that applies to all its partitions."""
    told = Refusal(error_code_of(error), str(error))
    parts, version = request.partitions, header.api_version
    answers = [refused(context.broker, part, told, version) for part in parts]
    if context.broker.audit is not None:
        note_produced(context, memoryview(b""), parts, answers, by_id=version >= TOPIC_ID_VERSION)
    if request.acks == 0:
        finish_without_answer(answers, reply)
        return
    PendingProduce(context.broker, reply, header, answers, 0, True).park([], request.acks)
