"""FindCoordinator 0-6: which broker keeps a group.

The internal topic's partition of a group names it: the master of that partition's replica set is
the coordinator, and while that has no live master there is none. Who asks first has the internal
topic made. Version 4 and later ask for many keys at once. Transactions and share groups are
not there. Of the codes for a transaction's coordinator librdkafka takes only the two of a missing
authorisation as final, and asks again after any other until its caller's time is up; so it is that
one, with a text that says why.

Source: Kafka, KafkaApis.getCoordinator; KIP-699 (batches).
"""

from collections.abc import Mapping

from penstock.groups.partitioning import INTERNAL_TOPIC, partition_of
from penstock.kafka.answers.topic_view import leader_for_clients
from penstock.kafka.context import RequestContext
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
    if key_type == GROUP_KEY_TYPE:
        await context.front.internal_topic.ensure()
    if request.api_version < 4:
        return _coordinator(context, key_type, body.key)
    keys = [key for key in body.coordinator_keys if request.is_first(key)]
    return {"coordinators": [{"key": key, **_coordinator(context, key_type, key)} for key in keys]}


def _coordinator(context: RequestContext, key_type: int, key: str) -> dict[str, object]:
    if key_type != GROUP_KEY_TYPE:
        error = ErrorCode.INVALID_REQUEST
        if key_type == TRANSACTION_KEY_TYPE:
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        text = "only groups have coordinators here: transactions and share groups are not available"
        return {"error_code": error, "error_message": text, **_NOT_FOUND}
    broker = context.broker
    image = broker.metadata
    topic = image.topics_by_name.get(INTERNAL_TOPIC)
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
