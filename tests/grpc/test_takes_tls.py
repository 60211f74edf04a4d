"""An open port for gRPC clients that takes TLS beside plain text, with `grpc.takes_tls`."""

import socket
import ssl
from contextlib import closing
from pathlib import Path

import pytest

import grpc
from penstock.base.errors import ConfigError
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.node.settings.settings import load_settings
from tests.access.certificates import Authority
from tests.grpc.receiving import OK, Member
from tests.grpc.served import Caller, message, running_grpc_node
from tests.live_node import UNTIL_SECONDS

TAKES = "grpc.takes_tls=true"
TOPIC = "orders"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""With an empty SETTINGS frame, as RFC 9113 wants it."""
SETTINGS_FRAME = 4


def test_clients_of_both_kinds_have_one_topic(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server", "/CN=server")
    files = f"security.ssl_certificate_file={certificate}", f"security.ssl_key_file={key}"
    (tmp_path / "data").mkdir()
    with running_grpc_node(tmp_path / "data", TAKES, *files) as (node, address):
        node.submit(CreateTopics(topics=(NewTopic(name=TOPIC, partition_count=1),)))
        trusts = grpc.ssl_channel_credentials(Path(authority.file).read_bytes())
        with closing(Caller(address)) as plain, closing(Caller(address, trusts)) as over_tls:
            assert plain.send(message(TOPIC, b"plain")).status.code == OK
            assert over_tls.send(message(TOPIC, b"tls")).status.code == OK
            bodies: set[bytes] = set()
            for caller in (over_tls, plain):
                member = Member(caller)
                answer = member.receive(TOPIC, batch_size=1)
                bodies.update(one.body for one in answer.messages)
                assert member.ack(TOPIC, *answer.handles).status.code == OK
            assert bodies == {b"plain", b"tls"}


def test_without_files_a_node_has_a_certificate_of_its_own(tmp_path: Path) -> None:
    with running_grpc_node(tmp_path, TAKES) as (_, address):
        first, second = (told_over_tls(address, ["h2"]) for _ in range(2))
        assert first[3] == second[3] == SETTINGS_FRAME


def test_who_does_not_ask_for_http_2_is_told_good_bye(tmp_path: Path) -> None:
    with running_grpc_node(tmp_path, TAKES) as (_, address):
        assert told_over_tls(address, ["http/1.1"]) == b""


def told_over_tls(address: str, applications: list[str]) -> bytes:
    """What a client that checks no certificate hears first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(applications)
    host, port = address.split(":")
    with (
        socket.create_connection((host, int(port)), timeout=UNTIL_SECONDS) as opened,
        context.wrap_socket(opened) as wrapped,
    ):
        wrapped.sendall(PREFACE)
        return wrapped.recv(9)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ((), "there is no port: set grpc.port, or leave it out"),
        (
            (
                "grpc.port=8081",
                "security.listener_security_protocol_map=grpc:SSL",
                "security.ssl_certificate_file=a",
                "security.ssl_key_file=b",
            ),
            "is for an open port, and listener grpc is SSL",
        ),
        (
            ("grpc.port=8081", "security.ssl_key_file=b"),
            "give both of security.ssl_certificate_file and security.ssl_key_file, or neither",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(overrides: tuple[str, ...], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_settings(None, environment={}, overrides=(TAKES, *overrides))
