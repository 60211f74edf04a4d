"""What is left of connections of gRPC clients that have ended: nothing, at once."""

import gc
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from rocketmq.grpc_protocol import service_pb2 as service

from penstock.grpc.transport import GrpcConnection
from penstock.http2.codes import PREFACE
from penstock.http2.frames import settings_frame
from penstock.net.sockets import has_hung_up
from penstock.net.turn_share import TurnShare
from tests.grpc.raw import RawCall
from tests.grpc.served import running_grpc_node
from tests.live_node import LiveNode

SERVICE = "/apache.rocketmq.v2.MessagingService/"
HEARTBEAT = service.HeartbeatRequest().SerializeToString()
CALL = b"\0" + len(HEARTBEAT).to_bytes(4, "big") + HEARTBEAT
ENDS = {
    "said hello": PREFACE + settings_frame(()),
    "no http2": b"GET / HTTP/1.1\r\n\r\n",
    "a fault": PREFACE + settings_frame(()) + b"\0\0\1\6\0\0\0\0\0x",
    "a call": b"",
    "half a call": b"half",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running_grpc_node(tmp_path_factory.mktemp("ends")) as served:
        yield served


@contextmanager
def no_collections() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def speak(raw: RawCall, said: bytes) -> None:
    if not said:
        raw.call(f"{SERVICE}Heartbeat", CALL, client_id="c")
    elif said == b"half":
        raw.begin(f"{SERVICE}SendMessage", CALL[:4])
    else:
        raw._socket.sendall(said)


@pytest.mark.parametrize("end", ENDS)
def test_a_connection_that_has_ended_is_freed_without_a_collection(served, end: str) -> None:
    """Each kept 8 kB until all objects were gone through: 60,000 of them were 400 MB."""
    node, address = served
    port = node.node._rocketmq.grpc
    assert port is not None
    with no_collections():
        with closing(RawCall(address)) as raw:
            assert node.until(lambda: len(port.connections) == 1)
            (only,) = port.connections
            gone: weakref.ref[GrpcConnection] = weakref.ref(only)
            core = weakref.ref(only.core)
            del only
            speak(raw, ENDS[end])
        assert node.until(lambda: not port.connections)
        assert node.until(lambda: gone() is None and core() is None)


def test_who_goes_while_it_waits_for_its_turn_is_dropped(
    served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not read meanwhile: a thousand that had gone were served, and kept what they held."""
    node, address = served
    port = node.node._rocketmq.grpc
    assert port is not None
    waiting: list[GrpcConnection] = []
    monkeypatch.setattr(TurnShare, "has_room", lambda *_: False)
    monkeypatch.setattr(GrpcConnection, "_wait", lambda one, _: waiting.append(one))
    with closing(RawCall(address)) as raw:
        raw._socket.sendall(ENDS["said hello"])
        assert node.until(lambda: len(waiting) == 1)
        (one,) = waiting
        node.call(one._transport.pause_reading)
    core = one.core
    monkeypatch.setattr(core.__class__, "handle", lambda *_: pytest.fail("it was served"))
    assert node.until(lambda: has_hung_up(one._transport.get_extra_info("socket")))
    node.call(one._begin_turn)
    assert node.until(lambda: not port.connections)
