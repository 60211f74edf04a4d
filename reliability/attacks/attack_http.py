"""Attacks on `penstock http` behind TLS, beside a client that produces through it.

by strangers:
    closed-http-silent   2,000 connections that shake hands and say nothing more
    closed-http-hellos   1,000 connections whose handshake is begun and left there
    closed-http-heads    2,000 connections with 15 KiB of a head that does not end
    closed-http-wrong    requests of 4 MiB with a token that nobody knows
by the holder of a token:
    closed-http-kept     1,200 connections that have shown it and stay
    closed-http-bodies   200 connections with a body of 4 MiB but for its last byte
    closed-http-waits    400 receives that wait for messages
    closed-http-denied   requests for what the token does not allow
"""

import contextlib
import http.client
import json
import re
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from harness.http_front import HttpProcess
from harness.login import USER
from harness.node import LOOPBACK, private_bytes
from harness.workload import create_topic
from reliability.attacks.attack_closed import (
    CROWD,
    HELLOS,
    KEY_OF_USER,
    ClosedNode,
    again,
    crowd,
    shaken,
    trusting,
    with_hello,
)
from reliability.attacks.attack_frames import ANSWER_SECONDS, RETRY_SECONDS, Address, Attack
from reliability.attacks.attack_good import INTERVAL_SECONDS, TOPIC, SteadyClient

GOODS, HOLDERS = "the-good-client-0123456789", "the-attackers-token-0123456789"
OWN = "own"
TOKENS: Final = f"""
[nodes]
access_key = "{USER}"
secret = "{KEY_OF_USER}"

[[token]]
name = "good"
token = "{GOODS}"
produce = ["{TOPIC}"]

[[token]]
name = "holder"
token = "{HOLDERS}"
produce = ["{OWN}"]
consume = ["{OWN}"]
groups = ["{OWN}"]
"""
HEAD_BYTES, BODY_BYTES = 15 << 10, 4 << 20
KEPT, BODIES, WAITS, DENIED = 1_200, 200, 400, 100
FRESH = 50
"""Records of the good client on one connection: whoever comes is to find a place as well."""
PRODUCE, RECEIVE = f"/v1/topics/{OWN}/messages", f"/v1/topics/{OWN}/groups/{OWN}/receive"
_BAD_LINE = re.compile(r"Traceback|CRITICAL|never retrieved|Exception in")


class HttpFront(HttpProcess):
    """A `penstock http` with TLS beside a node that wants TLS and signatures."""

    def __init__(self, directory: Path, node: ClosedNode, remoting_port: int) -> None:
        options = ["--tls-cert", node.certificate, "--tls-key", node.certificate]
        options += ["--node-ca", node.login.authority_file]
        super().__init__(
            directory,
            [f"{LOOPBACK}:{remoting_port}"],
            tokens=TOKENS,
            options=options,
            tls=ssl.create_default_context(cafile=node.login.authority_file),
        )
        self._node = node

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def memory_bytes(self) -> int:
        """Return the memory that is this process's own."""
        return private_bytes(self.process.pid)

    def steady(self) -> SteadyClient:
        """Return a client that produces through it."""
        create_topic(self._node.bootstrap, OWN, 1)
        return SteadyOverHttp(self._node.bootstrap, self.connection)

    def findings(self) -> list[str]:
        """Return what a process that survived everything in good order would not have said."""
        ended = [] if self.is_running else ["penstock http has ended"]
        return ended + [one for one in self.log().splitlines() if _BAD_LINE.search(one)][:10]


class SteadyOverHttp(SteadyClient):
    """The good client: a record as soon as the one before is answered, if it is due."""

    def __init__(self, bootstrap: str, connect: Callable[[], http.client.HTTPConnection]) -> None:
        super().__init__(bootstrap)
        self._connect = connect

    def run(self) -> None:
        """Write until it is to end; what fails is written again."""
        due, number = time.monotonic(), 0
        connection = self._connect()
        while not self.is_stopping.is_set():
            if number % FRESH == 0:
                connection.close()
            value = b"%d" % number
            while not self._is_written(connection, value) and not self.is_stopping.is_set():
                connection.close()
                time.sleep(RETRY_SECONDS)
            self.note(value, due)
            number += 1
            due += INTERVAL_SECONDS
            time.sleep(max(0.0, due - time.monotonic()))
        connection.close()

    def _is_written(self, connection: http.client.HTTPConnection, value: bytes) -> bool:
        body = json.dumps({"messages": [{"value": value.decode()}]})
        heads = {"Authorization": f"Bearer {GOODS}"}
        try:
            connection.request("POST", f"/v1/topics/{TOPIC}/messages", body, heads)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            return False
        return answer.status == http.HTTPStatus.OK


def _head(path: str, size: int, token: str = HOLDERS) -> bytes:
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}")
    return "\r\n".join((*lines, f"Content-Length: {size}", "", "")).encode()


def _saying(data: bytes, *, is_answered: bool) -> Callable[[Address], socket.socket]:
    def begin(address: Address) -> socket.socket:
        connection = shaken(address)
        connection.settimeout(ANSWER_SECONDS)
        connection.sendall(data)
        if is_answered and not connection.recv(1 << 16):
            raise ConnectionResetError("closed by the front")
        return connection

    return begin


def _crowded(begin: Callable[[Address], socket.socket], count: int = CROWD) -> Attack:
    return lambda aim: crowd(aim.http, begin, count)


def _refused(address: Address) -> None:
    """Send a whole body, whatever is answered before."""
    with shaken(address) as connection:
        connection.sendall(_head(PRODUCE, BODY_BYTES, "a-token-that-nobody-knows-0123"))
        connection.sendall(bytes(BODY_BYTES))
        while connection.recv(1 << 16):
            pass


def _denied(address: Address) -> None:
    host, port = address
    connection = http.client.HTTPSConnection(host, port, context=trusting(), timeout=ANSWER_SECONDS)
    with contextlib.closing(connection):
        for _ in range(DENIED):
            heads = {"Authorization": f"Bearer {HOLDERS}"}
            connection.request("POST", f"/v1/topics/{TOPIC}/messages", b"{}", heads)
            connection.getresponse().read()


_WAIT = json.dumps({"wait_seconds": 30}).encode()
_UNENDED = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "

CLOSED_HTTP: dict[str, Attack] = {
    "closed-http-silent": _crowded(shaken),
    "closed-http-hellos": _crowded(with_hello, HELLOS),
    "closed-http-heads": _crowded(_saying(_UNENDED + b"x" * HEAD_BYTES, is_answered=False)),
    "closed-http-wrong": lambda aim: again(aim.http, _refused),
    "closed-http-kept": _crowded(_saying(_head(PRODUCE, 2) + b"{}", is_answered=True), KEPT),
    "closed-http-bodies": _crowded(
        _saying(_head(PRODUCE, BODY_BYTES) + bytes(BODY_BYTES - 1), is_answered=False), BODIES
    ),
    "closed-http-waits": _crowded(
        _saying(_head(RECEIVE, len(_WAIT)) + _WAIT, is_answered=False), WAITS
    ),
    "closed-http-denied": lambda aim: again(aim.http, _denied),
}
