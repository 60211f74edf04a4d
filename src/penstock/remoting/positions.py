"""Positions of groups: those that Kafka's clients of the same group have.

    coordinated here     answered from memory, or once the log has it
    by another broker    asked of that one; refused if it does not answer, and the client asks again
    by nobody yet        the topic that keeps them is created first

Source: ours, docs/adr/0122; RocketMQ `ConsumerManageProcessor`.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId
from penstock.broker.coordinators.positions import GroupPositions, coordinator_of
from penstock.coordinator.calls import CallError
from penstock.coordinator.position_calls import (
    NO_POSITION,
    CommitPositionRequest,
    FetchPositionRequest,
    PositionResponse,
)
from penstock.protocol.error_codes import ErrorCode, known_code
from penstock.remoting.errors import PositionRefused
from penstock.remoting.gate import Found
from penstock.remoting.request import RemotingContext

Done = Callable[[PlatformError | None], None]
Told = Callable[[int | None, PlatformError | None], None]
"""Called with the position, None if there is none, or with why it is not known."""
ANSWER_MS: Final = 5_000
"""A client waits as long for its answer, and commits again every 5 s."""
_Asked = CommitPositionRequest | FetchPositionRequest
_NOBODY: Final = "no broker coordinates this group yet"


def commit(context: RemotingContext, group: str, found: Found, offset: int, done: Done) -> None:
    """Keep a position; `done(error)` is called once, when it is durable or refused."""
    topic, partition = found.hosted.topic, found.hosted.partition
    asked = CommitPositionRequest(
        group=group,
        topic=topic.name,
        topic_id=topic.topic_id,
        partition=partition,
        offset=offset,
    )

    def answered(answer: PositionResponse) -> None:
        done(_refusal(answer))

    if is_here(context, group):
        GroupPositions(context.broker).commit(asked, answered)
    else:
        _ask_later(context, asked, answered, done)


def find(context: RemotingContext, group: str, found: Found, told: Told) -> None:
    """Find a group's position; `told` is called once, now or later."""
    topic, partition = found.hosted.topic, found.hosted.partition
    asked = FetchPositionRequest(
        group=group, topic=topic.name, topic_id=topic.topic_id, partition=partition
    )

    def answered(answer: PositionResponse) -> None:
        position = None if answer.offset == NO_POSITION else answer.offset
        told(position, _refusal(answer))

    if is_here(context, group):
        answered(GroupPositions(context.broker).find(asked))
    else:
        _ask_later(context, asked, answered, partial(told, None))


def is_here(context: RemotingContext, group: str) -> bool:
    """Whether this broker coordinates a group, as far as its metadata tells."""
    return coordinator_of(context.broker, group) == context.broker.broker_id


def _ask_later(
    context: RemotingContext,
    asked: _Asked,
    answered: Callable[[PositionResponse], None],
    failed: Callable[[PlatformError], None],
) -> None:
    context.front.spawn("position of a group", _ask(context, asked, answered, failed))


async def _ask(
    context: RemotingContext,
    asked: _Asked,
    answered: Callable[[PositionResponse], None],
    failed: Callable[[PlatformError], None],
) -> None:
    coordinator = coordinator_of(context.broker, asked.group)
    if coordinator is None:
        await context.front.ensure_groups()
        coordinator = coordinator_of(context.broker, asked.group)
    if coordinator is None:
        failed(PositionRefused(_NOBODY))
        return
    try:
        answer = await _answer(context, coordinator, asked)
    except CallError as error:
        failed(PositionRefused(str(error) or type(error).__name__))
        return
    answered(answer)


async def _answer(
    context: RemotingContext, coordinator: BrokerId, asked: _Asked
) -> PositionResponse:
    return await context.front.calls.ask(coordinator, asked, timeout_ms=ANSWER_MS)


def _refusal(answer: PositionResponse) -> PlatformError | None:
    code = known_code(answer.code)
    return None if code is ErrorCode.NONE else PositionRefused(code.name)
