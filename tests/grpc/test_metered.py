"""Calls of gRPC clients count against quotas and in the audit."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.audit.row import RowKey
from penstock.broker.metering import Kind
from penstock.controller.commands.access.commands import AlterQuotas, QuotaChange
from penstock.grpc.call import Call, Method
from penstock.grpc.metadata import IDENTITY, CallHead
from penstock.grpc.transport import GrpcConnection
from penstock.quotas.entities import entity_of
from penstock.quotas.keys import QuotaKey
from tests.grpc.served import Caller, message, running_grpc_node
from tests.live_node import LiveNode

TOPIC = "orders"
OVER = 2_000_000
"""Twice what the quotas here permit in a second."""


@pytest.fixture
def place(tmp_path: Any) -> Iterator[tuple[LiveNode, Caller]]:
    overrides = (
        "broker.audit=true",
        "broker.auto_create_topics=true",
        "topic.max_message_bytes=8000000",
    )
    with running_grpc_node(tmp_path, *overrides) as (node, address):
        caller = Caller(address)
        route = caller.call("QueryRoute", _route())
        assert route.status.code == 20_000, route
        yield node, caller
        caller.close()


def _route() -> Any:
    from rocketmq.grpc_protocol import definition_pb2 as definition
    from rocketmq.grpc_protocol import service_pb2 as service

    return service.QueryRouteRequest(topic=definition.Resource(name=TOPIC))


@pytest.mark.parametrize(("bound", "told"), [(0.001, 42_900), (100.0, 20_000)])
def test_topics_of_routes_are_mutations(
    place: tuple[LiveNode, Caller], bound: float, told: int
) -> None:
    from rocketmq.grpc_protocol import definition_pb2 as definition
    from rocketmq.grpc_protocol import service_pb2 as service

    node, caller = place
    limit(node, QuotaKey.MUTATIONS, bound, user="ANONYMOUS")
    codes = [
        caller.call("QueryRoute", service.QueryRouteRequest(topic=definition.Resource(name=name)))
        for name in ("first", "second")
    ]
    assert [one.status.code for one in codes] == [20_000, told]


@pytest.fixture
def mutes(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """For how long connections were muted, in order."""
    told: list[int | None] = []
    mute = GrpcConnection.mute

    def noted(connection: GrpcConnection, delay_ms: int | None) -> None:
        told.append(delay_ms)
        mute(connection, delay_ms)

    monkeypatch.setattr(GrpcConnection, "mute", noted)
    return told


def limit(node: LiveNode, key: str, bound: float, **entity: str) -> None:
    whose = entity_of(entity.items())
    change = QuotaChange(entity=whose, values={key: bound})
    (outcome,) = node.submit(AlterQuotas(changes=(change,)))
    assert outcome.error is None


def rows(node: LiveNode) -> dict[RowKey, Any]:
    def take() -> dict[RowKey, Any]:
        audit = node.broker.audit
        assert audit is not None
        return audit.fold.take(0).rows

    return node.call(take)


@pytest.mark.parametrize("entity", [{"user": "ANONYMOUS"}, {"client-id": "test@1"}])
def test_a_send_over_the_quota_is_answered_and_then_nothing_is_read(mutes, place, entity) -> None:
    node, caller = place
    limit(node, "producer_byte_rate", OVER / 2, **entity)
    assert caller.send(message(TOPIC, b"x" * OVER)).status.code == 20_000
    first, second = mutes
    assert first is None
    assert second is not None
    assert 1_000 <= second <= 2_100
    throttled = node.call(lambda: node.broker.quota_table.throttled[QuotaKey.PRODUCE])
    assert throttled == 1
    assert caller.send(message(TOPIC, b"x")).status.code == 20_000


class Client:
    """A client that keeps when it was muted."""

    principal, host, client_id, software = "User:ANONYMOUS", "127.0.0.1", "", ("", "")
    buckets: Any = None

    def __init__(self, broker: Any) -> None:
        self.broker, self.mutes = broker, list[int | None]()

    def mute(self, delay_ms: int | None) -> None:
        self.mutes.append(delay_ms)


def test_a_call_that_its_client_gives_up_does_not_mute_for_ever(place) -> None:
    node, _ = place
    limit(node, "producer_byte_rate", 5.0, user="ANONYMOUS")

    def scenario() -> list[int | None]:
        client = Client(node.broker)
        method = Method("SendMessage", lambda call, message: None, Kind.SEND)
        head = CallHead("SendMessage", IDENTITY, None, "app", "JAVA", "5")
        unused: Any = None
        call = Call(unused, unused, head, method, client)  # type: ignore[arg-type]
        call.take(b"\0\0\0\0\x0a" + b"0123456789")
        call.take_end()
        assert client.mutes == [None]
        call.over()
        call.over()
        return client.mutes

    first, second = node.call(scenario)
    assert first is None
    assert second is not None
    assert second >= 2_000


def test_a_client_is_told_apart_by_what_each_call_says(mutes, place) -> None:
    node, caller = place
    limit(node, "producer_byte_rate", OVER / 2, **{"client-id": "other@2"})
    assert caller.send(message(TOPIC, b"x" * OVER)).status.code == 20_000
    assert mutes == []
    other = (("x-mq-client-id", "other@2"),)
    assert caller.send(message(TOPIC, b"x" * OVER), metadata=other).status.code == 20_000
    assert mutes[0] is None


def test_rows_tell_who_sent_what(place) -> None:
    node, caller = place
    rows(node)
    assert caller.send(message(TOPIC, b"hello"), message(TOPIC, b"you")).status.code == 20_000
    assert caller.send(message("absent", b"hello")).status.code != 20_000
    taken = rows(node)
    found = {key[1:]: counts for key, counts in taken.items()}
    ((_, part),) = [
        (key, counts) for key, counts in found.items() if key[:2] == ("sendmessage", TOPIC)
    ]
    assert (part.requests, part.records, part.bytes_in, part.errors) == (1, 2, 8, 0)
    own = found["sendmessage", "", -1]
    assert (own.requests, own.errors) == (2, 1)
    assert own.bytes_in > 8
    assert own.bytes_out > 0
    assert found["allowed write topic", TOPIC, -1].requests == 1
    (who,) = {key.who for key in taken if key.operation == "sendmessage"}
    assert who[:3] == ("User:ANONYMOUS", "test@1", "rocketmq-grpc-python")
