"""UnregisterBroker (key 64), version 0: remove a broker that has stopped for good.

A member of a replica set is not removed: the answer is INVALID_REQUEST, and names the sets that it
has to leave first. Kafka lets partitions keep replicas on a broker that is gone.

Source: Kafka `ControllerApis.handleUnregisterBroker`, KIP-631.
"""

from collections.abc import Mapping

from penstock.broker.access import Operation, Resource
from penstock.broker.submitting import submit
from penstock.controller.commands.command import RemoveBroker
from penstock.controller.errors import MetadataError, UnknownBroker
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.UNREGISTER_BROKER
VERSIONS = range(1)


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Have the controller remove the broker."""
    refused = refusal(context, Operation.ALTER, Resource.CLUSTER)
    if refused is not None:
        return error_fields(refused)
    outcome = await submit(context.broker, RemoveBroker(broker_id=request.body.broker_id))
    if isinstance(outcome, UnknownBroker):
        return error_fields(outcome) | {"error_code": ErrorCode.BROKER_ID_NOT_REGISTERED}
    return error_fields(outcome if isinstance(outcome, MetadataError) else None)
