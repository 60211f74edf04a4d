"""DescribeTransactions (key 65), version 0: state, time-out, start and partitions of ids.

Needs permission to describe each id. Partitions of topics that the client may not describe are left
out.

Source: Kafka `TransactionCoordinator.handleDescribeTransactions`, KIP-664.
"""

from collections import defaultdict
from collections.abc import Mapping

from penstock.broker.access import Operation, Resource
from penstock.broker.turns import Pace
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import may, refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.transactions.state import Transaction

KEY = ApiKey.DESCRIBE_TRANSACTIONS
VERSIONS = range(1)
IS_LONG = True
Fields = dict[str, object]
_NOTHING: Fields = {
    "transaction_state": "",
    "transaction_timeout_ms": 0,
    "transaction_start_time_ms": -1,
    "producer_id": -1,
    "producer_epoch": -1,
    "topics": (),
}


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Describe one id after the other, in turns."""
    pace = Pace(request.turns)
    found: list[Fields] = []
    for name in request.body.transactional_ids:
        await pace.step()
        if request.is_first(name):
            found.append(await _described(context, name, pace))
    return {"transaction_states": found}


async def _described(context: RequestContext, name: str, pace: Pace) -> Fields:
    refused = refusal(context, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, name)
    if refused is not None:
        return {"error_code": error_code_of(refused), "transactional_id": name, **_NOTHING}
    code, one = context.broker.transactions.describe(name)
    if one is None:
        return {"error_code": code, "transactional_id": name, **_NOTHING}
    return {
        "error_code": code,
        "transactional_id": name,
        "transaction_state": one.state.title,
        "transaction_timeout_ms": one.timeout_ms,
        "transaction_start_time_ms": one.start_ms,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "topics": await _topics(context, one, pace),
    }


async def _topics(context: RequestContext, one: Transaction, pace: Pace) -> list[Fields]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(one.partitions):
        await pace.step()
        if may(context, Operation.DESCRIBE, Resource.TOPIC, topic):
            topics[topic].append(partition)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()]
