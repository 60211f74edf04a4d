"""InitProducerId (key 22), versions 0 to 5: an id for an idempotent producer.

Every call returns a new id with epoch 0, even if the request names a current one: without a
transactional id no other producer can have it, so there is nothing to fence (KIP-360 is for those
with one). Transactional producers are refused with the error of FindCoordinator, which all clients
treat as final; normally they find no coordinator and do not send this request.

Needs permission to write to some topic, or idempotently to the cluster.

While no controller answers and this broker's block of ids is used up, the answer is
COORDINATOR_LOAD_IN_PROGRESS, as Kafka's is between two blocks: all clients retry.

Source: Kafka `TransactionCoordinator.handleInitProducerId` (the branch without transactional id);
KIP-98, KIP-730 (blocks of ids).
"""

from collections.abc import Mapping

from penstock.broker.errors import NotAuthorised, TransactionsNotSupported
from penstock.controller.errors import MetadataError, MetadataUnavailable
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import check_idempotent
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.INIT_PRODUCER_ID
VERSIONS = range(6)
NONE = {"producer_id": -1, "producer_epoch": -1}


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Assign the next id of this broker's block."""
    if request.body.transactional_id is not None:
        final = {"error_code": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
        return {**error_fields(TransactionsNotSupported()), **final, **NONE}
    try:
        check_idempotent(context)
        producer_id = await context.broker.producer_ids.take(
            context.broker.controller, context.broker.broker_id
        )
    except MetadataUnavailable as error:
        again = {"error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        return {**error_fields(error), **again, **NONE}
    except (MetadataError, NotAuthorised) as error:
        return {**error_fields(error), **NONE}
    return {"producer_id": producer_id, "producer_epoch": 0}
