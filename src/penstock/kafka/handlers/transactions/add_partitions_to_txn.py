"""AddPartitionsToTxn (key 24), versions 0 to 3: partitions enter a producer's transaction.

All of them enter or none: if one can not, the others are answered with OPERATION_NOT_ATTEMPTED.
Needs permission to write to the transactional id and to each topic. Versions 4 and 5, by which
brokers ask in Kafka, are not offered: ours ask over their own links (docs/adr/0090).

Source: Kafka `KafkaApis.handleAddPartitionsToTxnRequest`; KIP-98.
"""

from collections.abc import Mapping
from typing import Any

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation, Resource
from penstock.broker.errors import InternalTopicRefused
from penstock.broker.turns import Pace
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import refusal, topic
from penstock.kafka.request import Request
from penstock.kafka.transactions.entering import enter
from penstock.kafka.transactions.places import may_enter
from penstock.kafka.transactions.told import FENCED_VERSION_ADD, told_code
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.messages import Producer
from penstock.transactions.state import TopicPartitionName

KEY = ApiKey.ADD_PARTITIONS_TO_TXN
VERSIONS = range(4)
TOPIC = 3
"""What a topic costs, with or without partitions, in steps of a turn."""
Errors = dict[TopicPartitionName, ErrorCode]


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Check each topic, then let the coordinator add all."""
    body, pace = request.body, Pace(request.turns)
    name = body.v3_and_below_transactional_id
    refused = refusal(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, name)
    if refused is not None:
        return await _answer(body, {}, error_code_of(refused), pace)
    wanted: list[TopicPartitionName] = []
    errors: Errors = {}
    for one in body.v3_and_below_topics:
        await pace.step(TOPIC)
        await _look(context, one, wanted, errors, pace)
        if len(wanted) > context.broker.transactions.config.partitions_max:
            return await _answer(body, {}, ErrorCode.POLICY_VIOLATION, pace)
    if errors:
        return await _answer(body, errors, ErrorCode.OPERATION_NOT_ATTEMPTED, pace)
    producer = Producer(body.v3_and_below_producer_id, body.v3_and_below_producer_epoch)
    code = await enter(context.broker.transactions, name, producer, wanted)
    code = told_code(code, request.api_version, FENCED_VERSION_ADD)
    return await _answer(body, {}, code, pace)


async def _look(
    context: RequestContext,
    one: Any,
    wanted: list[TopicPartitionName],
    errors: Errors,
    pace: Pace,
) -> None:
    """Add the partitions of a topic to those that are wanted, and what is wrong with them."""
    code, image = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    try:
        found = topic(context, one.name, Operation.WRITE)
        if found.internal:
            raise InternalTopicRefused
        image = found
    except PlatformError as error:
        code = error_code_of(error)
    for partition in one.partitions:
        await pace.step()
        wanted.append((one.name, partition))
        if not may_enter(image, partition):
            errors[one.name, partition] = code


async def _answer(body: Any, errors: Errors, otherwise: ErrorCode, pace: Pace) -> dict[str, object]:
    topics: list[dict[str, object]] = []
    for one in body.v3_and_below_topics:
        await pace.step()
        results: list[dict[str, object]] = []
        topics.append({"name": one.name, "results_by_partition": results})
        for partition in one.partitions:
            await pace.step()
            code = errors.get((one.name, partition), otherwise)
            results.append({"partition_index": partition, "partition_error_code": code})
    return {"results_by_topic_v3_and_below": topics}
