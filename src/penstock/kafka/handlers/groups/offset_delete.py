"""OffsetDelete 0: positions of topics that nobody in the group subscribes to go away.

Source: KIP-496; Kafka, KafkaApis.handleOffsetDeleteRequest.
"""

from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.groups.lease import knows_group
from penstock.groups.messages import DeleteOffsetsReply
from penstock.groups.records import TopicKey
from penstock.kafka.context import RequestContext
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.OFFSET_DELETE
VERSIONS = range(1)
SLICED_BY = (("topics", "partitions"),)


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Refuse unknown partitions here, and let the coordinator delete the others."""
    body = request.body
    asked = [
        (topic.name, [each.partition_index for each in topic.partitions]) for topic in body.topics
    ]
    keys = tuple(
        TopicKey(name, partition)
        for name, partitions in asked
        for partition in partitions
        if _exists(context.broker, name, partition)
    )

    def answer(result: DeleteOffsetsReply) -> None:
        is_refused = result.error is not ErrorCode.NONE
        topics = [] if is_refused else [_answer_topic(result, *each) for each in asked]
        reply({"error_code": result.error, "topics": topics})

    if not knows_group(context.broker, body.group_id):
        # A position that this one never heard of would be called deleted.
        reply({"error_code": ErrorCode.NOT_COORDINATOR, "topics": []})
        return
    context.broker.groups.delete_offsets(body.group_id, keys, answer)


def _exists(broker: Broker, name: str, partition: int) -> bool:
    topic = broker.metadata.topics_by_name.get(name)
    return topic is not None and 0 <= partition < len(topic.partitions)


def _answer_topic(result: DeleteOffsetsReply, name: str, partitions: list[int]) -> dict[str, Any]:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {
        "name": name,
        "partitions": [
            {
                "partition_index": partition,
                "error_code": result.partitions.get(TopicKey(name, partition), unknown),
            }
            for partition in partitions
        ],
    }
