"""One connection against a peer that misbehaves, and what is parsed by hand against any bytes."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from aiokafka.partitioner import murmur2 as their_murmur2
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import ConfigError
from penstock.client.cluster import Cluster
from penstock.client.connection import Connection
from penstock.client.errors import (
    BrokerError,
    ClientError,
    ConnectionFailed,
    MalformedAnswer,
    RequestTimedOut,
    UnsupportedByBroker,
)
from penstock.client.fetch import parse_fetch
from penstock.client.groups import parse_assignment
from penstock.client.partitioner import murmur2, partition_for_key
from penstock.client.settings import ClientSettings, parse_bootstrap
from penstock.client.versions import CLIENT_VERSIONS, choose_version
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import decode_request, encode_request, encode_response
from penstock.protocol.schema import request_schema

Answer = Callable[[bytes], bytes | None]


class Peer:
    """Listens, and answers every frame with what a function says; None closes."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            self._serve_one(self._listener.accept()[0])

    def _serve_one(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while head := stream.read(4):
                reply = self._answer(stream.read(struct.unpack(">i", head)[0]))
                if reply is None:
                    return
                connection.sendall(reply)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)


@pytest.fixture
def peer() -> Iterator[Callable[[Answer], Peer]]:
    opened: list[Peer] = []

    def start(answer: Answer) -> Peer:
        opened.append(Peer(answer))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def connect(peer: Peer, **changed: Any) -> Connection:
    settings = replace(ClientSettings(bootstrap="unused", request_timeout_ms=2000), **changed)
    return Connection("127.0.0.1", peer.port, settings)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def api_versions(request: bytes, keys: Mapping[ApiKey, tuple[int, int]]) -> bytes:
    found = [{"api_key": k, "min_version": lo, "max_version": hi} for k, (lo, hi) in keys.items()]
    return frame(request[4:8] + encode_response(ApiKey.API_VERSIONS, 0, {"api_keys": found}))


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (lambda _: struct.pack(">i", -5), MalformedAnswer),
        (lambda _: struct.pack(">i", 3) + b"abc", MalformedAnswer),
        (lambda _: struct.pack(">i", 2**31 - 1), MalformedAnswer),
        (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", MalformedAnswer),
        (lambda request: frame(b"\0\0\0\7" + request[8:]), MalformedAnswer),
        (lambda request: frame(request[4:8] + b"\0\0\0\0\0\5"), MalformedAnswer),
        (lambda _: None, ConnectionFailed),
        (lambda _: b"", RequestTimedOut),
        (
            lambda request: frame(
                request[4:8] + encode_response(ApiKey.API_VERSIONS, 0, {"error_code": 35})
            ),
            BrokerError,
        ),
    ],
)
def test_peer_that_is_no_broker_gives_a_clear_error(
    peer: Callable[[Answer], Peer], reply: Answer, error: type[ClientError]
) -> None:
    # Only who never answers is waited for in vain; the others may be slow on a busy machine.
    timeout_ms = 100 if error is RequestTimedOut else 60_000
    with pytest.raises(error):
        connect(peer(reply), request_timeout_ms=timeout_ms)


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP, as the metrics port of a node does"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "it speaks TLS"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it speaks SSH"),
        (struct.pack(">i", 2**31 - 1), "a frame of 2147483647 bytes"),
    ],
)
def test_a_port_of_something_else_is_told_by_its_protocol(
    peer: Callable[[Answer], Peer], head: bytes, told: str
) -> None:
    with pytest.raises(MalformedAnswer, match=f"not the Kafka protocol: {told}$"):
        connect(peer(lambda _: head))


