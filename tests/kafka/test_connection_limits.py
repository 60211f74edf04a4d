"""Limits of connections at a whole node: floods, operators, and changes while it runs."""

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from harness.bad_input.floods import half_open
from harness.ports import free_port
from penstock.net.errors import CloseKind, YieldKind
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.kafka.test_resource_configs import BROKER, DELETE, SET, alter, describe
from tests.live_node import LiveNode, RawClient, running_node

PLACES = 40
FLOOD = 3 * PLACES
OPS = "OPS"
EVERYBODY: dict[str, list[str]] = {"topics": []}


def secured(directory: Path, *more: str) -> tuple[str, ...]:
    """Two listeners with SASL; that for operators is protected."""
    users = directory / "users"
    users.write_text("alice:pa\n")
    users.chmod(0o600)
    return (
        f"node.listeners={OPS}://127.0.0.1:{free_port()}",
        f"security.listener_security_protocol_map=kafka:SASL_PLAINTEXT,{OPS}:SASL_PLAINTEXT",
        "security.sasl_enabled_mechanisms=PLAIN",
        f"security.sasl_plain_users_file={users}",
        "security.sasl_plain_without_tls=true",
        "net.first_frame_seconds_max=0",
        f"net.connections_max={PLACES}",
        *more,
    )


@contextlib.contextmanager
def secured_node(directory: Path, *more: str) -> Iterator[LiveNode]:
    (directory / "data").mkdir()
    settings = secured(directory, f"net.protected_listener={OPS}", *more)
    with running_node(directory / "data", *settings) as node:
        yield node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    with secured_node(tmp_path) as node:
        yield node


def ports(node: LiveNode) -> dict[str, int]:
    listener = node.node._listener
    assert listener is not None
    return node.call(lambda: listener.ports)


def stats(node: LiveNode) -> Any:
    assert node.node._listener is not None
    return node.node._listener.stats


