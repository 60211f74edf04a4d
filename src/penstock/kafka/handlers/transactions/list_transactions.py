"""ListTransactions (key 66), versions 0 and 1: the ids that this broker coordinates.

Filters by state, by producer id and, from version 1 on, by how long the transaction is open; states
that are not known are given back. Ids that the client may not describe are left out.

Source: Kafka `TransactionStateManager.listTransactionStates`, KIP-664, KIP-994.
"""

from collections.abc import Mapping

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
_STATES = {state.title: state for state in TransactionState}


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """List what the filters admit, in turns."""
    body = request.body
    unknown = [name for name in dict.fromkeys(body.state_filters) if name not in _STATES]
    states = frozenset(_STATES[name] for name in body.state_filters if name in _STATES)
    nothing = {"unknown_state_filters": unknown, "transaction_states": ()}
    coordinator = context.broker.transactions
    if coordinator.is_loading:
        return {"error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, **nothing}
    if body.state_filters and not states:
        return {"error_code": ErrorCode.NONE, **nothing}
    wanted = Filter(
        states, frozenset(body.producer_id_filters), getattr(body, "duration_filter", -1)
    )
    pace = Pace(request.turns)
    found: list[dict[str, object]] = []
    for one in coordinator.listed(wanted):
        await pace.step()
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
