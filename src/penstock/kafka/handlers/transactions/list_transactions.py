"""ListTransactions (key 66), versions 0 and 1: the ids that this broker coordinates.

Filters by state, by producer id and, from version 1 on, by how long the transaction is open; states
that are not known are given back. Ids that the client may not describe are left out.

Source: Kafka `TransactionStateManager.listTransactionStates`, KIP-664, KIP-994.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from penstock.broker.access import Operation, Resource
from penstock.broker.turns import Pace
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import may
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.messages import Filter
from penstock.transactions.state import TransactionState

KEY = ApiKey.LIST_TRANSACTIONS
VERSIONS = range(2)
IS_LONG = True
LOOKED_AT = 10
"""What looking at a hundred ids costs, in steps of a turn."""
NAMED_TOGETHER = 1_000
_STATES = {state.title: state for state in TransactionState}


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """List what the filters admit, in turns."""
    body, pace = request.body, Pace(request.turns)
    names = await _distinct(body.state_filters, pace)
    unknown = [name for name in names if name not in _STATES]
    states = frozenset(_STATES[name] for name in _STATES.keys() & names)
    nothing = {"unknown_state_filters": unknown, "transaction_states": ()}
    coordinator = context.broker.transactions
    if coordinator.is_loading:
        return {"error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, **nothing}
    if names and not states:
        return {"error_code": ErrorCode.NONE, **nothing}
    producer_ids = await _distinct(body.producer_id_filters, pace)
    wanted = Filter(states, producer_ids.keys(), getattr(body, "duration_filter", -1))
    found: list[dict[str, object]] = []
    for some in coordinator.listed(wanted):
        await pace.step(LOOKED_AT + len(some))
        for one in some:
            name = one.transactional_id
            if may(context, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, name):
                found.append(
                    {
                        "transactional_id": name,
                        "producer_id": one.producer_id,
                        "transaction_state": one.state.title,
                    }
                )
    return {
        "error_code": ErrorCode.NONE,
        "unknown_state_filters": unknown,
        "transaction_states": found,
    }


async def _distinct(given: Sequence[Hashable], pace: Pace) -> dict[Any, None]:
    """Return what a filter names, in its order; one may have ten thousands of names."""
    found: dict[Any, None] = {}
    for at in range(0, len(given), NAMED_TOGETHER):
        await pace.step(NAMED_TOGETHER // 10)
        found |= dict.fromkeys(given[at : at + NAMED_TOGETHER])
    return found
