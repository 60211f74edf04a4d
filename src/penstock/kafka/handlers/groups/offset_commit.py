"""OffsetCommit 2-10: store a group's positions. Answered when they are durable.

A position is stored with the id of its topic, so that it never applies to a topic that was created
again under the same name. Version 10 names topics by id. The retention time of versions 2 to 4 is
ignored: the retention of positions is one setting for all.

Source: Kafka, KafkaApis.handleOffsetCommitRequest; KIP-848 (topic ids).
"""

from typing import Any

from penstock.base.errors import PlatformError
from penstock.base.ids import NO_LEADER_EPOCH
from penstock.broker.access import Operation
from penstock.controller.metadata.image import TopicImage
from penstock.groups.messages import CommitOffsets
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import group_error, topic_of
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.OFFSET_COMMIT
VERSIONS = range(2, 11)
SLICED_BY = (("topics", "partitions"),)
EPOCHS_VERSION = 9
"""From here on members of consumer groups may commit, with their epoch (KIP-848)."""


Found = TopicImage | ErrorCode
"""A requested topic, or why nothing is committed to it."""


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Refuse what is unknown or not permitted, and let the coordinator store the rest."""
    body = request.body
    refused = group_error(context, body.group_id, Operation.READ)
    topics = [(topic, refused or _find(context, topic)) for topic in body.topics]

    def answer(errors: Any) -> None:
        reply({"topics": [_answer_topic(asked, found, errors) for asked, found in topics]})

    if refused:
        answer({})
        return
    commit = CommitOffsets(
        group_id=body.group_id,
        generation=body.generation_id_or_member_epoch,
        member_id=body.member_id,
        instance_id=getattr(body, "group_instance_id", None),
        is_by_epoch=request.api_version >= EPOCHS_VERSION,
        offsets=_offsets_to_keep(topics, context.broker.clock.wall_ms()),
    )
    context.broker.groups.commit(commit, answer)


def _find(context: RequestContext, asked: Any) -> Found:
    try:
        return topic_of(context, asked, Operation.READ)
    except PlatformError as error:
        return error_code_of(error)


def _offsets_to_keep(
    topics: list[tuple[Any, Found]], wall_ms: int
) -> dict[TopicKey, CommittedOffset]:
    return {
        TopicKey(found.name, asked.partition_index): CommittedOffset(
            offset=asked.committed_offset,
            leader_epoch=getattr(asked, "committed_leader_epoch", NO_LEADER_EPOCH),
            metadata=asked.committed_metadata or "",
            commit_timestamp_ms=wall_ms,
            topic_id=found.topic_id,
        )
        for topic, found in topics
        if isinstance(found, TopicImage)
        for asked in topic.partitions
        if 0 <= asked.partition_index < len(found.partitions)
    }


def _answer_topic(asked: Any, found: Found, errors: Any) -> dict[str, object]:
    """Answer one topic; partitions without an answer of the coordinator were refused here."""
    is_topic = isinstance(found, TopicImage)
    name = found.name if isinstance(found, TopicImage) else ""
    otherwise = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_topic else found
    is_by_id = hasattr(asked, "topic_id")
    return {
        **({"topic_id": asked.topic_id} if is_by_id else {"name": asked.name}),
        "partitions": [
            {
                "partition_index": each.partition_index,
                "error_code": errors.get(TopicKey(name, each.partition_index), otherwise),
            }
            for each in asked.partitions
        ],
    }