def test_answers_come_in_the_order_of_the_requests(peer: Callable[[Answer], Peer]) -> None:
    offered = {ApiKey.API_VERSIONS: (0, 0), ApiKey.LIST_GROUPS: (0, 2)}
    connection = connect(peer(lambda request: api_versions(request, offered)))
    body = encode_request(ApiKey.API_VERSIONS, 0, {})
    for _ in range(3):
        connection.send(ApiKey.API_VERSIONS, 0, body)
    assert connection.in_flight_count == 3
    for _ in range(3):
        connection.receive()
    assert connection.version(ApiKey.LIST_GROUPS) == 2
    with pytest.raises(UnsupportedByBroker, match="FETCH"):
        connection.version(ApiKey.FETCH)
    connection.close()


def test_newest_version_known_to_both_sides_is_used() -> None:
    low, high = CLIENT_VERSIONS[ApiKey.FETCH]
    assert choose_version(ApiKey.FETCH, {1: (0, 99)}) == high
    assert choose_version(ApiKey.FETCH, {1: (0, low)}) == low
    for offered in ((0, low - 1), (high + 1, 99)):
        with pytest.raises(UnsupportedByBroker):
            choose_version(ApiKey.FETCH, {1: offered})


def test_every_version_we_may_use_has_a_schema() -> None:
    for key, (low, high) in CLIENT_VERSIONS.items():
        for version in range(low, high + 1):
            assert request_schema(key, version)
            if key not in (ApiKey.PRODUCE, ApiKey.FETCH):
                body = memoryview(encode_request(key, version, {}))
                decode_request(key, version, body, 0)


def test_bootstrap_lists_are_parsed() -> None:
    assert parse_bootstrap("a:1, b ,[::1]:9,::1") == [
        ("a", 1), ("b", 9092), ("::1", 9), ("::1", 9092),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", ",", ":9092", "a:b", "a:0", "a:70000", "[::1]:x"])
def test_bad_bootstrap_is_refused_at_once(text: str) -> None:
    with pytest.raises(ConfigError, match="bootstrap"):
        Cluster(ClientSettings(bootstrap=text))


@given(st.binary(max_size=50))
def test_keys_hash_as_with_other_clients(key: bytes) -> None:
    assert murmur2(key) & 0x7FFFFFFF == their_murmur2(key) & 0x7FFFFFFF
    assert 0 <= partition_for_key(key, 7) < 7


FETCH_ANSWER = {
    "responses": [
        {
            "topic": "t",
            "partitions": [
                {"partition_index": 3, "high_watermark": 9, "records": b"abc"},
                {"partition_index": 4, "error_code": 1, "aborted_transactions": None},
            ],
        }
    ]
}


@pytest.mark.parametrize("version", range(4, 12))
def test_fetch_answers_of_all_our_versions_are_parsed(version: int) -> None:
    body = encode_response(ApiKey.FETCH, version, FETCH_ANSWER)
    first, second = parse_fetch(version, memoryview(body), 0)
    assert (first.topic, first.partition, first.high_watermark) == ("t", 3, 9)
    assert bytes(first.data) == b"abc"
    assert (second.partition, int(second.error), len(second.data)) == (4, 1, 0)
    for end in range(len(body)):
        with pytest.raises(MalformedAnswer):
            parse_fetch(version, memoryview(body)[:end], 0)


@given(st.integers(4, 11), st.binary(max_size=100))
def test_any_fetch_answer_is_parsed_or_malformed(version: int, data: bytes) -> None:
    with contextlib.suppress(MalformedAnswer, BrokerError):
        parse_fetch(version, memoryview(data), 0)


def test_assignment_of_a_member_is_read_where_it_is_one() -> None:
    data = struct.pack(">hih1siii", 1, 1, 1, b"t", 2, 0, 5) + struct.pack(">i", -1)
    assert parse_assignment(data) == (("t", 0), ("t", 5))
    assert parse_assignment(b"") == ()


@given(st.binary(max_size=60))
def test_any_assignment_gives_partitions_or_none(data: bytes) -> None:
    parse_assignment(data)
    parse_assignment(b"\0\1\x7f\xff\xff\xff" + data)
