"""A port whose clients have to sign their requests by access keys."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import wait_until
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.net.errors import CloseKind
from penstock.remoting.handlers.pull import MAY_WAIT
from penstock.remoting.signed import NOT_SIGNED, SIGNED_BYTES_MAX
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import ANSWER, ONE_WAY, Command, Serialisation
from penstock.remoting.wire.frame import encode_frame
from tests.access.certificates import Authority
from tests.live_node import UNTIL_SECONDS, LiveNode
from tests.remoting.served import Remote, pull, pulled, running_remoting_node, sent
from tests.remoting.signing import SECRETS, SignedRemote, keys_file, signed

SEND, CLUSTER = RequestCode.SEND_MESSAGE_V2, RequestCode.GET_BROKER_CLUSTER_INFO
TOPIC = "topic"


def settings(directory: Path, protocol: str) -> tuple[str, ...]:
    return (
        f"security.listener_security_protocol_map=remoting:{protocol}",
        f"security.remoting_access_keys_file={keys_file(directory)}",
        "security.connection_failed_authentication_delay_ms=0",
        "access.authorizer=acl",
        "access.super_users=User:alice",
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    directory = tmp_path_factory.mktemp("signed")
    data = directory / "data"
    data.mkdir()
    with running_remoting_node(data, *settings(directory, "SASL_PLAINTEXT")) as (node, address):
        node.submit(CreateTopics(topics=(NewTopic(name=TOPIC, partition_count=1),)))
        yield node, address


@pytest.fixture
def node(served: tuple[LiveNode, str]) -> LiveNode:
    return served[0]


@pytest.fixture
def address(served: tuple[LiveNode, str]) -> str:
    return served[1]


def ends(node: LiveNode, kind: CloseKind = CloseKind.AUTHENTICATION) -> int:
    listener = node.node._listener
    assert listener is not None
    return node.call(lambda: listener.stats.closed[kind])


def end_of(node: LiveNode, topic: str = TOPIC) -> int:
    hosted = node.broker.partitions.find(topic, 0)
    assert hosted is not None
    return node.call(lambda: hosted.log.log_end_offset)


@pytest.mark.parametrize("serialisation", Serialisation)
def test_who_signs_is_a_user_to_the_rules(address: str, serialisation: Serialisation) -> None:
    with (
        closing(SignedRemote(address, "alice", serialisation=serialisation)) as alice,
        closing(SignedRemote(address, "bob", serialisation=serialisation)) as bob,
    ):
        assert alice.ask(SEND, sent(TOPIC), b"body").code == ResponseCode.SUCCESS
        assert pull(alice, TOPIC)[-1].body == b"body"
        for _ in range(2):
            refused = bob.ask(SEND, sent(TOPIC), b"body")
            assert refused.code == ResponseCode.NO_PERMISSION
            assert refused.remark != NOT_SIGNED


def without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda fields: {key: value for key, value in fields.items() if key != name}


@pytest.mark.parametrize(
    "changed",
    [
        without("Signature"),
        without("AccessKey"),
        lambda fields: fields | {"AccessKey": "bob"},
        lambda fields: fields | {"AccessKey": "nobody"},
        lambda fields: fields | {"Signature": fields["Signature"].lower()},
        lambda fields: fields | {"Signature": ""},
        lambda fields: fields | {"b": "other"},
        lambda fields: fields | {"added": "x"},
        lambda fields: signed(sent(TOPIC), b"body", "alice", SECRETS["bob"]),
        lambda fields: signed(sent(TOPIC), b"another", "alice", SECRETS["alice"]),
        lambda fields: {},
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_what_is_not_signed_as_it_has_to_be_is_refused_and_ends_its_connection(
    node: LiveNode,
    address: str,
    changed: Callable[[dict[str, Any]], dict[str, Any]],
    is_first: bool,
) -> None:
    before, closed = end_of(node), ends(node)
    with closing(SignedRemote(address, "alice")) as client:
        if not is_first:
            assert client.ask(CLUSTER, {}).code == ResponseCode.SUCCESS
        client.user = ""
        fields = signed(sent(TOPIC), b"body", "alice", SECRETS["alice"])
        refused = client.ask(SEND, changed(fields), b"body")
        assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, NOT_SIGNED)
        assert client.is_closed()
    assert wait_until(lambda: ends(node) == closed + 1, UNTIL_SECONDS)
    assert end_of(node) == before


def test_what_comes_behind_a_refusal_is_dropped(node: LiveNode, address: str) -> None:
    before = end_of(node)
    good = signed(sent(TOPIC), b"body", "alice", SECRETS["alice"])
    frames = [
        encode_frame(Command(code=SEND, fields=fields, body=b"body", flag=flag))
        for flag in (ONE_WAY, 0)
        for fields in (sent_texts(), {name: str(value) for name, value in good.items()})
    ]
    with closing(Remote(address)) as client:
        client.socket.sendall(b"".join(frames))
        assert client.is_closed(), "a one-way request has no answer"
    assert end_of(node) == before


def sent_texts() -> dict[str, str]:
    return {name: str(value) for name, value in sent(TOPIC).items()}


def test_a_connection_has_one_user(address: str) -> None:
    with closing(SignedRemote(address, "bob")) as client:
        assert client.ask(CLUSTER, {}).remark != NOT_SIGNED
        client.user, client.secret = "alice", SECRETS["alice"]
        assert client.ask(CLUSTER, {}).remark == NOT_SIGNED
        assert client.is_closed()


def test_an_unknown_code_is_signed_as_well(address: str) -> None:
    with closing(SignedRemote(address, "alice")) as client:
        assert client.ask(999, {}).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    with closing(Remote(address)) as client:
        assert client.ask(999, {}).remark == NOT_SIGNED


def test_what_looks_like_an_answer_proves_nothing(address: str) -> None:
    with closing(Remote(address)) as client:
        client.socket.sendall(encode_frame(Command(code=0, flag=ANSWER)))
        assert client.ask(CLUSTER, {}).remark == NOT_SIGNED


def test_a_frame_that_would_hold_the_loop_is_not_read(node: LiveNode, address: str) -> None:
    closed = ends(node, CloseKind.FRAME_TOO_LARGE)
    with closing(Remote(address)) as client:
        size = SIGNED_BYTES_MAX + 1
        with suppress(ConnectionError):
            client.socket.sendall(size.to_bytes(4) + bytes(size))
    assert wait_until(lambda: ends(node, CloseKind.FRAME_TOO_LARGE) == closed + 1, UNTIL_SECONDS)


def test_keys_change_while_clients_are_connected(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with running_remoting_node(data, *settings(tmp_path, "SASL_PLAINTEXT")) as (_, address):

        def is_let_in(secret: str) -> bool:
            with closing(SignedRemote(address, "alice", secret)) as other:
                return other.ask(CLUSTER, {}).code == ResponseCode.SUCCESS

        new = "a second secret of hers"
        old = SECRETS["alice"]
        with closing(SignedRemote(address, "alice")) as client:
            assert client.ask(CLUSTER, {}).code == ResponseCode.SUCCESS
            assert not is_let_in(new)
            keys_file(tmp_path, f"alice:{old}\nalice:{new}\n")
            assert wait_until(lambda: is_let_in(new), UNTIL_SECONDS)
            assert is_let_in(old)
            assert client.ask(CLUSTER, {}).code == ResponseCode.SUCCESS
            keys_file(tmp_path, f"alice:{new}\n")
            assert wait_until(lambda: not is_let_in(old), UNTIL_SECONDS)
            assert client.is_closed(), "it has asked for nothing more, and may get no more"


def test_a_secret_that_is_taken_away_ends_pulls_that_wait_and_spares_the_other_one(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    old, new = SECRETS["alice"], "a second secret of hers"
    both = keys_file(tmp_path, f"alice:{old}\nalice:{new}\n")
    more = settings(tmp_path, "SASL_PLAINTEXT")
    both.write_text(f"alice:{old}\nalice:{new}\n")
    with running_remoting_node(data, *more) as (node, address):
        node.submit(CreateTopics(topics=(NewTopic(name=TOPIC, partition_count=1),)))
        with (
            closing(SignedRemote(address, "alice")) as gone,
            closing(SignedRemote(address, "alice", new)) as stays,
        ):
            waiting = pulled(TOPIC, sysFlag=MAY_WAIT | 4, suspendTimeoutMillis=30_000)
            for client in (gone, stays):
                client.send(RequestCode.PULL_MESSAGE, waiting)
                assert client.ask_among(CLUSTER, {}).code == ResponseCode.SUCCESS
            keys_file(tmp_path, f"alice:{new}\n")
            assert gone.is_closed(), "nothing that comes later is told"
            assert stays.ask_among(SEND, sent(TOPIC), b"later").code == ResponseCode.SUCCESS


def test_over_tls_the_same_and_nothing_without_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    certificate, key = authority.issue("server", "/CN=server")
    files = f"security.ssl_certificate_file={certificate}", f"security.ssl_key_file={key}"
    data = tmp_path / "data"
    data.mkdir()
    context = ssl.create_default_context(cafile=authority.file)
    with running_remoting_node(data, *settings(tmp_path, "SASL_SSL"), *files) as (node, address):
        with closing(SignedRemote(address, "alice", tls=context)) as client:
            assert client.ask(CLUSTER, {}).code == ResponseCode.SUCCESS
            client.user = ""
            assert client.ask(CLUSTER, {}).remark == NOT_SIGNED
        with closing(SignedRemote(address, "alice")) as client:
            client.send(CLUSTER, {})
            with pytest.raises((AssertionError, ConnectionError)):
                client.receive_answer()
        assert wait_until(lambda: ends(node, CloseKind.NOT_TLS) == 1, UNTIL_SECONDS)


def test_a_certificate_names_the_user_where_nobody_signs(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    certificate, key = authority.issue("server", "/CN=server")
    data = tmp_path / "data"
    data.mkdir()
    overrides = (
        "security.listener_security_protocol_map=remoting:SSL",
        f"security.ssl_certificate_file={certificate}",
        f"security.ssl_key_file={key}",
        f"security.ssl_authority_file={authority.file}",
        "security.listeners=remoting.ssl_client_auth=required",
        "access.authorizer=acl",
        "access.super_users=User:CN=alice",
    )
    context = ssl.create_default_context(cafile=authority.file)
    with running_remoting_node(data, *overrides) as (_, address):
        for name, code in (("alice", ResponseCode.SUCCESS), ("bob", ResponseCode.NO_PERMISSION)):
            context.load_cert_chain(*authority.issue(name, f"/CN={name}"))
            with closing(SignedRemote(address, tls=context)) as client:
                assert client.ask(CLUSTER, {}).code == code


def test_who_says_nothing_is_ended(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    bound = "net.unproven_seconds_max=1"
    with running_remoting_node(data, *settings(tmp_path, "SASL_PLAINTEXT"), bound) as (_, address):
        with closing(Remote(address)) as client:
            client.socket.sendall(b"\0\0\0\x10")
            assert client.is_closed()
        with closing(SignedRemote(address, "alice")) as client:
            assert client.ask(CLUSTER, {}).code == ResponseCode.SUCCESS
            other = socket.create_connection(client.socket.getpeername())
            assert other.recv(1) == b"", "ended after the same time"
            assert client.ask(CLUSTER, {}).code == ResponseCode.SUCCESS
            other.close()
