"""OffsetCommit 2-10: keep a group's positions. Answered when they are durable.

A position is kept with the id of its topic, so that it is never applied to a topic that was made
anew under the same name. Version 10 names topics by id. The retention time of versions 2 to 4 is
ignored: how long positions are kept is one setting for all.

Source: Kafka, KafkaApis.handleOffsetCommitRequest; KIP-848 (topic ids).
"""

from typing import Any

from penstock.controller.metadata.image import ClusterImage, TopicImage
from penstock.groups.messages import CommitOffsets
from penstock.groups.records import NO_LEADER_EPOCH, CommittedOffset, TopicKey
from penstock.kafka.context import RequestContext
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.OFFSET_COMMIT
VERSIONS = range(2, 11)
SLICED_BY = (("topics", "partitions"),)


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Refuse unknown partitions here, and let the coordinator keep the others."""
    body = request.body
    topics = [(topic, _find_topic(context.broker.metadata, topic)) for topic in body.topics]
    commit = CommitOffsets(
        group_id=body.group_id,
        generation=body.generation_id_or_member_epoch,
        member_id=body.member_id,
        instance_id=getattr(body, "group_instance_id", None),
        offsets=_offsets_to_keep(topics, context.broker.clock.wall_ms()),
    )

    def answer(errors: Any) -> None:
        reply({"topics": [_answer_topic(asked, image, errors) for asked, image in topics]})

    context.broker.groups.commit(commit, answer)


def _find_topic(image: ClusterImage, asked: Any) -> TopicImage | None:
    if hasattr(asked, "topic_id"):
        topic_id = asked.topic_id
        return None if topic_id is None else image.topics_by_id.get(topic_id.bytes)
    return image.topics_by_name.get(asked.name)


def _offsets_to_keep(
    topics: list[tuple[Any, TopicImage | None]], wall_ms: int
) -> dict[TopicKey, CommittedOffset]:
    return {
        TopicKey(image.name, asked.partition_index): CommittedOffset(
            offset=asked.committed_offset,
            leader_epoch=getattr(asked, "committed_leader_epoch", NO_LEADER_EPOCH),
            metadata=asked.committed_metadata or "",
            commit_timestamp_ms=wall_ms,
            topic_id=image.topic_id,
        )
        for topic, image in topics
        if image is not None
        for asked in topic.partitions
        if 0 <= asked.partition_index < len(image.partitions)
    }


def _answer_topic(asked: Any, image: TopicImage | None, errors: Any) -> dict[str, object]:
    is_by_id = hasattr(asked, "topic_id")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if image is None and is_by_id:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    name = "" if image is None else image.name
    return {
        **({"topic_id": asked.topic_id} if is_by_id else {"name": asked.name}),
        "partitions": [
            {
                "partition_index": each.partition_index,
                "error_code": errors.get(TopicKey(name, each.partition_index), unknown),
            }
            for each in asked.partitions
        ],
    }
