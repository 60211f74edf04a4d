"""The port for gRPC clients over TLS: who may come in, and what is refused before HTTP/2 begins."""

import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Event

import pytest

import grpc
from harness.waiting import wait_until
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.net.errors import CloseKind
from penstock.net.tls.addresses import PROVED
from penstock.net.tls.handshakes import HALF_OPEN_MAX
from tests.access.certificates import Authority
from tests.grpc.receiving import OK, Member
from tests.grpc.served import Caller, message, running_grpc_node
from tests.grpc.signing import SignedCaller
from tests.grpc.test_signed import FORBIDDEN, TOPIC, UNAUTHORIZED, connections, ends, route, running
from tests.live_node import UNTIL_SECONDS, LiveNode
from tests.net.test_tls import hello


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def tls_settings(authority: Authority, name: str = "server") -> tuple[str, ...]:
    certificate, key = authority.issue(name, f"/CN={name}")
    return f"security.ssl_certificate_file={certificate}", f"security.ssl_key_file={key}"


def trusts(authority: Authority, pair: tuple[str, str] | None = None) -> grpc.ChannelCredentials:
    files = [Path(one).read_bytes() for one in pair or ()]
    return grpc.ssl_channel_credentials(Path(authority.file).read_bytes(), *reversed(files))


def test_over_tls_the_same_and_nothing_without_it(tmp_path: Path, authority: Authority) -> None:
    files = tls_settings(authority)
    with running(tmp_path, "SASL_SSL", *files) as (node, address):
        with closing(SignedCaller(address, "alice", credentials=trusts(authority))) as caller:
            body = bytes(range(256)) * 3_000
            assert caller.send(message(TOPIC, body)).status.code == OK
            member = Member(caller)
            answer = member.receive(TOPIC)
            assert [one.body for one in answer.messages] == [body]
            assert member.ack(TOPIC, *answer.handles).status.code == OK
        with closing(Caller(address, trusts(authority))) as caller:
            assert caller.send(message(TOPIC)).status.code == UNAUTHORIZED
        with closing(SignedCaller(address, "alice")) as plain, pytest.raises(grpc.RpcError) as told:
            route(plain)
        assert told.value.code() == grpc.StatusCode.UNAVAILABLE
        assert ends(node, CloseKind.NOT_TLS) >= 1


def test_a_client_that_trusts_another_authority_says_nothing(
    tmp_path: Path, authority: Authority
) -> None:
    other = Authority(tmp_path / "other")
    with running(tmp_path, "SASL_SSL", *tls_settings(authority)) as (node, address):
        with (
            closing(SignedCaller(address, "alice", credentials=trusts(other))) as caller,
            pytest.raises(grpc.RpcError) as told,
        ):
            route(caller)
        assert told.value.code() == grpc.StatusCode.UNAVAILABLE
        port = node.node._rocketmq.grpc
        assert port is not None
        assert sum(port.front.requests.values()) == 0


