"""AddPartitionsToTxn (key 24), versions 0 to 3: partitions enter a producer's transaction.

All of them enter or none: if one can not, the others are answered with OPERATION_NOT_ATTEMPTED.
Needs permission to write to the transactional id and to each topic. Versions 4 and 5, by which
brokers ask in Kafka, are not offered: ours ask over their own links (docs/adr/0090).

Source: Kafka `KafkaApis.handleAddPartitionsToTxnRequest`; KIP-98.
"""

from typing import Any

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation, Resource
from penstock.broker.errors import InternalTopicRefused
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import refusal, topic
from penstock.kafka.request import Reply, Request
from penstock.kafka.transactions.told import FENCED_VERSION_ADD, told_code
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.messages import Producer, ProducerReply
from penstock.transactions.state import TopicPartitionName

KEY = ApiKey.ADD_PARTITIONS_TO_TXN
VERSIONS = range(4)
CLIENT_VERSION = 1
"""Version of transactions of a client that adds partitions by this request."""


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Check each topic, then let the coordinator add all."""
    body = request.body
    wanted = _wanted(body)
    errors = _refusals(context, body, wanted)
    if errors:
        not_attempted = ErrorCode.OPERATION_NOT_ATTEMPTED
        reply(_answer(body, {one: errors.get(one, not_attempted) for one in wanted}))
        return

    def told(result: ProducerReply) -> None:
        code = told_code(result.error, request.api_version, FENCED_VERSION_ADD)
        reply(_answer(body, dict.fromkeys(wanted, code)))

    producer = Producer(body.v3_and_below_producer_id, body.v3_and_below_producer_epoch)
    context.broker.transactions.add_partitions(
        body.v3_and_below_transactional_id, producer, wanted, CLIENT_VERSION, told
    )


def _wanted(body: Any) -> list[TopicPartitionName]:
    return [
        (one.name, partition) for one in body.v3_and_below_topics for partition in one.partitions
    ]


def _refusals(
    context: RequestContext, body: Any, wanted: list[TopicPartitionName]
) -> dict[TopicPartitionName, ErrorCode]:
    name = body.v3_and_below_transactional_id
    refused = refusal(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, name)
    if refused is not None:
        return dict.fromkeys(wanted, error_code_of(refused))
    found: dict[TopicPartitionName, ErrorCode] = {}
    for one in body.v3_and_below_topics:
        try:
            image = topic(context, one.name, Operation.WRITE)
            if image.internal:
                raise InternalTopicRefused
            count = len(image.partitions)
        except PlatformError as error:
            code = error_code_of(error)
            found.update({(one.name, partition): code for partition in one.partitions})
            continue
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        outside = (each for each in one.partitions if not 0 <= each < count)
        found.update({(one.name, partition): unknown for partition in outside})
    return found


def _answer(body: Any, errors: dict[TopicPartitionName, ErrorCode]) -> dict[str, object]:
    return {
        "results_by_topic_v3_and_below": [
            {
                "name": one.name,
                "results_by_partition": [
                    {"partition_index": each, "partition_error_code": errors[one.name, each]}
                    for each in one.partitions
                ],
            }
            for one in body.v3_and_below_topics
        ]
    }
