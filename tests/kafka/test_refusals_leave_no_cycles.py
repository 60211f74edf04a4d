"""A refusal goes with its answer: nothing of it waits for a collection of everything.

An error that a frame of its own traceback holds is a cycle. A full collection is rare in a node,
so millions of them would lie in memory, and hold the loop for seconds when it comes.
"""

import gc

import pytest

from harness.bad_input.largest import has_arrays, largest_requests
from penstock.base.errors import PlatformError
from penstock.kafka.registry import load_apis
from penstock.protocol.api_keys import ApiKey
from tests.live_node import LiveNode, RawClient

SMALL_BYTES = 3_900
KEYS = [
    key for key, api in load_apis().items() if not api.is_raw and has_arrays(key, api.max_version)
]
"""Of all APIs that are decoded and name several things, of which each is refused by itself."""


def _errors() -> int:
    return sum(isinstance(one, PlatformError) for one in gc.get_objects())


@pytest.mark.parametrize("key", KEYS, ids=lambda key: load_apis()[key].name)
def test_a_refusal_leaves_no_cycle(node: LiveNode, client: RawClient, key: int) -> None:
    version = load_apis()[key].max_version
    frames = [request.frame for request in largest_requests(key, version, SMALL_BYTES)]
    assert frames
    assert client.ask(ApiKey.API_VERSIONS, 0, {}).api_keys
    gc.collect()
    gc.disable()
    before = node.call(_errors)
    try:
        for frame in frames:
            client.socket.sendall(frame)
            client.receive(key, version)
        # A handler may end a turn after its answer has gone; a cycle would stay for ever.
        assert node.until(lambda: _errors() <= before)
    finally:
        gc.enable()
