"""A node inside the test process that remoting clients reach, and a client in plain frames."""

import socket
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.ports import free_port
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command, Serialisation
from penstock.remoting.wire.frame import decode_frame, encode_frame
from penstock.remoting.wire.message import Message, decode_messages
from penstock.remoting.wire.properties import write_properties
from tests.live_node import ANSWER_SECONDS, LiveNode, running_node

SET = "set-1"
"""The only replica set of a single node."""


@contextmanager
def running_remoting_node(directory: Path, *overrides: str) -> Iterator[tuple[LiveNode, str]]:
    """A node with a port for remoting clients, and the address of that."""
    port = free_port()
    with running_node(directory, f"remoting.port={port}", *overrides) as node:
        yield node, f"127.0.0.1:{port}"


@contextmanager
def visits(node: LiveNode, count: int) -> Iterator[None]:
    """So many clients come and go inside; in the end the node has read what they sent, and knows.

    What is over before that may not have begun.
    """
    listener = node.node._listener
    assert listener is not None
    stats = listener.stats
    accepted, open_before = node.call(lambda: (stats.accepted, stats.connections))
    yield
    assert node.until(lambda: stats.accepted >= accepted + count)
    assert node.until(lambda: stats.connections <= open_before)


class Remote:
    """One connection."""

    def __init__(self, address: str, serialisation: Serialisation = Serialisation.JSON) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS)
        self._file = self.socket.makefile("rb")
        self._serialisation = serialisation
        self._opaque = 0
        self._asked: deque[Command] = deque()
        """What the node has asked or told before an answer came, as it does when it likes."""

    def send(
        self, code: int, fields: Mapping[str, object], body: bytes = b"", flag: int = 0
    ) -> int:
        """Send a request; returns its number."""
        self._opaque += 1
        command = Command(
            code=code,
            fields={name: str(value) for name, value in fields.items()},
            body=body,
            opaque=self._opaque,
            flag=flag,
            serialisation=self._serialisation,
        )
        self.socket.sendall(encode_frame(command))
        return self._opaque

    def receive(self) -> Command:
        """Return the next command; those that came before an answer are first."""
        return self._asked.popleft() if self._asked else self._read()

    def _read(self) -> Command:
        size = self._file.read(4)
        assert size, "the node has closed the connection"
        return decode_frame(memoryview(self._file.read(int.from_bytes(size))))

    def is_closed(self) -> bool:
        """Wait for the node to close the connection."""
        return self._file.read(4) == b""

    def ask(self, code: int, fields: Mapping[str, object], body: bytes = b"") -> Command:
        """Send a request, and return its answer, which is the next one."""
        opaque = self.send(code, fields, body)
        answer = self.receive_answer()
        assert answer.opaque == opaque
        return answer

    def receive_answer(self) -> Command:
        """Return the next answer; what the node asks meanwhile is kept for `receive`."""
        while not (answer := self._read()).is_answer:
            self._asked.append(answer)
        return answer

    def ask_among(self, code: int, fields: Mapping[str, object], body: bytes = b"") -> Command:
        """Send a request, and return its answer; others may come before it."""
        opaque = self.send(code, fields, body)
        while (answer := self._read()).opaque != opaque:
            pass
        return answer

    def close(self) -> None:
        self._file.close()
        self.socket.close()


def sent(topic: str, properties: Mapping[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """The fields of SEND_MESSAGE_V2, with these in place of the usual ones."""
    told = write_properties(properties or {})
    usual = {"a": "p", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 7, "h": 0}
    return usual | {"i": told, "j": 0, "k": False, "m": False, "n": SET} | fields


def pulled(topic: str, offset: int = 0, **fields: Any) -> dict[str, Any]:
    """The fields of PULL_MESSAGE, likewise."""
    usual = {"consumerGroup": "g", "topic": topic, "queueId": 0, "queueOffset": offset}
    return usual | {"maxMsgNums": 32, "sysFlag": 4, "subscription": "*", "bname": SET} | fields


def pull(remote: Remote, topic: str, offset: int = 0, **fields: Any) -> list[Message]:
    """Pull what is there."""
    answer = remote.ask(RequestCode.PULL_MESSAGE, pulled(topic, offset, **fields))
    return decode_messages(memoryview(answer.body))