def proved(port: int) -> RawClient:
    """A client that has said who it is."""
    client = RawClient(port)
    assert client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}).error_code == Code.NONE
    answer = client.ask(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0alice\0pa"})
    assert answer.error_code == Code.NONE
    return client


def is_served(client: RawClient) -> bool:
    client.send(ApiKey.METADATA, 4, EVERYBODY)
    return not client.is_closed_by_node()


def test_half_open_sasl_fills_no_place_that_others_need(node: LiveNode) -> None:
    """They held every place for half a minute, and for as long as somebody came again."""
    with half_open(("127.0.0.1", node.port), FLOOD):
        for port in (node.port, ports(node)[OPS], node.port):
            with closing(proved(port)) as client:
                assert is_served(client)
        gave_way = node.call(lambda: dict(stats(node).gave_way_at))
    assert gave_way["kafka", YieldKind.UNPROVEN_FROM_ADDRESS] >= FLOOD - PLACES
    assert {listener for listener, _ in gave_way} == {"kafka"}
    assert node.call(lambda: stats(node).refused) == {}


def test_a_client_that_is_known_stays_through_a_flood(node: LiveNode) -> None:
    with closing(proved(node.port)) as client:
        with half_open(("127.0.0.1", node.port), FLOOD):
            assert is_served(client)
        assert is_served(client)


def test_an_operator_gets_in_where_known_clients_hold_every_place(node: LiveNode) -> None:
    with ExitStack() as stack:
        others = [stack.enter_context(closing(proved(node.port))) for _ in range(PLACES - 10)]
        late = stack.enter_context(closing(RawClient(node.port)))
        assert not is_served(late), "ten places are kept for operators"
        operators = [
            stack.enter_context(closing(proved(ports(node)[OPS]))) for _ in range(PLACES // 4 + 2)
        ]
        assert all(is_served(operator) for operator in operators)
        assert [is_served(one) for one in others].count(False) == 2
        gave_way = node.call(lambda: dict(stats(node).gave_way_at))
    assert gave_way == {("kafka", YieldKind.IDLE): 2}


def test_who_does_not_prove_it_in_time_is_ended(tmp_path: Path) -> None:
    with (
        secured_node(tmp_path, "net.unproven_seconds_max=1") as node,
        closing(RawClient(node.port)) as silent,
        closing(RawClient(node.port)) as slow,
        closing(proved(node.port)) as known,
    ):
        slow.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        assert silent.is_closed_by_node()
        assert slow.is_closed_by_node()
        assert is_served(known)
        assert node.call(lambda: stats(node).closed) == {CloseKind.AUTHENTICATION: 2}


def test_who_has_longer_than_half_a_minute_is_not_ended_before(tmp_path: Path) -> None:
    """SASL had half a minute of its own, whatever the setting was."""
    with (
        secured_node(tmp_path, "net.unproven_seconds_max=60") as node,
        closing(RawClient(node.port)) as slow,
    ):
        listener = node.node._listener
        assert listener is not None
        slow.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        for _ in range(40):
            node.call(listener.sweep)
        answer = slow.ask(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0alice\0pa"})
        assert answer.error_code == Code.NONE


def test_stock_clients_work_beside_a_flood(node: LiveNode) -> None:
    with closing(proved(ports(node)[OPS])) as creator:
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": []}
        fields = {"topics": [topic | {"assignments": []}], "timeout_ms": 5000}
        assert creator.ask(ApiKey.CREATE_TOPICS, 7, fields).topics[0].error_code == Code.NONE
    settings = {
        "bootstrap.servers": f"127.0.0.1:{node.port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "pa",
    }
    failures: list[object] = []
    with half_open(("127.0.0.1", node.port), FLOOD):
        producer = Producer(settings)
        for number in range(50):
            producer.produce("t", b"%d" % number, on_delivery=lambda why, _: failures.append(why))
        assert producer.flush(60) == 0
        assert failures == [None] * 50
        operator: dict[str, str | int | float | bool] = {
            **settings,
            "bootstrap.servers": f"127.0.0.1:{ports(node)[OPS]}",
        }
        assert "t" in AdminClient(operator).list_topics(timeout=60).topics


# --- changes while the node runs -----------------------------------------------------------------


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[LiveNode]:
    with running_node(tmp_path, f"node.listeners=OUT://127.0.0.1:{free_port()}") as node:
        yield node


def test_a_listener_gets_a_limit_and_loses_it_while_the_node_runs(plain: LiveNode) -> None:
    key, out = "listener.name.out.max.connections", ports(plain)["OUT"]
    with ExitStack() as stack:
        client = stack.enter_context(closing(plain.connect()))
        assert alter(client, BROKER, "1", (key, SET, "1")).error_code == Code.NONE
        told = describe(client, BROKER, "1")[key]
        assert (told.value, told.config_source, told.read_only) == ("1", 2, False)
        assert is_served(stack.enter_context(closing(RawClient(out))))
        assert not is_served(stack.enter_context(closing(RawClient(out))))
        assert is_served(stack.enter_context(closing(plain.connect()))), "the other has no limit"
        assert alter(client, BROKER, "1", (key, DELETE, None)).error_code == Code.NONE
        assert key not in describe(client, BROKER, "1")
        assert is_served(stack.enter_context(closing(RawClient(out))))


def test_a_limit_for_all_brokers_is_shown_as_one(plain: LiveNode) -> None:
    key = "listener.name.out.max.connection.creation.rate"
    with closing(plain.connect()) as client:
        assert alter(client, BROKER, "", (key, SET, "77")).error_code == Code.NONE
        assert describe(client, BROKER, "")[key].value == "77"
        assert describe(client, BROKER, "1")[key].config_source == 3
        limits = plain.call(lambda: plain.node._listener.limits)  # type: ignore[union-attr]
        assert limits.of_listener("OUT").connection_rate_max == 77


def test_addresses_get_limits_of_their_own_while_the_node_runs(plain: LiveNode) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(closing(plain.connect()))
        edits = (
            ("max.connections.per.ip", SET, "1"),
            ("max.connections.per.ip.overrides", SET, "127.0.0.1:2,10.0.0.1:7"),
        )
        assert alter(client, BROKER, "1", *edits).error_code == Code.NONE
        assert is_served(stack.enter_context(closing(plain.connect())))
        assert not is_served(stack.enter_context(closing(plain.connect())))
        told = describe(client, BROKER, "1")["max.connections.per.ip.overrides"]
        assert told.value == "127.0.0.1:2,10.0.0.1:7"


def test_a_rate_makes_connections_wait_while_the_node_runs(plain: LiveNode) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(closing(plain.connect()))
        edit = ("max.connection.creation.rate", SET, "5")
        assert alter(client, BROKER, "1", edit).error_code == Code.NONE
        crowd = [stack.enter_context(closing(plain.connect())) for _ in range(8)]
        assert all(is_served(one) for one in crowd)
        waits = plain.call(lambda: dict(stats(plain).waits_at))
        assert waits["kafka", "too_fast"] > 0
        assert plain.call(lambda: stats(plain).refused) == {}


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("listener.name.out.max.connections", "0", Code.INVALID_CONFIG),
        ("listener.name.OUT.max.connections", "5", Code.INVALID_CONFIG),
        ("listener.name.out.max.connections.per.ip", "5", Code.INVALID_CONFIG),
        ("max.connections.per.ip.overrides", "host:5", Code.INVALID_CONFIG),
        ("max.connections.per.ip.overrides", "10.0.0.1:-5", Code.INVALID_CONFIG),
        ("max.connection.creation.rate", "0", Code.INVALID_CONFIG),
        ("net.listeners", "OUT.connections_max=1", Code.INVALID_REQUEST),
        ("net.protected_listener", "OUT", Code.INVALID_REQUEST),
    ],
)
def test_what_is_no_limit_is_refused(plain: LiveNode, key: str, value: str, code: Code) -> None:
    with closing(plain.connect()) as client:
        assert alter(client, BROKER, "1", (key, SET, value)).error_code == code


def test_a_limit_of_a_listener_that_is_not_there_is_left_out_and_said(
    plain: LiveNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING")
    with closing(plain.connect()) as client:
        edit = ("listener.name.gone.max.connections", SET, "1")
        assert alter(client, BROKER, "", edit).error_code == Code.NONE
        assert is_served(client)
    assert any("gone" in line and "left out" in line for line in caplog.messages)
