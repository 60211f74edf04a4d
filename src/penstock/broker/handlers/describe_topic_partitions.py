"""DescribeTopicPartitions (key 75), version 0: topics by name, page by page.

    topics sorted by name ─ those before the cursor left out ─ partitions until the limit ─ cursor

Source: Kafka `DescribeTopicPartitionsRequestHandler`, KIP-966. Eligible leader replicas are empty:
there is no such list here. The Java admin client asks this before it falls back to Metadata.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.error_map import error_code_of
from penstock.broker.request import Reply, Request
from penstock.broker.topic_view import partition_states
from penstock.controller.errors import InvalidTopicName, MetadataError, UnknownTopic
from penstock.controller.image import PartitionImage, TopicImage
from penstock.controller.topic_names import check_topic_name
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.metadata import PartitionState

Fields = dict[str, object]

KEY = ApiKey.DESCRIBE_TOPIC_PARTITIONS
VERSIONS = range(1)

PARTITIONS_MAX = 2_000
"""Partitions in one answer, whatever the client asks for (Kafka: 2000)."""


def handle(broker: Broker, request: Request, reply: Reply) -> None:
    """Answer one page."""
    body = request.body
    names = {one.name for one in body.topics} or broker.metadata.topics_by_name.keys()
    first_name, first_partition = _start(body.cursor)
    left = min(max(body.response_partition_limit, 1), PARTITIONS_MAX)
    states = partition_states(broker.metadata, broker.is_suspect)
    topics: list[Fields] = []
    next_cursor: Fields | None = None
    for name in sorted(names):
        if name < first_name:
            continue
        topic = broker.metadata.topics_by_name.get(name)
        if topic is None:
            topics.append(_missing(name))
            continue
        start = first_partition if name == first_name else 0
        if left == 0:
            next_cursor = {"topic_name": name, "partition_index": start}
            break
        page = topic.partitions[start : start + left]
        topics.append(_topic(topic, page, states))
        left -= len(page)
        if start + len(page) < len(topic.partitions):
            next_cursor = {"topic_name": name, "partition_index": start + len(page)}
            break
    reply({"topics": topics, "next_cursor": next_cursor})


def _start(cursor: Any) -> tuple[str, int]:
    return ("", 0) if cursor is None else (cursor.topic_name, max(cursor.partition_index, 0))


def _topic(
    topic: TopicImage, page: Sequence[PartitionImage], states: Mapping[int, PartitionState]
) -> Fields:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.internal,
        "partitions": [_partition(one.partition, states[one.replica_set_id]) for one in page],
    }


def _partition(partition: int, state: PartitionState) -> Fields:
    return {
        "error_code": state.error_code,
        "partition_index": partition,
        "leader_id": state.leader_id,
        "leader_epoch": state.leader_epoch,
        "replica_nodes": state.replicas,
        "isr_nodes": state.in_sync,
        "eligible_leader_replicas": (),
        "last_known_elr": (),
        "offline_replicas": state.offline,
    }


def _missing(name: str) -> Fields:
    error: MetadataError = UnknownTopic(name)
    try:
        check_topic_name(name)
    except InvalidTopicName as refused:
        error = refused
    return {"error_code": error_code_of(error), "name": name, "topic_id": None, "partitions": ()}
