"""Which messages a pull wants: what it says itself, or what its client's last heartbeat has said.

    the pull has a subscription    that one, whatever heartbeats say
    a heartbeat had one            that one, if it is not older than the pull's version
    neither, and it is by tags     everything: clients look at tags again
    neither, and it is SQL-92      refused: a client would take everything for what it has asked for

A member of a group is asked by the connection on which it was last heard, so two members may want
different messages while their application is replaced.

Source: RocketMQ `PullMessageProcessor.processRequest`, which keeps the newest subscription of a
group and refuses without one by tags, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.remoting.errors import MalformedBody
from penstock.remoting.fields import number
from penstock.remoting.filters.errors import FilterMissing, SubscriptionMissing, SubscriptionOlder
from penstock.remoting.subscription import EVERYTHING, is_by_tags, read_filter

if TYPE_CHECKING:
    from penstock.remoting.filters.verdicts import MessageFilter
    from penstock.remoting.request import RemotingContext
    from penstock.remoting.wire.command import Command

HAS_SUBSCRIPTION: Final = 4
"""In the flags of a pull."""


def wanted_by(context: RemotingContext, command: Command, group: str, topic: str) -> MessageFilter:
    """Return the filter of a pull.

    Raises MalformedBody for what the pull says itself, and the errors of this package.
    """
    fields, front = command.fields, context.front
    kind = fields.get("expressionType", "")
    if number(command, "sysFlag", 0) & HAS_SUBSCRIPTION:
        return read_filter(fields.get("subscription", "*"), kind, front.compiled)
    told = front.members.subscription(context.connection, group, topic)
    if told is None:
        if is_by_tags(kind):
            return EVERYTHING
        raise SubscriptionMissing(f"no heartbeat of this client subscribes {group} to {topic} yet")
    if told.sub_version < number(command, "subVersion", 0):
        raise SubscriptionOlder("the last heartbeat has an older subscription")
    try:
        return read_filter(told.sub_string, told.expression_type or "", front.compiled)
    except MalformedBody as error:
        raise FilterMissing(f"the expression of the last heartbeat is none: {error}") from error
