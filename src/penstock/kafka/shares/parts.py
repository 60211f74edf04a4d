"""What share requests have in common: the group, the session, the partitions, and the answer.

Source: KIP-932; Kafka `KafkaApis.handleShareFetchRequest`, `handleShareAcknowledgeRequest`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation
from penstock.broker.partitions import HostedPartition
from penstock.broker.turns import Pace
from penstock.kafka.answers.leader_hints import HINTED, LeaderHints
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import group_error, hosted_topics, topics_by_key
from penstock.kafka.shares.sessions import TopicIdPartition
from penstock.protocol.error_codes import ErrorCode
from penstock.replica.replica_set import Role
from penstock.shares.hand_out import is_name

NO_LEADER = {"leader_id": -1, "leader_epoch": -1}
_ZERO_ID = bytes(16)


def refusal_of(context: RequestContext, body: Any) -> ErrorCode:
    """Return why a request is refused before its session is looked at; NONE if it is not."""
    group, member = body.group_id, body.member_id
    if not group or len(group.encode()) > context.broker.groups.config.group_id_bytes_max:
        return ErrorCode.INVALID_GROUP_ID
    if not member or not is_name(member):
        return ErrorCode.INVALID_REQUEST
    return group_error(context, group, Operation.READ)


def named(topics: Iterable[Any]) -> Iterator[tuple[TopicIdPartition, Any]]:
    """Yield the partitions that a request names, with what it says of them."""
    for topic in topics:
        topic_id = id_bytes(topic.topic_id)
        for part in topic.partitions:
            yield (topic_id, part.partition_index), part


async def all_named(pace: Pace, topics: Iterable[Any]) -> list[tuple[TopicIdPartition, Any]]:
    """Return what `named` yields, in portions of a turn."""
    found: list[tuple[TopicIdPartition, Any]] = []
    for topic in topics:
        await pace.step()
        topic_id = id_bytes(topic.topic_id)
        for part in topic.partitions:
            await pace.step()
            found.append(((topic_id, part.partition_index), part))
    return found


async def all_forgotten(pace: Pace, topics: Iterable[Any]) -> list[TopicIdPartition]:
    """Return the partitions that a request forgets."""
    found: list[TopicIdPartition] = []
    for topic in topics:
        await pace.step(1 + len(topic.partitions) // 10)
        topic_id = id_bytes(topic.topic_id)
        found += [(topic_id, partition) for partition in topic.partitions]
    return found


def id_bytes(topic_id: UUID | None) -> bytes:
    """Return the 16 bytes of a topic's id; kio has None for zeros."""
    return _ZERO_ID if topic_id is None else topic_id.bytes


class Finder:
    """Finds the partitions of one request that are led here, and that its client may read."""

    __slots__ = ("_topics",)

    def __init__(self, context: RequestContext) -> None:
        self._topics = hosted_topics(context, Operation.READ, by_id=True, is_noted=True)

    def find(self, place: TopicIdPartition) -> HostedPartition | ErrorCode:
        """Return the partition, or the error for the client."""
        topic_id, partition = place
        try:
            topic = self._topics.get(topic_id)
        except PlatformError as error:
            return error_code_of(error)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not 0 <= partition < len(topic.placed):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        hosted = topic.find(partition)
        if hosted is None or hosted.member.role is not Role.MASTER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return hosted


class AnswerParts:
    """The partitions of an answer by topic, with the leaders of those that are led elsewhere."""

    __slots__ = ("_by_topic", "_hints")

    def __init__(self, context: RequestContext) -> None:
        topics = topics_by_key(context.broker, by_id=True)
        self._hints = LeaderHints(context.broker.metadata, topics, context.listener)
        self._by_topic: dict[bytes, list[Mapping[str, Any]]] = {}

    def add(self, place: TopicIdPartition, error: ErrorCode, fields: Mapping[str, Any]) -> None:
        """Add a partition; `error` is the one that a leader is told for."""
        leader: Mapping[str, Any] = NO_LEADER
        hint = self._hints.of(*place) if error in HINTED else None
        if hint is not None:
            leader = dict(zip(NO_LEADER, hint, strict=True))
        part = {"partition_index": place[1], "current_leader": leader, **fields}
        self._by_topic.setdefault(place[0], []).append(part)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the answer."""
        return {
            "responses": [
                {"topic_id": topic_id, "partitions": parts}
                for topic_id, parts in self._by_topic.items()
            ],
            "node_endpoints": [
                {"node_id": one.broker_id, "host": one.host, "port": one.port, "rack": one.rack}
                for one in self._hints.endpoints
            ],
        }


def failed(error: ErrorCode, message: str | None = None) -> dict[str, Any]:
    """Return the answer to a request that is refused as a whole."""
    return {"error_code": error, "error_message": message, "responses": (), "node_endpoints": ()}
