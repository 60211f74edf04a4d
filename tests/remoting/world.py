"""The remoting front of brokers in the test's hand: time, disks and masters are the test's.

Source: tests/broker/cluster.py, with this front beside Kafka's.
"""

from collections.abc import Mapping
from typing import Any

from penstock.net.connection import ReplySlot
from penstock.remoting.dispatch import RemotingDispatcher
from penstock.remoting.front import RemotingFront
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.frame import decode_frame, encode_frame
from penstock.remoting.wire.message import Message, decode_messages
from tests.broker.cluster import Cluster, Node, Wire, run_at_once
from tests.remoting.served import pulled

SET = "set-0"


class RemotingWire(Wire):
    """A connection of a remoting client, which has many answers."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Command] = []
        self.pinned_bytes = 0

    def reserve(self) -> ReplySlot:
        return ReplySlot(self)

    def answered(self, place: Any, buffers: Any, size: int, count: int = 1) -> None:
        self.told.append(decode_frame(memoryview(b"".join(buffers))[4:]))


class Remoting:
    """One broker's front, and a client of it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.wire = RemotingWire()
        self.front = RemotingFront(node.broker, run_at_once, lambda _: ("127.0.0.1", 9876), None)  # type: ignore[arg-type]
        self._dispatcher = RemotingDispatcher(self.front)
        self._opaque = 0

    def send(self, code: int, fields: Mapping[str, object], body: bytes = b"") -> int:
        """Send a request; return its number."""
        self._opaque += 1
        named = {name: str(value) for name, value in fields.items()}
        command = Command(code=code, fields=named, body=body, opaque=self._opaque)
        frame = memoryview(bytearray(encode_frame(command)))[4:]
        self._dispatcher.on_frame(self.wire, frame)  # type: ignore[arg-type]
        return self._opaque

    def answer(self, opaque: int) -> Command | None:
        """Return an answer; None as long as there is none."""
        return next((one for one in self.wire.told if one.opaque == opaque), None)

    def pull(self, topic: str, offset: int = 0, **fields: Any) -> list[Message]:
        """Pull what is there."""
        asked = self.send(11, pulled(topic, offset, **{"bname": SET} | fields))
        self.node.cluster.world.run()
        answer = self.answer(asked)
        assert answer is not None
        return decode_messages(memoryview(answer.body))


def remotings(cluster: Cluster) -> list[Remoting]:
    """A front on each node."""
    return [Remoting(node) for node in cluster.nodes]


def look(cluster: Cluster) -> None:
    """Let every node look for what is due, as it does several times a second."""
    for node in cluster.nodes:
        node.broker.expire_waiting()
    cluster.world.run()


def settle(cluster: Cluster) -> None:
    """Let what is due be delivered and confirmed, on all members."""
    for _ in range(3):
        look(cluster)
        cluster.replicate()
