"""Positions of groups: those that Kafka's clients of the same group have.

A position is committed from outside of the group, as by a Kafka consumer without membership, so it
is refused while the group has members of Kafka.

Source: ours, docs/adr/0122; RocketMQ `ConsumerManageProcessor`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from penstock.base.errors import PlatformError
from penstock.groups.messages import CommitOffsets
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.protocol.error_codes import ErrorCode
from penstock.remoting.errors import PositionRefused
from penstock.remoting.gate import Found, coordinates
from penstock.remoting.request import RemotingContext

Done = Callable[[PlatformError | None], None]
_NOT_HERE: Final = "another broker coordinates this group"


def commit(
    context: RemotingContext,
    group: str,
    found: Found,
    offset: int,
    done: Done,
) -> None:
    """Keep a position; `done(error)` is called once, when it is durable or refused."""
    if not coordinates(context, group):
        done(PositionRefused(_NOT_HERE))
        return
    topic, key = found.hosted.topic, TopicKey(found.hosted.topic.name, found.hosted.partition)
    position = CommittedOffset(
        offset=offset,
        commit_timestamp_ms=context.broker.clock.wall_ms(),
        topic_id=topic.topic_id,
    )

    def answered(errors: Mapping[TopicKey, ErrorCode]) -> None:
        code = errors.get(key, ErrorCode.UNKNOWN_SERVER_ERROR)
        done(None if code is ErrorCode.NONE else PositionRefused(code.name))

    context.broker.groups.commit(CommitOffsets(group_id=group, offsets={key: position}), answered)


def committed(context: RemotingContext, group: str, found: Found) -> int | None:
    """Return a group's position; None if it has none. Raises PositionRefused."""
    if not coordinates(context, group):
        raise PositionRefused(_NOT_HERE)
    topic, key = found.hosted.topic, TopicKey(found.hosted.topic.name, found.hosted.partition)
    reply = context.broker.groups.reading.fetch_offsets(group, [key])
    if reply.error is not ErrorCode.NONE:
        raise PositionRefused(reply.error.name)
    fetched = reply.offsets[key]
    if fetched.error is not ErrorCode.NONE:
        raise PositionRefused(fetched.error.name)
    position = fetched.committed
    if position is None or position.topic_id not in {None, topic.topic_id}:
        return None
    return position.offset
