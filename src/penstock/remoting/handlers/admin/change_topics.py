"""Topics made, enlarged and deleted by those who operate a cluster.

    UPDATE_AND_CREATE_TOPIC   each set that this broker leads has so many queues of the topic, which
                              has the message type that is asked for, if any is (attributes.py)
    DELETE_TOPIC_IN_BROKER    the topic is deleted, in the whole cluster; SUCCESS if there is none
    DELETE_TOPIC_IN_NAMESRV   nothing: routes are those of the topics that there are
    DELETE_KV_CONFIG          nothing, of the order of a topic's queues: none is kept

Tools ask all masters of a cluster one after the other: the first makes the topic in its sets, the
others add theirs. A topic may be read and written by all its queues, so perm is 6 and both numbers
are equal; who may do what is said by rules of access. Partitions that are made or deleted count
against the client's quota of mutations.

Source: RocketMQ 5.3.3 `AdminBrokerProcessor.updateAndCreateTopic`, `deleteTopic`,
`CreateTopicRequestHeader`, `TopicValidator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.broker.access import Operation, Resource
from penstock.broker.metering import spend_mutations
from penstock.broker.submitting import submit
from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ConfigOutcome,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    TopicOutcome,
    TopicReference,
)
from penstock.controller.commands.topic_names import (
    DEAD_LETTER_PREFIX,
    DISCARDED_TOPIC,
    INTERNAL_TOPICS,
    PLACED_CONFIGS,
    RETRY_PREFIX,
    check_topic_name,
)
from penstock.controller.errors import (
    InvalidTopicName,
    MetadataError,
    MetadataUnavailable,
    RefusedCommand,
    TopicExists,
    UnknownTopic,
)
from penstock.remoting.errors import InvalidParameter
from penstock.remoting.fields import number, text
from penstock.remoting.gate import check, check_create
from penstock.remoting.handlers.admin.attributes import change_of, read_attributes
from penstock.remoting.handlers.routes import AUTO_CREATE_TOPIC
from penstock.remoting.later.group_topics import stored_name
from penstock.remoting.pop.serving import serve
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.routes import READ_WRITE
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command

if TYPE_CHECKING:
    from penstock.base.errors import PlatformError
    from penstock.base.ids import BrokerId, ReplicaSetId
    from penstock.controller.metadata.image import TopicImage

CODES: Final = (
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.DELETE_TOPIC_IN_NAMESRV,
    RequestCode.DELETE_KV_CONFIG,
)
_ORDERS: Final = "ORDER_TOPIC_CONFIG"
"""The namespace from which tools delete as they delete a topic."""
QUEUES_MAX: Final = 1_000
"""In one set, by one request."""
_OF_GROUPS: Final = (RETRY_PREFIX, DEAD_LETTER_PREFIX, DISCARDED_TOPIC)


class _Asked(NamedTuple):
    """A topic, by the name under which it is stored, and its queues in each set."""

    name: str
    queues: int
    edit: ConfigEdit | None
    """Of its configuration."""


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer once the metadata has changed. Raises what is told to the client."""
    is_order = command.code == RequestCode.DELETE_KV_CONFIG
    if is_order and text(command, "namespace") != _ORDERS:
        raise InvalidParameter("a name server keeps nothing of its own here")
    name = _stored(text(command, "key" if is_order else "topic"))
    if command.code == RequestCode.UPDATE_AND_CREATE_TOPIC:
        edit = read_attributes(command.fields.get("attributes", ""))
        asked = _Asked(name, _count(command), edit)
        if name in context.broker.metadata.topics_by_name:
            check(context, Operation.ALTER, Resource.TOPIC, name)
        else:
            check_create(context, name)
        serve(context, "change of a topic", reply, _update(context, asked, reply))
        return
    check(context, Operation.DELETE, Resource.TOPIC, name)
    if command.code == RequestCode.DELETE_TOPIC_IN_BROKER:
        serve(context, "deletion of a topic", reply, _delete(context, name, reply))
    else:
        reply()


def _stored(name: str) -> str:
    """Return the name under which a topic is stored. Raises InvalidParameter."""
    if not name:
        raise InvalidParameter("The specified topic is blank.")
    stored = stored_name(name)
    if stored in INTERNAL_TOPICS or stored == AUTO_CREATE_TOPIC:
        raise InvalidParameter(f"The topic[{name}] is conflict with system topic.")
    try:
        check_topic_name(stored)
    except InvalidTopicName as error:
        raise InvalidParameter(f"{name[:100]}: {error}") from error
    return stored


