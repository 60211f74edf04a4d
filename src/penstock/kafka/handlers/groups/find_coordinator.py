"""FindCoordinator 0-6: the broker that coordinates a group.

The group id selects a partition of the internal topic: the master of that partition's replica set
is the coordinator, and while the set has no live master there is none. Needs permission to describe
the group; the first request has the internal topic created. From version 4 on there are several
keys.

Transactions and share groups are not supported. Of the errors for a transaction coordinator,
librdkafka treats only the two authorisation errors as final, and retries after any other until its
caller's time-out; so it gets such an error, with a text that says why.

Source: Kafka, KafkaApis.getCoordinator; KIP-699 (batches).
"""

from collections.abc import Mapping

from penstock.broker.access import Operation
from penstock.coordinator.partitioning import partition_of
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.kafka.answers.topic_view import leader_for_clients
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import find_topic, group_error
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.FIND_COORDINATOR
VERSIONS = range(7)
SLICED_BY = (("coordinator_keys",),)

GROUP_KEY_TYPE = 0
TRANSACTION_KEY_TYPE = 1
_NOT_FOUND = {"node_id": -1, "host": "", "port": -1}


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Answer with one coordinator per key; before version 4 there is one key."""
    body = request.body
    key_type = getattr(body, "key_type", GROUP_KEY_TYPE)
    is_single = request.api_version < 4
    keys = [body.key] if is_single else [k for k in body.coordinator_keys if request.is_first(k)]
    errors = [_refusal(context, key_type, key) for key in keys]
    if key_type == GROUP_KEY_TYPE and not all(errors):
        await context.front.internal_topic.ensure()
    found = [
        {"error_code": error, "error_message": "not authorized to use the group", **_NOT_FOUND}
        if error
        else _coordinator(context, key_type, key)
        for key, error in zip(keys, errors, strict=True)
    ]
    if is_single:
        return found[0]
    return {"coordinators": [{"key": k, **one} for k, one in zip(keys, found, strict=True)]}


def _refusal(context: RequestContext, key_type: int, key: str) -> ErrorCode:
    """Return the refusal; other key types need no check, as their answer discloses nothing."""
    if key_type != GROUP_KEY_TYPE:
        return ErrorCode.NONE
    return group_error(context, key, Operation.DESCRIBE)


def _coordinator(context: RequestContext, key_type: int, key: str) -> dict[str, object]:
    if key_type != GROUP_KEY_TYPE:
        error = ErrorCode.INVALID_REQUEST
        if key_type == TRANSACTION_KEY_TYPE:
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        text = "only groups have coordinators here: transactions and share groups are not available"
        return {"error_code": error, "error_message": text, **_NOT_FOUND}
    broker = context.broker
    image = broker.metadata
    topic = find_topic(broker, INTERNAL_TOPIC)
    placed = topic.partitions[partition_of(key, len(topic.partitions))] if topic else None
    replica_set = image.replica_sets.get(placed.replica_set_id) if placed else None
    master = (
        leader_for_clients(image, replica_set.master, context.listener) if replica_set else None
    )
    if master is None or broker.is_suspect(master.broker_id):
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return {"error_code": error, "error_message": "no coordinator yet", **_NOT_FOUND}
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "node_id": master.broker_id,
        "host": master.host,
        "port": master.port,
    }
