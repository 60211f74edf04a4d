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
from penstock.broker.group_lease import knows_group
from penstock.broker.request import Reply, Request
from penstock.controller.image import ClusterImage, TopicImage
from penstock.groups.messages import FetchedOffset, FetchReply
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.OFFSET_FETCH
VERSIONS = range(1, 11)
SLICED_BY = (("groups", "topics", "partition_indexes"), ("topics", "partition_indexes"))

_NOTHING = CommittedOffset(-1)
Fields = dict[str, object]


def handle(broker: Broker, request: Request, reply: Reply) -> None:
    """Answer at once, each group once: an answer is much longer than its request."""
    body, version = request.body, request.api_version
    is_stable = getattr(body, "require_stable", False)
    if version >= 8:
        once: dict[str, Any] = {}
        for group in body.groups:
            once.setdefault(group.group_id, group)
        reply({"groups": [_fetch(broker, one, version, is_stable) for one in once.values()]})
    else:
        reply(_fetch(broker, body, version, is_stable))


def _fetch(broker: Broker, asked: Any, version: int, is_stable: bool) -> Fields:
    """Return the fields for one group."""
    image = broker.metadata
    topics = asked.topics
    keys = None if topics is None else _keys(image, topics)
    found = FetchReply(error=ErrorCode.NOT_COORDINATOR, offsets={})
    if knows_group(broker, asked.group_id):
        found = broker.groups.fetch_offsets(asked.group_id, keys, require_stable=is_stable)
    fields: Fields = {"group_id": asked.group_id, "error_code": found.error, "topics": []}
    if topics is None:
        fields["topics"] = _all_topics(image, found, is_by_id=version >= 10)
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


def _all_topics(image: ClusterImage, found: FetchReply, *, is_by_id: bool) -> list[Fields]:
    by_topic: dict[str, list[Fields]] = {}
    for key, fetched in found.offsets.items():
        known = image.topics_by_name.get(key.topic)
        committed = fetched.committed
        if fetched.error is ErrorCode.NONE and not _is_of(committed, known):
            continue
        answer = _answer_partition(key.partition, fetched, known)
        by_topic.setdefault(key.topic, []).append(answer)
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