def _count(command: Command) -> int:
    """Return how many queues are asked for. Raises InvalidParameter for what can not be."""
    readable, writable = number(command, "readQueueNums"), number(command, "writeQueueNums")
    if readable != writable:
        raise InvalidParameter(
            f"readQueueNums={readable} and writeQueueNums={writable}: each queue is for both"
        )
    if not 0 < readable <= QUEUES_MAX:
        raise InvalidParameter(f"{readable} queues: a set has 1 to {QUEUES_MAX} of a topic")
    perm = number(command, "perm", READ_WRITE)
    if perm != READ_WRITE:
        raise InvalidParameter(
            f"perm={perm}: topics are readable and writable ({READ_WRITE}); rules of access say"
            " who may do what"
        )
    if command.fields.get("order", "false").lower() == "true":
        raise InvalidParameter("order=true: queues keep their order anyway")
    if number(command, "topicSysFlag", 0):
        raise InvalidParameter("topicSysFlag: topics have no flags")
    return readable


async def _update(context: RemotingContext, asked: _Asked, reply: Reply) -> None:
    metadata = context.broker.metadata
    if asked.name not in metadata.topics_by_name:
        error = await _create(context, asked)
        if error is None:
            reply()
            return
        if not isinstance(error, TopicExists):
            raise refused(error)
        if not await context.front.arrivals.wait_for(asked.name):
            raise MetadataUnavailable("the topic was made just now, and is not known here yet")
        check(context, Operation.ALTER, Resource.TOPIC, asked.name)
    await _enlarge(context, asked, metadata.topics_by_name[asked.name])
    if asked.edit is not None:
        error = await _outcome(context, change_of(asked.name, asked.edit))
        if error is not None:
            raise refused(error)
    reply()


async def _create(context: RemotingContext, asked: _Asked) -> MetadataError | None:
    sets = _led(context)
    added = [_members(context, one) for one in sets for _ in range(asked.queues)]
    spend_mutations(context.broker, context, len(added))
    configs = dict(PLACED_CONFIGS if asked.name.startswith(_OF_GROUPS) else {})
    if asked.edit is not None and asked.edit.value is not None:
        configs[asked.edit.key] = asked.edit.value
    new = NewTopic(name=asked.name, assignments=dict(enumerate(added)), configs=configs)
    return await _outcome(context, CreateTopics(topics=(new,)))


async def _enlarge(context: RemotingContext, asked: _Asked, topic: TopicImage) -> None:
    """Add queues to the sets that have too few. Raises InvalidParameter if one has more."""
    placed = tuple(topic.partitions.set_ids)
    added: list[tuple[BrokerId, ...]] = []
    for set_id in _led(context):
        present = placed.count(set_id)
        if present > asked.queues:
            raise InvalidParameter(
                f"{present} queues of the topic are in a set that is led here: there can not be"
                f" fewer, {asked.queues}"
            )
        added += [_members(context, set_id)] * (asked.queues - present)
    if not added:
        return
    spend_mutations(context.broker, context, len(added))
    more = MorePartitions(
        name=asked.name, partition_count=len(placed) + len(added), assignments=tuple(added)
    )
    error = await _outcome(context, CreatePartitions(topics=(more,)))
    if error is not None:
        raise refused(error)


def _led(context: RemotingContext) -> list[ReplicaSetId]:
    """Return the sets that this broker leads. Raises InvalidParameter if there are none."""
    led = sorted(set_id for set_id, one in context.broker.members.items() if one.is_master)
    if not led:
        raise InvalidParameter("this broker leads no replica set: ask a master")
    return led


def _members(context: RemotingContext, set_id: ReplicaSetId) -> tuple[BrokerId, ...]:
    return context.broker.metadata.replica_sets[set_id].replicas


async def _outcome(
    context: RemotingContext, command: CreateTopics | CreatePartitions | AlterConfigs
) -> MetadataError | None:
    outcomes: MetadataError | Sequence[TopicOutcome | ConfigOutcome]
    outcomes = await submit(context.broker, command)
    return outcomes if isinstance(outcomes, MetadataError) else outcomes[0].error


def refused(error: MetadataError) -> PlatformError:
    """Return why a change can not be as clients are told it: with INVALID_PARAMETER."""
    return InvalidParameter(str(error)) if isinstance(error, RefusedCommand) else error


async def _delete(context: RemotingContext, name: str, reply: Reply) -> None:
    known = context.broker.metadata.topics_by_name.get(name)
    spend_mutations(context.broker, context, 0 if known is None else len(known.partitions))
    answer = await submit(context.broker, DeleteTopics(topics=(TopicReference(name=name),)))
    error = answer if isinstance(answer, MetadataError) else answer[0].error
    if error is not None and not isinstance(error, UnknownTopic):
        raise refused(error)
    reply()
