"""AddOffsetsToTxn (key 25), versions 0 to 4: a group's positions enter a producer's transaction.

What enters is the partition of the internal topic that has the group, as any partition does by
AddPartitionsToTxn. The positions follow by TxnOffsetCommit, to the group's coordinator. Needs
permission to write to the transactional id and to read the group.

Source: Kafka `KafkaApis.handleAddOffsetsToTxnRequest`; KIP-98.
"""

from collections.abc import Mapping

from penstock.broker.access import Operation, Resource
from penstock.coordinator.partitioning import partition_of
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import find_topic, group_error, refusal
from penstock.kafka.request import Request
from penstock.kafka.transactions.entering import enter
from penstock.kafka.transactions.told import FENCED_VERSION_ADD, told_code
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.messages import Producer

KEY = ApiKey.ADD_OFFSETS_TO_TXN
VERSIONS = range(5)


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Let the coordinator of the transaction add the group's partition."""
    return {"error_code": await _outcome(context, request)}


async def _outcome(context: RequestContext, request: Request) -> ErrorCode:
    body = request.body
    name, group_id = body.transactional_id, body.group_id
    refused = refusal(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, name)
    if refused is not None:
        return error_code_of(refused)
    error = group_error(context, group_id, Operation.READ)
    if error is not ErrorCode.NONE:
        return error
    await context.front.internal_topic.ensure()
    topic = find_topic(context.broker, INTERNAL_TOPIC)
    if topic is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    place = INTERNAL_TOPIC, partition_of(group_id, len(topic.partitions))
    producer = Producer(body.producer_id, body.producer_epoch)
    code = await enter(context.broker.transactions, name, producer, [place])
    return told_code(code, request.api_version, FENCED_VERSION_ADD)
