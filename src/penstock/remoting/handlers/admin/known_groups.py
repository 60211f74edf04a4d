"""GET_ALL_SUBSCRIPTIONGROUP_CONFIG: the groups that are known here, with what is set for each.

    {"subscriptionGroupTable": {group: settings, …}}

Known are groups with members, those that have had one (they have a retry topic), and those that
RocketMQ's tools have set up. Each node knows all of them: by heartbeats and by the metadata. Groups
of Kafka's clients alone are not among them. A client is told of those that it may describe.

Source: RocketMQ 5.3.3 `AdminBrokerProcessor.getAllSubscriptionGroup`, `SubscriptionGroupWrapper`.
Departures: there is no version of the table (`dataVersion`); RocketMQ's own groups are not there.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.broker.access import Operation, Resource
from penstock.broker.turns import Pace
from penstock.configs.group_keys import POP_DELIVERIES, POP_TOPICS
from penstock.controller.commands.topic_names import RETRY_PREFIX
from penstock.controller.metadata.kinds import ResourceType
from penstock.remoting.handlers.admin.group_settings import told_settings
from penstock.remoting.handlers.admin.long_answers import answer_long
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.routes import encode_json
from penstock.remoting.wire.codes import RequestCode

if TYPE_CHECKING:
    from penstock.remoting.wire.command import Command

CODES: Final = (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,)
_OF_TOOLS: Final = frozenset({POP_DELIVERIES, POP_TOPICS})


def handle(context: RemotingContext, _: "Command", reply: Reply) -> None:
    """Answer from memory, in turns."""
    answer_long(context, "all groups", reply, partial(_all, context))


async def _all(context: RemotingContext, pace: Pace) -> bytes:
    told = {}
    for group in await known_groups(context, pace):
        await pace.step()
        told[group] = told_settings(context, group)
    return encode_json({"subscriptionGroupTable": told})


async def known_groups(context: RemotingContext, pace: Pace) -> list[str]:
    """Return the names of the groups that a client is told of, in alphabetical order."""
    authoriser, found = context.broker.authoriser, set[str]()
    for group in _names(context):
        await pace.step()
        if group and (
            authoriser.permits_all
            or authoriser.permits(context, Operation.DESCRIBE, Resource.GROUP, group)
        ):
            found.add(group)
    return sorted(found)


def _names(context: RemotingContext) -> Iterator[str]:
    """Yield the names of all groups, some of them several times, empty ones for what is none."""
    metadata = context.broker.metadata
    yield from context.front.members.group_names()
    for topic in tuple(metadata.topics_by_name):
        yield topic.removeprefix(RETRY_PREFIX) if topic.startswith(RETRY_PREFIX) else ""
    for (kind, name), keys in tuple(metadata.configuration.resources.items()):
        is_of_tools = kind == ResourceType.GROUP and not _OF_TOOLS.isdisjoint(keys)
        yield name if is_of_tools else ""