def test_a_certificate_names_the_user_where_nobody_signs(
    tmp_path: Path, authority: Authority
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    overrides = (
        "security.listener_security_protocol_map=grpc:SSL",
        *tls_settings(authority),
        f"security.ssl_authority_file={authority.file}",
        "security.listeners=grpc.ssl_client_auth=required",
        "access.authorizer=acl",
        "access.super_users=User:CN=alice",
    )
    with running_grpc_node(data, *overrides) as (node, address):
        node.submit(CreateTopics(topics=(NewTopic(name=TOPIC, partition_count=1),)))
        for name, code in (("alice", OK), ("bob", FORBIDDEN)):
            pair = authority.issue(name, f"/CN={name}")
            with closing(Caller(address, trusts(authority, pair))) as caller:
                assert caller.send(message(TOPIC)).status.code == code
        with (
            closing(Caller(address, trusts(authority))) as caller,
            pytest.raises(grpc.RpcError),
        ):
            caller.send(message(TOPIC))


def test_a_certificate_is_read_again_when_it_changes(tmp_path: Path, authority: Authority) -> None:
    mine = Authority(tmp_path / "mine")
    files = tls_settings(mine)
    context = ssl.create_default_context(cafile=mine.file)
    context.set_alpn_protocols(["h2"])

    def served_now(address: str) -> bytes | None:
        host, port = address.split(":")
        with (
            socket.create_connection((host, int(port)), UNTIL_SECONDS) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as secured,
        ):
            return secured.getpeercert(binary_form=True)

    with (
        running(tmp_path, "SASL_SSL", *files) as (_, address),
        closing(SignedCaller(address, "alice", credentials=trusts(mine))) as caller,
    ):
        assert route(caller) == OK
        before = served_now(address)
        mine.issue("server", "/CN=another")
        assert wait_until(lambda: served_now(address) != before, UNTIL_SECONDS)
        assert route(caller) == OK, "what is connected goes on"


class Place:
    """A node whose port for gRPC clients has TLS and asks for signatures."""

    def __init__(self, node: LiveNode, address: str, authority: Authority) -> None:
        self.node, self.address, self.authority = node, address, authority
        host, port = address.split(":")
        self.where = host, int(port)

    def probe(self, *options: str) -> str:
        """Return what openssl's client says."""
        ran = subprocess.run(
            ["openssl", "s_client", "-connect", self.address, *options],
            input="Q\n",
            capture_output=True,
            encoding="latin-1",  # the frames of the node are among it
            timeout=UNTIL_SECONDS,
            check=False,
        )
        return ran.stdout + ran.stderr

    def is_well(self) -> bool:
        """Whether a client with nothing strange about it is served."""
        with closing(
            SignedCaller(self.address, "alice", credentials=trusts(self.authority))
        ) as caller:
            return route(caller) == OK


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("probes")
    with running(directory, "SASL_SSL", *tls_settings(authority, "probed")) as (node, address):
        yield Place(node, address, authority)


@pytest.mark.parametrize("version", ["tls1", "tls1_1"])
def test_old_versions_are_refused(place: Place, version: str) -> None:
    told = place.probe(f"-{version}", "-alpn", "h2", "-cipher", "ALL:@SECLEVEL=0")
    assert "Cipher is (NONE)" in told
    assert place.is_well()


@pytest.mark.parametrize("version", ["tls1_2", "tls1_3"])
def test_h2_is_agreed_on_with_a_cipher_that_http2_permits(place: Place, version: str) -> None:
    told = place.probe(f"-{version}", "-alpn", "http/1.1,h2")
    assert "ALPN protocol: h2" in told
    (cipher,) = {one.split("Cipher is ")[1] for one in told.splitlines() if "Cipher is " in one}
    assert cipher.startswith(("ECDHE-", "TLS_"))
    assert "GCM" in cipher or "CHACHA20" in cipher


@pytest.mark.parametrize(
    "cipher", ["ECDHE-ECDSA-AES256-SHA384", "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES128-CCM"]
)
def test_a_cipher_that_http2_does_not_permit_is_refused(place: Place, cipher: str) -> None:
    told = place.probe("-tls1_2", "-alpn", "h2", "-cipher", f"{cipher}:@SECLEVEL=0")
    assert "Cipher is (NONE)" in told


@pytest.mark.parametrize("offered", [(), ("http/1.1",), ("h2c", "spdy/3")])
def test_who_does_not_agree_on_h2_is_ended_before_a_byte_of_it(
    place: Place, offered: tuple[str, ...]
) -> None:
    """As RFC 9113 has it; a client that speaks HTTP/1.1 would get frames as its answer."""
    context = ssl.create_default_context(cafile=place.authority.file)
    if offered:
        context.set_alpn_protocols(offered)
    before = ends(place.node, CloseKind.TLS_FAILED)
    with (
        socket.create_connection(place.where, UNTIL_SECONDS) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as secured,
    ):
        assert secured.recv(1) == b"", "a close that is said, and nothing before it"
    assert wait_until(lambda: ends(place.node, CloseKind.TLS_FAILED) == before + 1, UNTIL_SECONDS)
    assert place.is_well()


def test_a_flood_of_half_open_handshakes_keeps_nobody_out(place: Place) -> None:
    context = ssl.create_default_context(cafile=place.authority.file)
    first = hello(context)
    opened = []
    try:
        for number in range(2 * HALF_OPEN_MAX):
            source = f"127.0.{1 + number % 40}.1"
            one = socket.create_connection(place.where, UNTIL_SECONDS, (source, 0))
            one.sendall(first if number % 2 else first[: 1 + number % len(first)])
            opened.append(one)
        assert place.is_well()
    finally:
        for one in opened:
            one.close()
    listener = place.node.node._listener
    assert listener is not None
    handshakes = listener._tls.handshakes
    assert wait_until(lambda: not place.node.call(lambda: len(handshakes.all)), UNTIL_SECONDS)


def test_who_goes_without_a_proof_has_proved_nothing(place: Place) -> None:
    """Behind TLS that shakes hands with everybody: a signature is the proof here."""
    context = ssl.create_default_context(cafile=place.authority.file)
    context.set_alpn_protocols(["h2"])
    listener = place.node.node._listener
    assert listener is not None

    def rank(host: str) -> int:
        return place.node.call(lambda: listener._tls.addresses.rank(host, listener._context.tick))

    def is_gone() -> bool:
        return all(one.client_host != "127.0.9.9" for one in connections(place.node))

    with (
        socket.create_connection(place.where, UNTIL_SECONDS, ("127.0.9.9", 0)) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as secured,
    ):
        assert secured.recv(9), "its settings"
        assert not is_gone()
    assert wait_until(is_gone, UNTIL_SECONDS)
    assert rank("127.0.9.9") != PROVED
    assert place.is_well()
    assert wait_until(lambda: rank("127.0.0.1") == PROVED, UNTIL_SECONDS)


def test_a_client_that_resets_as_it_has_shaken_hands_leaves_nothing(place: Place) -> None:
    """The node has something to say at once, and nobody to say it to.

    Its loop is held while the client's last word and the reset behind it come in.
    """
    context = ssl.create_default_context(cafile=place.authority.file)
    context.set_alpn_protocols(["h2"])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    is_over, is_held = Event(), Event()

    def hold() -> None:
        is_held.set()
        is_over.wait(UNTIL_SECONDS)

    opened = socket.create_connection(place.where, UNTIL_SECONDS, ("127.0.8.8", 0))
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    while True:
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
            break
        opened.sendall(outgoing.read())
        incoming.write(opened.recv(1 << 16))
    place.node.loop.call_soon_threadsafe(hold)
    assert is_held.wait(UNTIL_SECONDS)
    opened.sendall(outgoing.read())
    opened.close()
    is_over.set()
    listener = place.node.node._listener
    assert listener is not None

    def is_gone() -> bool:
        left = place.node.call(lambda: listener.stats.open_at["grpc"])
        return left == len(connections(place.node)) and all(
            one.client_host != "127.0.8.8" for one in connections(place.node)
        )

    assert wait_until(is_gone, UNTIL_SECONDS)
    assert place.is_well()
