"""Two listeners of a node, each with its own settings of who is let in, and as whom."""

import shutil
import ssl
from contextlib import closing
from pathlib import Path

import pytest

from harness.ports import free_port
from penstock.protocol.error_codes import ErrorCode as Code
from tests.access.certificates import Authority
from tests.kafka.test_sasl import choose, prove, secured
from tests.live_node import LiveNode, RawClient, running_node


def test_mechanisms_users_and_sessions_are_those_of_the_listener(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    others = tmp_path / "others"
    others.touch(0o600)
    others.write_text("carol:pc\n")
    port = free_port()
    own = ("sasl_enabled_mechanisms=PLAIN", f"sasl_plain_users_file={others}")
    listeners = ",".join(f"OUT.{one}" for one in (*own, "connections_max_reauth_ms=60000"))
    settings = secured(
        tmp_path,
        f"node.listeners=OUT://127.0.0.1:{port}",
        "security.listener_security_protocol_map=kafka:SASL_PLAINTEXT,OUT:SASL_PLAINTEXT",
        f"security.listeners={listeners}",
    )
    with running_node(tmp_path / "data", *settings) as node:
        told = {}
        for name, at in (("kafka", node.port), ("OUT", port)):
            with closing(RawClient(at)) as client:
                answer = choose(client, "SCRAM-SHA-512")
                told[name] = answer.error_code, len(answer.mechanisms)
        assert told == {"kafka": (Code.NONE, 3), "OUT": (Code.UNSUPPORTED_SASL_MECHANISM, 1)}
        assert proved(node.port, b"\0alice\0pa") == 0
        assert proved(node.port, b"\0carol\0pc") is None
        assert proved(port, b"\0carol\0pc") == 60
        assert proved(port, b"\0alice\0pa") is None


def proved(port: int, token: bytes) -> float | None:
    """Return for how long a client is let in that proves this by PLAIN; None if it is not."""
    with closing(RawClient(port)) as client:
        assert choose(client, "PLAIN").error_code == Code.NONE
        answer = prove(client, token)
        if answer.error_code:
            return None
        lifetime: float = answer.session_lifetime.total_seconds()
        return lifetime


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_a_certificate_has_the_name_that_the_rules_of_the_listener_make(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "files")
    certificate, key = authority.issue("server", "/CN=server")
    files = authority.issue("client", "/CN=Reader")
    (tmp_path / "data").mkdir()
    port = free_port()
    settings = (
        f"node.listeners=OUT://127.0.0.1:{port}",
        "security.listener_security_protocol_map=kafka:SSL,OUT:SSL",
        f"security.ssl_certificate_file={certificate}",
        f"security.ssl_key_file={key}",
        f"security.ssl_authority_file={authority.file}",
        "security.ssl_client_auth=requested",
        "security.ssl_principal_mapping_rules=DEFAULT",
        "security.listeners=OUT.ssl_principal_mapping_rules=RULE:^CN=(.*)$/$1/L",
    )
    with running_node(tmp_path / "data", *settings) as node:
        names = [principal(node, one, authority, files) for one in (node.port, port)]
    assert names == ["User:CN=Reader", "User:reader"]


def principal(node: LiveNode, port: int, authority: Authority, files: tuple[str, str]) -> str:
    """Return who a client with a certificate is at a listener."""
    context = ssl.create_default_context(cafile=authority.file)
    context.load_cert_chain(*files)
    with closing(RawClient(port)) as client:
        client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
        client.send(18, 0, {})
        assert not client.is_closed_by_node()
        listener = node.node._listener
        assert listener is not None
        (one,) = node.call(lambda: [one.principal for one in listener.connections])
    node.until(lambda: not listener.connections)
    return str(one)
