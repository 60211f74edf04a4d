"""InitProducerId (key 22), versions 0 to 5: an id for an idempotent or transactional producer.

Without a transactional id every call returns a new id with epoch 0, even if the request names a
current one: no other producer can have it, so there is nothing to fence. Needs permission to write
to some topic, or idempotently to the cluster.

With one, the coordinator of that id ends what the last producer has left open, and fences it. From
version 3 on a producer may name what it has, to get a new epoch of it (KIP-360). Needs permission
to write to the id. Version 6 (two-phase commit) is not offered.

While no controller answers and this broker's block of ids is used up, the answer is
COORDINATOR_LOAD_IN_PROGRESS, as Kafka's is between two blocks: all clients retry.

Source: Kafka `TransactionCoordinator.handleInitProducerId`; KIP-98, KIP-360, KIP-730 (blocks).
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.broker.access import Operation, Resource
from penstock.broker.errors import NotAuthorised
from penstock.controller.errors import MetadataError, MetadataUnavailable
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import check_idempotent, refusal
from penstock.kafka.request import Request
from penstock.kafka.transactions.told import FENCED_VERSION_INIT, told_code
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.messages import Producer, ProducerReply

KEY = ApiKey.INIT_PRODUCER_ID
VERSIONS = range(6)
NONE = {"producer_id": -1, "producer_epoch": -1}


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Assign the next id of this broker's block, or ask the coordinator of the id."""
    if request.body.transactional_id is not None:
        return await _of_transactional_id(context, request)
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


async def _of_transactional_id(context: RequestContext, request: Request) -> Mapping[str, object]:
    body: Any = request.body
    name = body.transactional_id
    refused = refusal(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, name)
    if refused is not None:
        return {**error_fields(refused), **NONE}
    known = Producer(
        getattr(body, "producer_id", ProducerId(-1)),
        getattr(body, "producer_epoch", ProducerEpoch(-1)),
    )
    told: asyncio.Future[ProducerReply] = asyncio.get_running_loop().create_future()
    timeout_ms = round(body.transaction_timeout.total_seconds() * 1000)
    context.broker.transactions.init_producer_id(name, timeout_ms, known, told.set_result)
    result = await told
    return {
        "error_code": told_code(result.error, request.api_version, FENCED_VERSION_INIT),
        "producer_id": result.producer.producer_id,
        "producer_epoch": result.producer.epoch,
    }
