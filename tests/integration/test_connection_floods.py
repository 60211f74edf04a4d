"""A real node with TLS and SASL: a stock client beside attackers that never prove who they are."""

import contextlib
import json
import shutil
import socket
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.bad_input.floods import SASL_BEGUN, repeating
from harness.node import NodeProcess, is_ready
from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.access.certificates import Authority

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]
OPS = "OPS"
PLACES = 120
CROWD = 3 * PLACES
SOURCES = 40
TOPIC = "unharmed"
Settings = dict[str, str | int | float | bool]
Attack = Callable[[socket.socket], socket.socket]


class Secured(NamedTuple):
    """A node with SASL_SSL at both of its ports, and what clients need to know."""

    node: NodeProcess
    ops_port: int
    authority: str

    def client(self, port: int) -> Settings:
        return {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.authority,
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "a long enough word",
        }


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.issue("server", "/CN=server")
    users = tmp_path / "users"
    users.write_text("alice:a long enough word\n")
    users.chmod(0o600)
    ops_port = free_port()
    settings: dict[str, dict[str, object]] = {
        "node": {"listeners": [f"{OPS}://127.0.0.1:{ops_port}"]},
        "security": {
            "listener_security_protocol_map": ["kafka:SASL_SSL", f"{OPS}:SASL_SSL"],
            "sasl_enabled_mechanisms": ["PLAIN"],
            "sasl_plain_users_file": str(users),
            "ssl_certificate_file": certificate,
            "ssl_key_file": key,
        },
        "net": {"connections_max": PLACES, "protected_listener": OPS},
    }
    node = NodeProcess(tmp_path / "node", settings=settings)
    try:
        node.launch()
        told = Secured(node, ops_port, authority.file)
        assert wait_until(lambda: is_ready(node.metrics_port), UNTIL_SECONDS), node.log_tail()
        create_topic(told)
        yield told
    finally:
        node.stop()


def create_topic(secured: Secured) -> None:
    admin = AdminClient(secured.client(secured.node.port))
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(UNTIL_SECONDS)


def metric(secured: Secured, name: str) -> float | None:
    """Return the sum of a metric's series; None while the page is not there, or has none."""
    url = f"http://127.0.0.1:{secured.node.metrics_port}/metrics"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return None
    found = [
        line.rpartition(" ")[2] for line in lines if line.startswith((f"{name}{{", f"{name} "))
    ]
    return sum(map(float, found)) if found else None


@cache
def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def silent(opened: socket.socket) -> socket.socket:
    """Say nothing at all."""
    return opened


def half_a_hello(opened: socket.socket) -> socket.socket:
    """Begin the first record of TLS."""
    opened.sendall(b"\x16\x03\x01\x02\x00\x01")
    return opened


def whole_hello(opened: socket.socket) -> socket.socket:
    """Have the node sign, and go no further."""
    outgoing = ssl.MemoryBIO()
    client = trusting().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    opened.sendall(outgoing.read())
    return opened


def sasl_begun(opened: socket.socket) -> socket.socket:
    """Shake hands, choose a mechanism, and prove nothing."""
    opened.settimeout(5)
    behind = trusting().wrap_socket(opened)
    behind.sendall(SASL_BEGUN)
    return behind


@contextlib.contextmanager
def crowd(port: int, attack: Attack) -> Iterator[None]:
    """Hold CROWD connections from many addresses, each made anew in its turn."""
    held: list[socket.socket] = []
    is_full = threading.Event()
    number = 0

    def once(wait: Callable[[float], bool]) -> None:
        nonlocal number
        number += 1
        with contextlib.suppress(OSError):
            source = (f"127.0.1.{1 + number % SOURCES}", 0)
            held.append(attack(socket.create_connection(("127.0.0.1", port), 5, source)))
        if number >= CROWD:
            is_full.set()
        if len(held) > CROWD:
            held.pop(0).close()
        wait(0.002)

    try:
        with repeating(once):
            assert is_full.wait(UNTIL_SECONDS)
            yield
    finally:
        for connection in held:
            connection.close()


def writes(settings: Settings, count: int) -> None:
    """Write records as a client that has just come."""
    failures: list[object] = []
    producer = Producer(settings)
    for number in range(count):
        producer.produce(TOPIC, b"%d" % number, on_delivery=lambda why, _: failures.append(why))
    assert producer.flush(UNTIL_SECONDS) == 0
    assert failures == [None] * count


def reads(settings: Settings, count: int) -> list[bytes | None]:
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([TOPIC])
        values: list[bytes | None] = []

        def has_read() -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                values.append(message.value())
            return len(values) >= count

        assert wait_until(has_read, UNTIL_SECONDS)
        return values
    finally:
        consumer.close()


@pytest.mark.parametrize("attack", [silent, half_a_hello, whole_hello, sasl_begun])
def test_stock_clients_and_operators_get_in_beside_a_crowd(
    secured: Secured, attack: Attack
) -> None:
    """The crowd filled every place for ten to thirty seconds, and came again."""
    client, operator = secured.client(secured.node.port), secured.client(secured.ops_port)
    with crowd(secured.node.port, attack):
        writes(client, 20)
        assert TOPIC in AdminClient(operator).list_topics(timeout=UNTIL_SECONDS).topics
        assert sorted(reads(client, 20)) == sorted(b"%d" % number for number in range(20))  # type: ignore[type-var]
        gave_way = metric(secured, "penstock_listener_connections_gave_way_total")
        assert gave_way is not None
        assert gave_way > PLACES
        assert not metric(secured, "penstock_listener_connections_refused_total")
    open_now = "penstock_listener_connections"
    assert wait_until(lambda: (metric(secured, open_now) or 0) < PLACES // 4, UNTIL_SECONDS)


@pytest.mark.parametrize("attack", [whole_hello, sasl_begun])
def test_a_crowd_does_not_end_who_was_there_before(secured: Secured, attack: Attack) -> None:
    told: list[str] = []
    settings = secured.client(secured.node.port) | {"statistics.interval.ms": 100}
    producer = Producer(settings | {"stats_cb": told.append})

    def write() -> None:
        producer.produce(TOPIC, b"x")
        assert producer.flush(UNTIL_SECONDS) == 0

    write()
    with crowd(secured.node.port, attack):
        told.clear()
        for _ in range(20):
            write()
        assert wait_until(lambda: producer.poll(0.05) or told, UNTIL_SECONDS)
    brokers = json.loads(told[-1])["brokers"].values()
    assert sum(broker["connects"] for broker in brokers) > 0
    assert sum(broker["disconnects"] for broker in brokers) == 0
    assert metric(secured, "penstock_listener_connections_gave_way_total")
