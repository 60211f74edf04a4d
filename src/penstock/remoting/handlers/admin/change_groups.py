"""Groups set up and deleted by those who operate a cluster.

    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP   what has a counterpart is set (group_settings.py)
    DELETE_SUBSCRIPTIONGROUP              what is set for the group is forgotten, and with
                                          `cleanOffset` the group with its positions

A group need not be made before it is used. One with members is not deleted.

Source: RocketMQ 5.3.3 `AdminBrokerProcessor.updateAndCreateSubscriptionGroup`,
`deleteSubscriptionGroup`.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from penstock.base.ports import Buffer
from penstock.broker.access import Operation, Resource
from penstock.broker.awaited import awaited
from penstock.broker.coordinators.positions import GroupPositions, coordinator_of
from penstock.broker.submitting import submit
from penstock.configs.group_keys import POP_DELIVERIES, POP_TOPICS
from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ConfigOperation,
    ResourceEdits,
)
from penstock.controller.errors import MetadataError
from penstock.controller.metadata.kinds import ResourceType
from penstock.coordinator.calls.asking import CallError
from penstock.coordinator.calls.positions import DeleteGroupRequest, PositionResponse
from penstock.protocol.error_codes import ErrorCode, known_code
from penstock.remoting.errors import InvalidParameter, MalformedBody, PositionRefused
from penstock.remoting.fields import text
from penstock.remoting.gate import check
from penstock.remoting.handlers.admin.change_topics import refused
from penstock.remoting.handlers.admin.group_settings import USUAL, WITHOUT_EFFECT
from penstock.remoting.heartbeat import NAME_BYTES_MAX
from penstock.remoting.pop.serving import serve
from penstock.remoting.positions import ANSWER_MS
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command

CODES: Final = (
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
)
_USUAL_TIMES: Final = 16
_NAME, _TIMES = "groupName", "retryMaxTimes"
_decode: Final = msgspec.json.Decoder(dict[str, object]).decode


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer once it is kept. Raises what is told to the client."""
    if command.code == RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP:
        check(context, Operation.ALTER_CONFIGS, Resource.CLUSTER)
        group, times = _read(command.body)
        edit = ConfigEdit(key=POP_DELIVERIES, operation=ConfigOperation.SET, value=str(times + 1))
        serve(context, "settings of a group", reply, _set(context, group, (edit,), reply))
        return
    group = _checked(text(command, "groupName"))
    check(context, Operation.DELETE, Resource.GROUP, group)
    if context.front.members.client_ids(group):
        told = f"the group {group} has members"
        reply(code=ResponseCode.SYSTEM_ERROR, remark=told)
        return
    is_whole = command.fields.get("cleanOffset", "false").lower() == "true"
    serve(context, "deletion of a group", reply, _delete(context, group, is_whole, reply))


def _read(body: Buffer) -> tuple[str, int]:
    """Return a group, and how often it wants a message again. Raises InvalidParameter."""
    try:
        told = _decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedBody("a body that is not the JSON of a group's settings") from error
    group, times = told.pop(_NAME, None), told.pop(_TIMES, _USUAL_TIMES)
    if not isinstance(group, str):
        raise InvalidParameter("the group has no name")
    if not isinstance(times, int) or isinstance(times, bool):
        raise InvalidParameter("retryMaxTimes is no number")
    for name, value in told.items():
        if name not in WITHOUT_EFFECT and value is not None and value != USUAL.get(name, value):
            raise InvalidParameter(f"{name}={str(value)[:100]}: it has no counterpart here")
    return _checked(group), times


def _checked(group: str) -> str:
    size = len(group.encode(errors="replace"))
    if not 0 < size <= NAME_BYTES_MAX:
        raise InvalidParameter(f"a group's name of {size} bytes, 1 to {NAME_BYTES_MAX} are allowed")
    return group


async def _set(
    context: RemotingContext, group: str, edits: tuple[ConfigEdit, ...], reply: Reply
) -> None:
    await _alter(context, group, edits)
    reply()


async def _alter(context: RemotingContext, group: str, edits: tuple[ConfigEdit, ...]) -> None:
    of_group = ResourceEdits(resource_type=ResourceType.GROUP, resource_name=group, edits=edits)
    answer = await submit(context.broker, AlterConfigs(resources=(of_group,)))
    error = answer if isinstance(answer, MetadataError) else answer[0].error
    if error is not None:
        raise refused(error)


async def _delete(context: RemotingContext, group: str, is_whole: bool, reply: Reply) -> None:
    kept = context.broker.share_places.group_keys(group)
    edits = tuple(
        ConfigEdit(key=key, operation=ConfigOperation.DELETE, value=None)
        for key in (POP_DELIVERIES, POP_TOPICS)
        if key in kept
    )
    if is_whole:
        await _forget(context, group)
    if edits:
        await _alter(context, group, edits)
    reply()


async def _forget(context: RemotingContext, group: str) -> None:
    """Delete a group with its positions, where it is coordinated. Raises PositionRefused."""
    coordinator = coordinator_of(context.broker, group)
    if coordinator is None:
        return
    if coordinator == context.broker.broker_id:
        told: asyncio.Future[PositionResponse]
        told, tell = awaited()
        GroupPositions(context.broker).delete(group, tell)
        answer = await told
    else:
        try:
            answer = await context.front.calls.ask(
                coordinator, DeleteGroupRequest(group=group), timeout_ms=ANSWER_MS
            )
        except CallError as error:
            raise PositionRefused(str(error) or type(error).__name__) from error
    code = known_code(answer.code)
    if code not in {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}:
        raise PositionRefused(code.name)
