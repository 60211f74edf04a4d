"""Requests that are wrong in every way: refused with a reason, no 500, no traceback."""

import json
import random
import socket
from contextlib import closing, suppress
from typing import Any

import pytest

from harness.http_front import TOKEN, HttpProcess
from harness.waiting import UNTIL_SECONDS, wait_until

pytestmark = pytest.mark.process
ROUNDS = 300
SEED = 167
GROUP = "groups/g"
PATHS = ("messages", f"{GROUP}/receive", f"{GROUP}/ack", f"{GROUP}/release", f"{GROUP}/renew",
         f"{GROUP}/reject")  # fmt: skip
GOOD: dict[str, Any] = {
    "messages": [{"value": "a", "key": "k", "headers": {"h": "1"}, "delay_level": 0}],
    "max": 3,
    "wait_seconds": 0,
    "invisible_seconds": 1,
    "tags": "a || b",
    "begin": "start",
    "receipts": ["MTA5OTUxMTYyNzc3NiAwIDE3OTYwMTUzMTYwOTQgMzAwMDAgMjA3NDkwMjM0MCAwIHNldC0xIDEgMA"],
    "after_seconds": 0,
}
VALUES: tuple[Any, ...] = (None, True, 0, -1, 1e308, 2**63, 2**200, "", "x", "\u0000", "\ud800",
          "é" * 300,
          [], {}, [[]], [None], {"": ""}, ["x"] * 2000, "x" * 70_000, [{}], 0.5)  # fmt: skip


def fields_of(path: str) -> tuple[str, ...]:
    if path == "messages":
        return ("messages",)
    if path.endswith("receive"):
        return ("max", "wait_seconds", "invisible_seconds", "tags", "begin")
    return ("receipts", "after_seconds", "invisible_seconds")


def bad_body(rng: random.Random, path: str) -> bytes:
    """Return a body with something wrong in it, mostly."""
    document: Any = {name: GOOD[name] for name in fields_of(path) if rng.random() < 0.8}
    kind = rng.randrange(5)
    if kind == 0:
        document = rng.choice(VALUES)
    elif kind == 1 and document:
        document[rng.choice(list(document))] = rng.choice(VALUES)
    elif kind == 2 and path == "messages":
        name = rng.choice(("value", "value_base64", "key", "id", "tag", "keys", "headers", "x"))
        document = {"messages": [{"value": "a", name: rng.choice(VALUES)}]}
    data = bytearray(json.dumps(document).encode())
    if kind == 3:
        for _ in range(rng.randrange(1, 5)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 4:
        data = data[: rng.randrange(len(data) + 1)] + b"[" * rng.choice((0, 1, 5000))
    return bytes(data)


def check(status: int, media: str, body: bytes, sent: object) -> None:
    assert status < 500 or status == 503, (status, body, sent)
    if status >= 400 and media == "application/problem+json":
        told = json.loads(body)
        assert told["status"] == status
        assert told["do"], told


def test_bodies_that_are_wrong_are_refused(front: HttpProcess, topic: str) -> None:
    rng = random.Random(SEED)
    statuses: set[int] = set()
    with closing(front.connection()) as connection:
        for _ in range(ROUNDS):
            path, name = rng.choice(PATHS), topic if rng.random() < 0.9 else "nowhere"
            body = bad_body(rng, path)
            told = {"Authorization": f"Bearer {TOKEN}"}
            connection.request("POST", f"/v1/topics/{name}/{path}", body=body, headers=told)
            got = connection.getresponse()
            statuses.add(got.status)
            check(got.status, got.getheader("content-type") or "", got.read(), (path, body))
    assert {200, 400} <= statuses
    assert "Traceback" not in front.log()
    assert front.ask("GET", "/health").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/", "//", "/v1", "/v1/topics", "/v1/topics//messages", "/v1/topics/%/messages",
        "/v1/topics/%ff/messages", "/v1/topics/%00/messages", "/v1/topics/a%2fb/messages",
        "/v1/topics/../messages", "/v1/topics/%C3%A9/messages",
        "/v1/topics/" + "x" * 300 + "/messages",
        "/v1/topics/__share_state/messages", "/v1/topics/t/groups//receive",
        "/v1/topics/t/groups/%0a/receive", "/v1/topics/t/groups/" + "g" * 249 + "/receive",
        "/metrics/", "/health?" + "&".join(f"a{n}=1" for n in range(100)), "*",
    ],
)  # fmt: skip
def test_paths_that_are_wrong_are_refused(front: HttpProcess, path: str) -> None:
    for method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "FOO"):
        answer = front.ask(method, path, b"{}" if method == "POST" else None)
        assert answer.status < 500, (method, answer)
        assert answer.status >= 400 or path.startswith("/health"), (method, answer)
    assert "Traceback" not in front.log()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\r\n\r\n\r\n\r\n",
        b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        bytes(1000),
    ],
)
def test_what_is_no_http_is_refused_or_ended(front: HttpProcess, sent: bytes) -> None:
    with front.raw() as raw:
        raw.sendall(sent)
        raw.shutdown(socket.SHUT_WR)
        data = b""
        while part := raw.recv(65536):
            data += part
    assert data.count(b"HTTP/1.1 5") == 0, data
    assert "Traceback" not in front.log()
    assert front.ask("GET", "/health").status == 200


def test_floods_of_noise_leave_it_well(front: HttpProcess) -> None:
    rng = random.Random(SEED)
    for _ in range(200):
        with front.raw() as raw, suppress(OSError):
            raw.sendall(rng.randbytes(rng.randrange(1, 4000)))
            raw.shutdown(socket.SHUT_WR)
            raw.recv(1)
    assert wait_until(lambda: front.metric("penstock_http_held_bytes") == 0, UNTIL_SECONDS)
    assert "Traceback" not in front.log()
    assert front.ask("GET", "/health").status == 200
