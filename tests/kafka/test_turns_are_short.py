"""No request, however large, is worked on for long in one turn of the event loop.

Calls of functions are counted and not time, so that the result is the same on any machine. A loop
that forgets to wait between its elements is found by it, whatever its elements are.
"""

import pytest

from harness.bad_input.largest import has_arrays, largest_requests
from penstock.kafka.registry import load_apis
from penstock.protocol.api_keys import ApiKey
from tests.live_node import LiveNode, RawClient
from tests.turn_calls import CALLS_MAX, Turns

FRAME_BYTES = 128 << 10
KEYS = [
    key for key, api in load_apis().items() if not api.is_raw and has_arrays(key, api.max_version)
]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: load_apis()[key].name)
def test_no_turn_of_the_loop_is_long(node: LiveNode, client: RawClient, key: int) -> None:
    assert client.ask(ApiKey.API_VERSIONS, 0, {}).api_keys
    for request in largest_requests(key, load_apis()[key].max_version, FRAME_BYTES):
        turns = Turns()
        node.call(turns.begin)
        try:
            client.socket.sendall(request.frame)
            assert client.receive_frame(), "the node closed the connection"
        finally:
            node.call(turns.end)
        told = f"{request.array}: {turns.longest} calls in a turn that began in {turns.begun_in}"
        assert 0 < turns.longest < CALLS_MAX, told
