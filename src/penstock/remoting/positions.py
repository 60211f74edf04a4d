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
from penstock.broker.broker import Broker
from penstock.broker.coordinators.positions import GroupPositions, coordinator_of
from penstock.broker.partitions import HostedPartition
from penstock.coordinator.calls.asking import CallError
from penstock.coordinator.calls.positions import (
    NO_POSITION,
    CommitPositionRequest,
    FetchPositionRequest,
    PositionResponse,
)
from penstock.protocol.error_codes import ErrorCode, known_code
from penstock.remoting.errors import PositionRefused
from penstock.remoting.pop.desk import PopDesk

Done = Callable[[PlatformError | None], None]
Told = Callable[[int | None, PlatformError | None], None]
"""Called with the position, None if there is none, or with why it is not known."""
ANSWER_MS: Final = 5_000
"""A client waits as long for its answer, and commits again every 5 s."""
_Asked = CommitPositionRequest | FetchPositionRequest
_NOBODY: Final = "no broker coordinates this group yet"


def commit(desk: PopDesk, group: str, hosted: HostedPartition, offset: int, done: Done) -> None:
    """Keep a position; `done(error)` is called once, when it is durable or refused."""
    topic, partition = hosted.topic, hosted.partition
    asked = CommitPositionRequest(
        group=group,
        topic=topic.name,
        topic_id=topic.topic_id,
        partition=partition,
        offset=offset,
    )

    def answered(answer: PositionResponse) -> None:
        done(_refusal(answer))

    if is_here(desk.broker, group):
        GroupPositions(desk.broker).commit(asked, answered)
    else:
        _ask_later(desk, asked, answered, done)


def find(desk: PopDesk, group: str, hosted: HostedPartition, told: Told) -> None:
    """Find a group's position; `told` is called once, now or later."""
    topic, partition = hosted.topic, hosted.partition
    asked = FetchPositionRequest(
        group=group, topic=topic.name, topic_id=topic.topic_id, partition=partition
    )

    def answered(answer: PositionResponse) -> None:
        position = None if answer.offset == NO_POSITION else answer.offset
        told(position, _refusal(answer))

    if is_here(desk.broker, group):
        answered(GroupPositions(desk.broker).find(asked))
    else:
        _ask_later(desk, asked, answered, partial(told, None))


def is_here(broker: Broker, group: str) -> bool:
    """Whether this broker coordinates a group, as far as its metadata tells."""
    return coordinator_of(broker, group) == broker.broker_id


def _ask_later(
    desk: PopDesk,
    asked: _Asked,
    answered: Callable[[PositionResponse], None],
    failed: Callable[[PlatformError], None],
) -> None:
    desk.spawn("position of a group", _ask(desk, asked, answered, failed))


async def _ask(
    desk: PopDesk,
    asked: _Asked,
    answered: Callable[[PositionResponse], None],
    failed: Callable[[PlatformError], None],
) -> None:
    coordinator = coordinator_of(desk.broker, asked.group)
    if coordinator is None:
        await desk.ensure_groups()
        coordinator = coordinator_of(desk.broker, asked.group)
    if coordinator is None:
        failed(PositionRefused(_NOBODY))
        return
    try:
        answer = await _answer(desk, coordinator, asked)
    except CallError as error:
        failed(PositionRefused(str(error) or type(error).__name__))
        return
    answered(answer)


async def _answer(desk: PopDesk, coordinator: BrokerId, asked: _Asked) -> PositionResponse:
    return await desk.calls.ask(coordinator, asked, timeout_ms=ANSWER_MS)


def _refusal(answer: PositionResponse) -> PlatformError | None:
    code = known_code(answer.code)
    return None if code is ErrorCode.NONE else PositionRefused(code.name)
