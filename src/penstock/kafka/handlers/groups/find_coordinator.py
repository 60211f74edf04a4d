"""FindCoordinator 0-6: the broker that coordinates a group or a transactional id.

The key selects a partition of the internal topic: the master of that partition's replica set is the
coordinator, and while the set has no live master there is none. Needs permission to describe the
group or the id; the first request has the internal topic created. From version 4 on there are
several keys. Share groups are groups (key type 0). Key type 2, the coordinator of one share, is for
brokers in Kafka; here a share is with the leader of its data.

Source: Kafka, KafkaApis.getCoordinator; KIP-699 (batches).
"""

from collections.abc import Mapping

from penstock.broker.access import Operation, Resource
from penstock.coordinator.partitioning import partition_of
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.kafka.answers.topic_view import leader_for_clients
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import find_topic, group_error, refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.partitioning import INTERNAL_TOPIC as TRANSACTION_TOPIC

KEY = ApiKey.FIND_COORDINATOR
VERSIONS = range(7)
SLICED_BY = (("coordinator_keys",),)
KEY_CHARS_WEIGHED = 2_000
"""Characters of a key that count as one more: its partition takes 50 ns a character."""

GROUP_KEY_TYPE = 0
TRANSACTION_KEY_TYPE = 1
_TOPICS = {GROUP_KEY_TYPE: INTERNAL_TOPIC, TRANSACTION_KEY_TYPE: TRANSACTION_TOPIC}
_REFUSED = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not authorized to use the group",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "may not be used: no permission, or too long",
    ErrorCode.INVALID_REQUEST: "a transactional id has at least one character",
}
_NOT_FOUND = {"node_id": -1, "host": "", "port": -1}


def key_weight(key: str) -> int:
    """Return how many plain keys this one stands for."""
    return 1 + len(key) // KEY_CHARS_WEIGHED


def weigh(_: RequestContext, key: str) -> int:
    """Return the weight of an element (registry.py)."""
    return key_weight(key)


WEIGH = weigh


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Answer with one coordinator per key; before version 4 there is one key."""
    body = request.body
    key_type = getattr(body, "key_type", GROUP_KEY_TYPE)
    is_single = request.api_version < 4
    keys = [body.key] if is_single else [k for k in body.coordinator_keys if request.is_first(k)]
    errors = [_refusal(context, key_type, key) for key in keys]
    if not all(errors):
        await _ensure_topic(context, key_type)
    found = [
        {"error_code": error, "error_message": _REFUSED.get(error), **_NOT_FOUND}
        if error
        else _coordinator(context, key_type, key)
        for key, error in zip(keys, errors, strict=True)
    ]
    if is_single:
        return found[0]
    return {"coordinators": [{"key": k, **one} for k, one in zip(keys, found, strict=True)]}


async def _ensure_topic(context: RequestContext, key_type: int) -> None:
    if key_type == GROUP_KEY_TYPE:
        await context.front.internal_topic.ensure()
    elif key_type == TRANSACTION_KEY_TYPE:
        await context.front.transaction_topic.ensure()


def _refusal(context: RequestContext, key_type: int, key: str) -> ErrorCode:
    """Return the refusal; other key types need no check, as their answer discloses nothing."""
    if key_type == GROUP_KEY_TYPE:
        return group_error(context, key, Operation.DESCRIBE)
    if key_type == TRANSACTION_KEY_TYPE:
        if not key:
            return ErrorCode.INVALID_REQUEST
        if not context.broker.transactions.here.is_id_allowed(key):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        refused = refusal(context, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, key)
        return ErrorCode.NONE if refused is None else error_code_of(refused)
    return ErrorCode.NONE


def _coordinator(context: RequestContext, key_type: int, key: str) -> dict[str, object]:
    name = _TOPICS.get(key_type)
    if name is None:
        text = "groups and transactions have coordinators; a share is with the leader of its data"
        return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": text, **_NOT_FOUND}
    broker = context.broker
    image = broker.metadata
    topic = find_topic(broker, name)
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
