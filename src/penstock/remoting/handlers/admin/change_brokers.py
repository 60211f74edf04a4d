"""UPDATE_BROKER_CONFIG: settings of this node, changed by those who operate a cluster.

    body      a line `name=value` for each; blank lines and those with a `#` first are left out

Names are those that GET_BROKER_CONFIG tells. A change goes to the metadata log, as that of a Kafka
client for this broker does: it outlives a restart. All are set, or none. What does not change while
a node runs, and what is no setting, is refused and named.

Source: RocketMQ 5.3.3 `AdminBrokerProcessor.updateBrokerConfig`, `MixAll.properties2String`.
Departures: RocketMQ takes names that it does not know; values are taken as they stand, without
Java's escapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.access import Operation, Resource
from penstock.broker.submitting import submit
from penstock.configs.read_only import why_read_only
from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ConfigOperation,
    ResourceEdits,
)
from penstock.controller.errors import MetadataError
from penstock.controller.metadata.kinds import ResourceType
from penstock.remoting.errors import InvalidParameter, MalformedBody
from penstock.remoting.gate import check
from penstock.remoting.handlers.admin.change_topics import refused
from penstock.remoting.pop.serving import serve
from penstock.remoting.wire.codes import RequestCode

if TYPE_CHECKING:
    from penstock.base.ports import Buffer
    from penstock.remoting.request import RemotingContext, Reply
    from penstock.remoting.wire.command import Command

CODES: Final = (RequestCode.UPDATE_BROKER_CONFIG,)
EDITS_MAX: Final = 200
"""Of one request; a node has fewer settings that change while it runs."""


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer once the change is in the metadata log. Raises what is told to the client."""
    check(context, Operation.ALTER_CONFIGS, Resource.CLUSTER)
    edits = _read(command.body)
    read_only = context.front.configs.read_only()
    for edit in edits:
        if edit.key in read_only:
            raise InvalidParameter(why_read_only(edit.key, read_only[edit.key]))
    if not edits:
        reply()
        return
    serve(context, "settings of a broker", reply, _set(context, edits, reply))


def _read(body: Buffer) -> tuple[ConfigEdit, ...]:
    """Return the changes that are asked for. Raises MalformedBody, InvalidParameter."""
    try:
        lines = bytes(body).decode().splitlines()
    except UnicodeError as error:
        raise MalformedBody("a body that is no text") from error
    edits: list[ConfigEdit] = []
    for line in lines:
        name, sign, value = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not sign:
            raise InvalidParameter(f"{name[:100]}: a line has to be name=value")
        if len(edits) >= EDITS_MAX:
            raise InvalidParameter(f"more than {EDITS_MAX} settings at once")
        set_to = ConfigOperation.SET
        edits.append(ConfigEdit(key=name.strip(), operation=set_to, value=value.strip()))
    return tuple(edits)


async def _set(context: RemotingContext, edits: tuple[ConfigEdit, ...], reply: Reply) -> None:
    of_broker = ResourceEdits(
        resource_type=ResourceType.BROKER,
        resource_name=str(context.broker.broker_id),
        edits=edits,
    )
    answer = await submit(context.broker, AlterConfigs(resources=(of_broker,)))
    error = answer if isinstance(answer, MetadataError) else answer[0].error
    if error is not None:
        raise refused(error)
    reply()
