"""StreamsGroupDescribe 0 (key 89): topology, epochs, members and tasks of streams groups.

A group of another kind, or none, is GROUP_ID_NOT_FOUND. A group whose topology has a topic that the
client may not describe is refused as a whole.

Source: Kafka 4.2, KafkaApis.handleStreamsGroupDescribe, StreamsTopology.asStreamsGroupDescribe;
KIP-1071.
"""

from collections.abc import Iterable, Mapping
from functools import partial

from penstock.assignors.partitions import count_of
from penstock.broker.access import Operation, Resource
from penstock.broker.turns import Pace
from penstock.groups.streams.configured import Configured
from penstock.groups.streams.messages import StreamsGroupDescription, StreamsMemberDescription
from penstock.groups.streams.records import Pairs
from penstock.groups.streams.tasks import Tasks
from penstock.groups.streams.topology import InternalTopic, Topology
from penstock.kafka.answers.assigned_groups import Fields, each_group, group_fields
from penstock.kafka.answers.authorized_operations import NOT_ASKED_FOR, operations_for
from penstock.kafka.answers.streams import ROLES, endpoint_told, tasks_told
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import refusal, told_group_error
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.STREAMS_GROUP_DESCRIBE
VERSIONS = range(1)
SLICED_BY = (("group_ids",),)
IS_LONG = True


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Answer with each group once, its members in slices."""
    return await each_group(request, partial(_told, context, request))


async def _told(context: RequestContext, request: Request, group_id: str, pace: Pace) -> Fields:
    if error := told_group_error(context, group_id, Operation.DESCRIBE):
        return _group(StreamsGroupDescription(error=error, group_id=group_id), NOT_ASKED_FOR, [])
    operations = operations_for(context, request.body, Resource.GROUP, group_id)
    found = context.broker.groups.streams.describe(group_id)
    if not await _may_see(context, found.topology, pace):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return _group(StreamsGroupDescription(error=error, group_id=group_id), operations, [])
    members: list[Fields] = []
    for member in found.members:
        members.append(_member(member))
        await pace.step(1 + count_of(member.assigned) + count_of(member.target))
    return _group(found, operations, members)


async def _may_see(context: RequestContext, topology: Topology | None, pace: Pace) -> bool:
    for one in () if topology is None else topology.subtopologies:
        await pace.step(1 + len(one.topics))
        if any(refusal(context, Operation.DESCRIBE, Resource.TOPIC, name) for name in one.topics):
            return False
    return True


def _group(group: StreamsGroupDescription, operations: int, members: list[Fields]) -> Fields:
    topology = None if group.topology is None else _topology(group.topology, group.configured)
    return {**group_fields(group, operations, members), "topology": topology}


def _topology(topology: Topology, configured: Configured | None) -> Fields:
    """Return the topology with its topics; without subtopologies if these are not right."""
    told = None
    if configured is not None:
        told = [
            {
                "subtopology_id": one.subtopology_id,
                "source_topics": one.sources,
                "repartition_sink_topics": one.repartition_sinks,
                "state_changelog_topics": _topics(one.changelogs),
                "repartition_source_topics": _topics(one.repartition_sources),
            }
            for one in configured.subtopologies
        ]
    return {"epoch": topology.epoch, "subtopologies": told}


def _topics(topics: Iterable[InternalTopic]) -> list[Fields]:
    return [
        {
            "name": topic.name,
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "topic_configs": _pairs(topic.configs),
        }
        for topic in topics
    ]


def _pairs(pairs: Pairs) -> list[Fields]:
    return [{"key": key, "value": value} for key, value in pairs]


def _member(member: StreamsMemberDescription) -> Fields:
    return {
        "member_id": member.member_id,
        "member_epoch": member.member_epoch,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "topology_epoch": member.topology_epoch,
        "process_id": member.process_id,
        "user_endpoint": None if member.endpoint is None else endpoint_told(member.endpoint),
        "client_tags": _pairs(member.tags),
        "task_offsets": (),
        "task_end_offsets": (),
        "assignment": _tasks(member.assigned),
        "target_assignment": _tasks(member.target),
        "is_classic": False,
    }


def _tasks(tasks: Tasks) -> Fields:
    return {field: tasks_told(tasks, role) for field, role in ROLES}
