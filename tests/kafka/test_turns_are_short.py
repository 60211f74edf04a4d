"""No request, however large, is worked on for long in one turn of the event loop.

Calls of functions are counted and not time, so that the result is the same on any machine. A loop
that forgets to wait between its elements is found by it, whatever its elements are.
"""

import sys
from types import FrameType

import pytest

from harness.bad_input.largest import largest_requests
from penstock.kafka.registry import load_apis
from penstock.protocol.api_keys import ApiKey
from tests.live_node import LiveNode, RawClient

FRAME_BYTES = 128 << 10
CALLS_MAX = 15_000
"""In one turn: some 2 ms. The longest one, of DescribeGroups, comes to four fifths of it."""
FRAMES = {
    key: frames
    for key, api in load_apis().items()
    if not api.is_raw and (frames := [*largest_requests(key, api.max_version, FRAME_BYTES)])
}


class Turns:
    """Counts the calls of every turn of the loop whose thread it watches."""

    def __init__(self) -> None:
        self.longest = 0
        self.begun_in = ""
        self._calls = 0
        self._name = ""
        self._loop: FrameType | None = None

    def begin(self) -> None:
        """Call from a callback of the loop."""
        frame = sys._getframe()
        while frame.f_back is not None and frame.f_code.co_name != "_run":
            frame = frame.f_back
        self._loop = frame
        sys.setprofile(self._count)

    def end(self) -> None:
        sys.setprofile(None)
        self._loop = None

    def _count(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_back is self._loop:
            self._calls, self._name = 0, frame.f_code.co_qualname
        self._calls += event in {"call", "c_call"}
        if self._calls > self.longest:
            self.longest, self.begun_in = self._calls, self._name


@pytest.mark.parametrize("key", FRAMES, ids=lambda key: load_apis()[key].name)
def test_no_turn_of_the_loop_is_long(node: LiveNode, client: RawClient, key: int) -> None:
    assert client.ask(ApiKey.API_VERSIONS, 0, {}).api_keys
    for request in FRAMES[key]:
        turns = Turns()
        node.call(turns.begin)
        try:
            client.socket.sendall(request.frame)
            assert client.receive_frame(), "the node closed the connection"
        finally:
            node.call(turns.end)
        told = f"{request.array}: {turns.longest} calls in a turn that began in {turns.begun_in}"
        assert 0 < turns.longest < CALLS_MAX, told
