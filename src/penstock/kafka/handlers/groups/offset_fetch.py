"""OffsetFetch 1-10: a group's positions.

Version 2 can ask for all of them, 7 for stable ones only, 8 asks for many groups, 10 names topics
by id. Nothing committed is offset -1 and no error. A position whose topic was deleted, or made anew
under the same name, is not shown.

A coordinator that was cut off tells nothing: another may have taken commits.

Source: Kafka, KafkaApis.handleOffsetFetchRequest; KIP-447, KIP-709, KIP-848.
"""

from collections.abc import Iterable
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.groups.lease import knows_group
from penstock.broker.turns import SLICE, Pace
from penstock.controller.metadata.image import ClusterImage, TopicImage
from penstock.groups.messages import FetchedOffset, FetchReply
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.kafka.context import RequestContext
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.OFFSET_FETCH
VERSIONS = range(1, 11)
SLICED_BY = (("groups", "topics", "partition_indexes"), ("topics", "partition_indexes"))

MANY_VERSION, BY_ID_VERSION = 8, 10
TOLD_HERE = 1_000
"""Positions that are told at once: some 2 ms."""

_NOTHING = CommittedOffset(-1)
Fields = dict[str, object]


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Answer at once, each group once: an answer is much longer than its request."""
    body, version = request.body, request.api_version
    is_stable = getattr(body, "require_stable", False)
    told = [_fetch(context.broker, one, version, is_stable) for one in _once(body)]
    reply({"groups": told} if version >= MANY_VERSION else told[0])


def is_much(context: RequestContext, body: Any) -> bool:
    """Whether groups whose positions are all asked for have more of them than a turn may tell."""
    count = context.broker.groups.committed_count
    return sum(count(one.group_id) for one in _once(body) if one.topics is None) > TOLD_HERE


async def handle_much(context: RequestContext, request: Request) -> Fields:
    """Answer with what is committed when it is come to, `SLICE` positions at a time."""
    body, version, pace = request.body, request.api_version, Pace(request.turns)
    is_stable = getattr(body, "require_stable", False)
    told: list[Fields] = []
    for one in _once(body):
        if one.topics is not None:
            await pace.step(SLICE)
            told.append(_fetch(context.broker, one, version, is_stable))
        else:
            told.append(await _fetch_all(context.broker, one.group_id, version, is_stable, pace))
    return {"groups": told} if version >= MANY_VERSION else told[0]


def _once(body: Any) -> list[Any]:
    """Return what is asked of each group; before version 8 that is the request itself."""
    if not hasattr(body, "groups"):
        return [body]
    once: dict[str, Any] = {}
    for group in body.groups:
        once.setdefault(group.group_id, group)
    return list(once.values())


async def _fetch_all(
    broker: Broker, group_id: str, version: int, is_stable: bool, pace: Pace
) -> Fields:
    keys = broker.groups.committed_keys(group_id)
    by_topic: dict[str, list[Fields]] = {}
    for at in range(0, max(1, len(keys)), SLICE):
        await pace.step(SLICE)
        found = _found(broker, group_id, keys[at : at + SLICE], is_stable=is_stable)
        if found.error is not ErrorCode.NONE:
            return {"group_id": group_id, "error_code": found.error, "topics": []}
        _add(by_topic, broker.metadata, found)
    topics = _topics(by_topic, broker.metadata, is_by_id=version >= BY_ID_VERSION)
    return {"group_id": group_id, "error_code": ErrorCode.NONE, "topics": topics}


def _found(
    broker: Broker, group_id: str, keys: list[TopicKey] | None, *, is_stable: bool
) -> FetchReply:
    if not knows_group(broker, group_id):
        return FetchReply(error=ErrorCode.NOT_COORDINATOR, offsets={})
    return broker.groups.fetch_offsets(group_id, keys, require_stable=is_stable)


def _fetch(broker: Broker, asked: Any, version: int, is_stable: bool) -> Fields:
    """Return the fields for one group."""
    image = broker.metadata
    topics = asked.topics
    keys = None if topics is None else _keys(image, topics)
    found = _found(broker, asked.group_id, keys, is_stable=is_stable)
    fields: Fields = {"group_id": asked.group_id, "error_code": found.error, "topics": []}
    if topics is None:
        by_topic: dict[str, list[Fields]] = {}
        _add(by_topic, image, found)
        fields["topics"] = _topics(by_topic, image, is_by_id=version >= BY_ID_VERSION)
    elif found.error is ErrorCode.NONE or version < 2:
        # Version 1 has no error of its own: each partition carries it.
        fields["topics"] = [_answer_topic(image, topic, found) for topic in topics]
    return fields


def _name_of(image: ClusterImage, topic: Any) -> str | None:
    if not hasattr(topic, "topic_id"):
        return str(topic.name)
    known = None if topic.topic_id is None else image.topics_by_id.get(topic.topic_id.bytes)
    return None if known is None else known.name


def _keys(image: ClusterImage, topics: Iterable[Any]) -> list[TopicKey]:
    named = ((_name_of(image, topic), topic.partition_indexes) for topic in topics)
    return [
        TopicKey(name, partition)
        for name, partitions in named
        if name is not None
        for partition in partitions
    ]


def _answer_topic(image: ClusterImage, topic: Any, found: FetchReply) -> Fields:
    name = _name_of(image, topic)
    known = image.topics_by_name.get(name or "")
    error = found.error if name is not None else ErrorCode.UNKNOWN_TOPIC_ID
    otherwise = FetchedOffset(None, error)
    named = {"topic_id": topic.topic_id} if hasattr(topic, "topic_id") else {"name": topic.name}
    return {
        **named,
        "partitions": [
            _answer_partition(
                partition, found.offsets.get(TopicKey(name or "", partition), otherwise), known
            )
            for partition in topic.partition_indexes
        ],
    }


def _add(by_topic: dict[str, list[Fields]], image: ClusterImage, found: FetchReply) -> None:
    """Note the positions found whose topic is there, under its name."""
    for key, fetched in found.offsets.items():
        known = image.topics_by_name.get(key.topic)
        committed = fetched.committed
        if fetched.error is ErrorCode.NONE and not _is_of(committed, known):
            continue
        answer = _answer_partition(key.partition, fetched, known)
        by_topic.setdefault(key.topic, []).append(answer)


def _topics(
    by_topic: dict[str, list[Fields]], image: ClusterImage, *, is_by_id: bool
) -> list[Fields]:
    answers: list[Fields] = []
    for name, partitions in by_topic.items():
        known = image.topics_by_name.get(name)
        if not is_by_id:
            answers.append({"name": name, "partitions": partitions})
        elif known is not None:
            answers.append({"topic_id": known.topic_id, "partitions": partitions})
    return answers


def _answer_partition(partition: int, fetched: FetchedOffset, known: TopicImage | None) -> Fields:
    committed = fetched.committed
    shown = committed if committed is not None and _is_of(committed, known) else _NOTHING
    return {
        "partition_index": partition,
        "committed_offset": shown.offset,
        "committed_leader_epoch": shown.leader_epoch,
        "metadata": shown.metadata,
        "error_code": fetched.error,
    }


def _is_of(committed: CommittedOffset | None, topic: TopicImage | None) -> bool:
    """Tell whether a position belongs to the topic that has the name now."""
    if committed is None or topic is None:
        return False
    return committed.topic_id is None or committed.topic_id == topic.topic_id
