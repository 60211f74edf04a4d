"""StreamsGroupHeartbeat 0 (key 88): a member of a streams group joins, stays or leaves.

Answered at once if nothing changes, else when the change is durable. Internal topics that the
application misses are created behind the answer, if the client may create them.

Source: Kafka 4.2, KafkaApis.handleStreamsGroupHeartbeat; KIP-1071.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from penstock.broker.access import Operation, Resource
from penstock.broker.awaited import awaited
from penstock.broker.turns import SLICE, Pace
from penstock.controller.commands.topic_names import INTERNAL_TOPICS
from penstock.groups.assigned.messages import HeartbeatReply, refused
from penstock.groups.streams.checks import SUBTOPOLOGIES_MAX
from penstock.groups.streams.configured import told
from penstock.groups.streams.messages import StreamsHeartbeat, StreamsReply
from penstock.groups.streams.records import Endpoint
from penstock.groups.streams.status import StatusCode
from penstock.groups.streams.tasks import Role, Tasks, key_of
from penstock.groups.streams.topology import (
    InternalTopic,
)
from penstock.kafka.answers.streams import ROLES, tasks_by_endpoint, tasks_told
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import creation_refusal, find_topic, refusal, told_group_error
from penstock.kafka.request import Request
from penstock.kafka.sent_topology import (
    ENTRIES_MAX,
    is_large,
    is_topic_name,
    pairs_of,
    topic_names,
    topology_of,
)
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.STREAMS_GROUP_HEARTBEAT
VERSIONS = range(1)
NAMED_MAX, TASKS_MAX = 1_000, 20_000
"""Most entries of tasks that a member may name, and numbers in them."""
TOPICS_MAX = 2_000
"""Most topics of a topology."""

Fields = dict[str, object]


async def handle(context: RequestContext, request: Request) -> Fields:
    """Pass the heartbeat to the coordinator, and answer what that says."""
    body, pace = request.body, Pace(context.broker.turns)
    refusal = await _refusal(context, body, pace)
    if refusal is not None:
        return _fields(context, refusal)
    await pace.step(SLICE)
    beat = StreamsHeartbeat(
        group_id=body.group_id,
        member_id=body.member_id,
        member_epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        rebalance_timeout_ms=round(body.rebalance_timeout.total_seconds() * 1_000),
        topology=None if body.topology is None else topology_of(body.topology),
        owned=_owned(body),
        process_id=body.process_id,
        endpoint=_endpoint(body.user_endpoint),
        tags=None if body.client_tags is None else pairs_of(body.client_tags),
        is_shutdown=body.shutdown_application,
        endpoint_epoch=body.endpoint_information_epoch,
        client_id=context.client_id or "",
        client_host=context.host,
    )
    answer: asyncio.Future[HeartbeatReply]
    answer, tell = awaited()
    context.broker.groups.streams.heartbeat(beat, tell)
    return _fields(context, await answer)


async def _refusal(context: RequestContext, body: Any, pace: Pace) -> HeartbeatReply | None:
    entries = sum(map(len, _all_tasks(body)))
    if entries > NAMED_MAX or _count_of_tasks(body) > TASKS_MAX:
        return refused(ErrorCode.INVALID_REQUEST, f"At most {TASKS_MAX} tasks may be named")
    sent = (body.active_tasks, body.standby_tasks, body.warmup_tasks)
    if None in sent and any(some is not None for some in sent):
        text = "If one task-type is non-null, all must be non-null."
        return refused(ErrorCode.INVALID_REQUEST, text)
    error = told_group_error(context, body.group_id, Operation.READ)
    if error:
        return HeartbeatReply(error=error)
    if body.topology is None:
        return None
    if is_large(body.topology.subtopologies):
        text = f"At most {SUBTOPOLOGIES_MAX} subtopologies with {ENTRIES_MAX} entries are taken"
        return refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    return await _topics_refusal(context, body.topology, pace)


async def _topics_refusal(
    context: RequestContext, topology: Any, pace: Pace
) -> HeartbeatReply | None:
    names = {name for one in topology.subtopologies for name in topic_names(one)}
    if len(names) > TOPICS_MAX:
        text = f"At most {TOPICS_MAX} topics may be named"
        return refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    prohibited = names & INTERNAL_TOPICS
    if prohibited:
        text = f"Use of Kafka internal topics {told(prohibited)} in a Kafka Streams topology is"
        return refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"{text} prohibited.")
    wrong: list[str] = []
    may_all = True
    for name in sorted(names):
        await pace.step()
        if not is_topic_name(name):
            wrong.append(name[:99])
        may_all = may_all and not refusal(context, Operation.DESCRIBE, Resource.TOPIC, name)
    if wrong:
        text = f"Topic names {told(wrong)} are not valid topic names."
        return refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    return None if may_all else HeartbeatReply(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _all_tasks(body: Any) -> list[Any]:
    return [some or () for some in (body.active_tasks, body.standby_tasks, body.warmup_tasks)]


def _count_of_tasks(body: Any) -> int:
    return sum(map(len, [one.partitions for some in _all_tasks(body) for one in some]))


def _owned(body: Any) -> Tasks | None:
    if body.active_tasks is None:
        return None
    sent = {
        Role.ACTIVE: body.active_tasks,
        Role.STANDBY: body.standby_tasks,
        Role.WARMUP: body.warmup_tasks,
    }
    owned: dict[bytes, frozenset[int]] = {}
    for role, some in sent.items():
        for one in some:
            if one.partitions:
                key = key_of(role, one.subtopology_id)
                owned[key] = owned.get(key, frozenset()) | frozenset(one.partitions)
    return owned


def _endpoint(sent: Any) -> Endpoint | None:
    return None if sent is None else Endpoint(sent.host, sent.port)


def _fields(context: RequestContext, answer: HeartbeatReply) -> Fields:
    said = answer if isinstance(answer, StreamsReply) else StreamsReply(error=answer.error)
    tasks = answer.assignment
    return {
        "error_code": answer.error,
        "error_message": answer.message,
        "member_id": answer.member_id,
        "member_epoch": answer.member_epoch,
        "heartbeat_interval": answer.heartbeat_interval_ms,
        "acceptable_recovery_lag": 0,
        "task_offset_interval": 0,
        "status": _statuses(context, said),
        **{field: None if tasks is None else tasks_told(tasks, role) for field, role in ROLES},
        "endpoint_information_epoch": said.endpoint_epoch,
        "partitions_by_user_endpoint": None
        if said.endpoints is None
        else [*map(tasks_by_endpoint, said.endpoints)],
    }


def _statuses(context: RequestContext, said: StreamsReply) -> list[Fields] | None:
    """Return the statuses; the topics that are missing are being created from now on."""
    more = _created(context, said.missing) if said.missing else ""
    if not said.statuses:
        return None
    return [
        {
            "status_code": one.code,
            "status_detail": one.detail
            + (more if one.code is StatusCode.MISSING_INTERNAL_TOPICS else ""),
        }
        for one in said.statuses
    ]


def _created(context: RequestContext, topics: Iterable[InternalTopic]) -> str:
    """Have missing topics created, if the client may create all of them; return what is wrong."""
    missing = [topic for topic in topics if find_topic(context.broker, topic.name) is None]
    barred = [topic.name for topic in missing if creation_refusal(context, topic.name)]
    if barred:
        return f"; Unauthorized to CREATE on topics {told(barred)}."
    return context.front.streams_topics.ensure(missing)
