"""OffsetDelete 0: deletes positions of topics that no member of the group subscribes to.

Source: KIP-496; Kafka, KafkaApis.handleOffsetDeleteRequest.
"""

from typing import Any

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation
from penstock.groups.messages import DeleteOffsetsReply
from penstock.groups.records import TopicKey
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import told_group_error, topic
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.OFFSET_DELETE
VERSIONS = range(1)
SLICED_BY = (("topics", "partitions"),)


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Refuse what is unknown or not permitted, and let the coordinator delete the rest."""
    body = request.body
    if error := told_group_error(context, body.group_id, Operation.DELETE):
        # Another coordinator may be active: positions unknown to this one would count as deleted.
        reply({"error_code": error, "topics": []})
        return
    asked = [(one.name, [each.partition_index for each in one.partitions]) for one in body.topics]
    refused: dict[TopicKey, ErrorCode] = {}
    for name, partitions in asked:
        refused.update(_refusals(context, name, partitions))
    keys = [TopicKey(name, partition) for name, partitions in asked for partition in partitions]

    def answer(result: DeleteOffsetsReply) -> None:
        is_refused = result.error is not ErrorCode.NONE
        errors = {**result.partitions, **refused}
        topics = [] if is_refused else [_answer_topic(errors, *each) for each in asked]
        reply({"error_code": result.error, "topics": topics})

    context.broker.groups.delete_offsets(
        body.group_id, tuple(key for key in keys if key not in refused), answer
    )


def _refusals(
    context: RequestContext, name: str, partitions: list[int]
) -> dict[TopicKey, ErrorCode]:
    error, count = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0
    try:
        count = len(topic(context, name, Operation.READ).partitions)
    except PlatformError as refusal:
        error = error_code_of(refusal)
    return {
        TopicKey(name, partition): error for partition in partitions if not 0 <= partition < count
    }


def _answer_topic(
    errors: dict[TopicKey, ErrorCode], name: str, partitions: list[int]
) -> dict[str, Any]:
    return {
        "name": name,
        "partitions": [
            {"partition_index": partition, "error_code": errors[TopicKey(name, partition)]}
            for partition in partitions
        ],
    }
