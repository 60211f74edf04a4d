"""Who a client is by its certificate: the subject, the short name, nobody."""

import shutil
import ssl
from contextlib import closing
from pathlib import Path

import pytest

from penstock.protocol.api_keys import ApiKey
from tests.access.certificates import Authority
from tests.live_node import LiveNode, RawClient, running_node

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


def connect(node: LiveNode, authority: Authority, files: tuple[str, str] | None) -> RawClient:
    context = ssl.create_default_context(cafile=authority.file)
    if files is not None:
        context.load_cert_chain(*files)
    client = node.connect()
    client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
    return client


@pytest.mark.parametrize(
    ("rules", "principals"),
    [
        ("DEFAULT", ["User:CN=Reader,OU=Sales\\, EMEA,O=Ex", "User:ANONYMOUS"]),
        ("RULE:^CN=(.*?),OU=.*$/$1/L", ["User:reader", "User:ANONYMOUS"]),
        ("RULE:^UID=(.*)$/$1/", [None, "User:ANONYMOUS"]),
    ],
)
def test_a_certificate_names_its_client(
    tmp_path: Path, rules: str, principals: list[str | None]
) -> None:
    authority = Authority(tmp_path / "files")
    certificate, key = authority.issue("server", "/CN=server")
    client = authority.issue("client", "/O=Ex/OU=Sales, EMEA/CN=Reader")
    (tmp_path / "data").mkdir()
    settings = (
        "security.listener_security_protocol_map=kafka:SSL",
        f"security.ssl_certificate_file={certificate}",
        f"security.ssl_key_file={key}",
        f"security.ssl_authority_file={authority.file}",
        "security.ssl_client_auth=requested",
        f"security.ssl_principal_mapping_rules={rules}",
    )
    with running_node(tmp_path / "data", *settings) as node:
        for files, principal in zip((client, None), principals, strict=True):
            with closing(connect(node, authority, files)) as asking:
                assert served_as(node, asking) == principal


def served_as(node: LiveNode, client: RawClient) -> str | None:
    """The principal of the only connection once it is answered; None where it is closed."""
    client.send(ApiKey.API_VERSIONS, 0, {})
    if client.is_closed_by_node():
        return None
    listener = node.node._listener
    assert listener is not None
    (principal,) = node.call(lambda: [one.state.principal for one in listener.connections][-1:])
    return str(principal)
