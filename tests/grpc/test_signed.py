"""A port whose clients have to sign their calls by access keys, over TLS and without it."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service

import grpc
from harness.waiting import wait_until
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.grpc.signed import NOT_SIGNED
from penstock.grpc.transport import GrpcConnection
from penstock.http2.codes import PREFACE
from penstock.http2.frames import settings_frame
from penstock.net.errors import CloseKind
from tests.grpc.raw import RawCall
from tests.grpc.receiving import OK, Member, named
from tests.grpc.served import Caller, message, running_grpc_node
from tests.grpc.signing import Metadata, SignedCaller, signed
from tests.live_node import UNTIL_SECONDS, LiveNode
from tests.remoting.signing import SECRETS, keys_file

TOPIC = "topic"
UNAUTHORIZED, FORBIDDEN = definition.UNAUTHORIZED, definition.FORBIDDEN
ROUTE = service.QueryRouteRequest(topic=named(TOPIC))
SERVICE = "/apache.rocketmq.v2.MessagingService/"
UNARY = (
    "QueryRoute",
    "Heartbeat",
    "SendMessage",
    "QueryAssignment",
    "AckMessage",
    "EndTransaction",
    "RecallMessage",
)


OWN = (("grpc.use_local_subchannel_pool", 1),)
"""A connection of its own: channels to one address would share one."""


def settings(directory: Path, protocol: str) -> tuple[str, ...]:
    return (
        f"security.listener_security_protocol_map=grpc:{protocol}",
        f"security.remoting_access_keys_file={keys_file(directory)}",
        "security.connection_failed_authentication_delay_ms=0",
        "access.authorizer=acl",
        "access.super_users=User:alice",
    )


@contextmanager
def running(directory: Path, protocol: str, *more: str) -> Iterator[tuple[LiveNode, str]]:
    data = directory / "data"
    data.mkdir()
    with running_grpc_node(data, *settings(directory, protocol), *more) as (node, address):
        node.submit(CreateTopics(topics=(NewTopic(name=TOPIC, partition_count=1),)))
        yield node, address


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running(tmp_path_factory.mktemp("signed"), "SASL_PLAINTEXT") as served:
        yield served


@pytest.fixture
def node(served: tuple[LiveNode, str]) -> LiveNode:
    return served[0]


@pytest.fixture
def address(served: tuple[LiveNode, str]) -> str:
    return served[1]


@pytest.fixture
def alice(address: str) -> Iterator[SignedCaller]:
    with closing(SignedCaller(address, "alice")) as caller:
        yield caller


def ends(node: LiveNode, kind: CloseKind = CloseKind.AUTHENTICATION) -> int:
    listener = node.node._listener
    assert listener is not None
    return node.call(lambda: listener.stats.closed[kind])


def end_of(node: LiveNode) -> int:
    hosted = node.broker.partitions.find(TOPIC, 0)
    assert hosted is not None
    return node.call(lambda: hosted.log.log_end_offset)


def connections(node: LiveNode) -> list[GrpcConnection]:
    port = node.node._rocketmq.grpc
    assert port is not None
    return node.call(lambda: list(port.connections))


def held(node: LiveNode) -> int:
    port = node.node._rocketmq.grpc
    assert port is not None
    return node.call(lambda: port.streams)


def route(caller: Caller) -> int:
    return int(caller.call("QueryRoute", ROUTE).status.code)


def test_who_signs_is_a_user_to_the_rules(address: str, alice: SignedCaller) -> None:
    assert alice.send(message(TOPIC)).status.code == OK
    with closing(SignedCaller(address, "bob")) as bob:
        for _ in range(2):
            refused = bob.send(message(TOPIC)).status
            assert refused.code == FORBIDDEN
            assert refused.message != NOT_SIGNED


def test_streams_and_receives_are_of_the_user_who_signs(address: str, alice: SignedCaller) -> None:
    member = Member(alice)
    with member.settled() as told:
        assert told.status.code == OK
        assert member.receive(TOPIC, 0).code in {OK, definition.MESSAGE_NOT_FOUND}
    with closing(SignedCaller(address, "bob")) as bob:
        assert Member(bob).receive(TOPIC, 0).code == FORBIDDEN


def test_a_denial_is_told_with_the_user_who_was_denied(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(SignedCaller(address, "bob")) as bob:
        assert bob.send(message("not-his")).status.code == FORBIDDEN
    (told,) = [one.getMessage() for one in caplog.records if "not-his" in one.getMessage()]
    assert "principal='User:bob'" in told


OLD = timedelta(hours=14)
WRONG: dict[str, Metadata] = {
    "nothing": (),
    "a date alone": signed("alice", SECRETS["alice"])[:1],
    "a signature alone": signed("alice", SECRETS["alice"])[1:],
    "another's secret": signed("alice", SECRETS["bob"]),
    "nobody": signed("nobody", SECRETS["alice"]),
    "an old date": signed("alice", SECRETS["alice"], OLD),
    "a date to come": signed("alice", SECRETS["alice"], -timedelta(hours=16)),
}


class Wrong(SignedCaller):
    """A client of which one call is not signed as it has to be."""

    wrong: Metadata | None = None

    def proof(self) -> Metadata:
        return super().proof() if self.wrong is None else self.wrong


@pytest.mark.parametrize("what", WRONG)
def test_what_is_not_signed_as_it_has_to_be_is_refused(
    node: LiveNode, address: str, what: str
) -> None:
    before = end_of(node)
    with closing(Wrong(address, "alice", options=OWN)) as caller:
        for wrong in (WRONG[what], None, WRONG[what]):
            caller.wrong = wrong
            told = caller.send(message(TOPIC)).status
            if wrong is None:
                assert told.code == OK
            else:
                assert (told.code, told.message) == (UNAUTHORIZED, NOT_SIGNED)
    assert end_of(node) == before + 1


@pytest.mark.parametrize("method", [*UNARY, "ReceiveMessage", "Telemetry", "NoSuchMethod"])
def test_no_method_is_served_unsigned(address: str, method: str) -> None:
    with closing(Caller(address, options=OWN)) as caller:
        answer = service.QueryRouteResponse.FromString(caller.raw(f"{SERVICE}{method}", b""))
        assert (answer.status.code, answer.status.message) == (UNAUTHORIZED, NOT_SIGNED)


def test_users_of_one_connection_are_told_apart(
    node: LiveNode, address: str, alice: SignedCaller
) -> None:
    """Clients of one process share a connection, unless they ask for one of their own."""
    with closing(SignedCaller(address, "bob")) as bob, closing(Caller(address)) as nobody:
        for _ in range(3):
            assert alice.send(message(TOPIC)).status.code == OK
            assert bob.send(message(TOPIC)).status.code == FORBIDDEN
            assert nobody.send(message(TOPIC)).status.code == UNAUTHORIZED
        (shared,) = [one for one in connections(node) if len(one._clients) > 1]
        clients = node.call(lambda: dict(shared._clients))
        assert clients.keys() == {"User:alice", "User:bob"}
        assert {name: one.principal for name, one in clients.items()} == {
            name: name for name in clients
        }


def test_too_many_failures_end_a_connection(node: LiveNode, address: str) -> None:
    closed = ends(node)
    with closing(Caller(address, options=OWN)) as caller:
        for _ in range(1_000):
            with suppress(grpc.RpcError):  # what comes as it ends
                assert caller.send(message(TOPIC)).status.code == UNAUTHORIZED
            if ends(node) > closed:
                return
    pytest.fail("a thousand failures, and nothing ends")


def test_a_refused_call_keeps_nothing_of_its_message(node: LiveNode, address: str) -> None:
    """Its client takes no answer, and sends its message all the same."""
    with closing(RawCall(address, window=0)) as raw:
        raw.begin(f"{SERVICE}SendMessage", b"\0\0\0\xff\xff" + bytes(30_000))
        assert wait_until(lambda: held(node) == 1, UNTIL_SECONDS), "its answer waits"
        (connection,) = connections(node)
        assert wait_until(lambda: connection.core.held_bytes < 1_000, UNTIL_SECONDS)
    assert ends(node, CloseKind.HANDLER_FAILED) == 0


def test_keys_change_while_clients_are_connected(tmp_path: Path) -> None:
    new, old = "a second secret of hers", SECRETS["alice"]
    with running(tmp_path, "SASL_PLAINTEXT") as (node, address):

        def is_let_in(secret: str) -> bool:
            with closing(SignedCaller(address, "alice", secret, options=OWN)) as other:
                return route(other) == OK

        with (
            closing(SignedCaller(address, "alice", options=OWN)) as caller,
            closing(SignedCaller(address, "bob", options=OWN)) as bob,
        ):
            assert not is_let_in(new)
            with Member(caller).settled():
                keys_file(tmp_path, f"alice:{old}\nalice:{new}\nbob:{SECRETS['bob']}\n")
                assert wait_until(lambda: is_let_in(new), UNTIL_SECONDS)
                assert is_let_in(old)
                assert route(bob) == FORBIDDEN
                (stream,) = [one for one in connections(node) if one.core.streams]
                keys_file(tmp_path, f"alice:{new}\nbob:{SECRETS['bob']}\n")
                # Nothing is said on it: the end of its secret ends it, and the stream with it.
                assert wait_until(lambda: stream not in connections(node), UNTIL_SECONDS)
            assert not is_let_in(old)
            assert is_let_in(new)


def test_who_says_nothing_is_ended(tmp_path: Path) -> None:
    with running(tmp_path, "SASL_PLAINTEXT", "net.unproven_seconds_max=1") as (node, address):
        host, port = address.split(":")
        with closing(SignedCaller(address, "alice")) as caller:
            assert route(caller) == OK
            with socket.create_connection((host, int(port)), timeout=UNTIL_SECONDS) as opened:
                opened.sendall(PREFACE + settings_frame(()))
                with suppress(ConnectionError):
                    while opened.recv(1_000):
                        pass
            assert route(caller) == OK
            assert ends(node) == 1
