"""No request about transactions is worked on for long in one turn of the event loop."""

import pytest

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.kafka.handlers.groups.find_coordinator import KEY_CHARS_WEIGHED, key_weight
from penstock.kafka.slices import SLICE_ELEMENTS, slices_of
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import decode_request, encode_request
from penstock.transactions.state import Transaction, TransactionState
from tests.kafka.transacting import begin
from tests.live_node import LiveNode, RawClient
from tests.turn_calls import CALLS_MAX, Turns

IDS = 20_000
FILTERS = 50_000
KEYS, KEY_CHARS = 100, 32_000


def hold_ids(node: LiveNode) -> None:
    """Have the coordinator know many ids, as if they had been loaded."""
    (states, *_) = node.broker.transactions._shard.by_partition.values()
    for number in range(IDS):
        name = f"id-{number}"
        one = Transaction(
            name, ProducerId(number), ProducerEpoch(0), 60_000, TransactionState.EMPTY
        )
        states.restore({name: one})


@pytest.mark.parametrize(
    ("states", "producers", "found"),
    [
        ([], [-5], 0),
        ([], range(IDS, IDS + FILTERS), 0),
        ([f"s{one}" for one in range(FILTERS)], [], 0),
        (["Empty"], range(100), 100),
    ],
)
def test_listing_takes_no_long_turn(
    node: LiveNode, client: RawClient, states: list[str], producers: range, found: int
) -> None:
    begin(node, client)
    node.call(lambda: hold_ids(node))
    fields = {
        "state_filters": states,
        "producer_id_filters": [*producers],
        "duration_filter": -1,
    }
    turns = Turns()
    node.call(turns.begin)
    try:
        told = client.ask(ApiKey.LIST_TRANSACTIONS, 1, fields)
    finally:
        node.call(turns.end)
    assert sum(one.transactional_id != "x" for one in told.transaction_states) == found
    assert 0 < turns.longest < CALLS_MAX, turns.begun_in


def test_few_long_keys_are_looked_up_in_a_turn() -> None:
    # The partition of a key takes time for each character, which no count of calls shows.
    fields = {"key_type": 1, "coordinator_keys": ["k" * KEY_CHARS] * KEYS}
    frame = encode_request(ApiKey.FIND_COORDINATOR, 4, fields)
    body = decode_request(ApiKey.FIND_COORDINATOR, 4, memoryview(frame), 0)

    parts = [*slices_of(body, ("coordinator_keys",), weigh=key_weight)]
    characters = [sum(map(len, part.coordinator_keys)) for part in parts]
    most = SLICE_ELEMENTS * KEY_CHARS_WEIGHED
    assert sum(characters) == KEYS * KEY_CHARS
    assert max(characters) <= most
