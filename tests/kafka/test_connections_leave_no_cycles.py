"""What a connection of a client that has to log in leaves behind: nothing that has to be searched.

Memory of references in a circle is free once all objects have been gone through, which a node does
seldom: thousands of strangers left theirs for minutes.
"""

import gc
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from penstock.kafka.context import RequestContext
from penstock.kafka.sasl.session import SaslSession
from penstock.net.connection import Connection
from penstock.net.tls.side import TlsSide
from penstock.net.tls.transport import TlsTransport
from penstock.protocol.api_keys import ApiKey
from tests.access.certificates import Authority
from tests.kafka.test_sasl import WRONG, choose, prove, secured
from tests.live_node import LiveNode, RawClient, running_node

TLS = "SASL_SSL"
OF_A_CONNECTION = (Connection, SaslSession, RequestContext, TlsSide, TlsTransport)


def alive() -> list[object]:
    return [one for one in gc.get_objects() if type(one) in OF_A_CONNECTION]


@pytest.fixture(params=["SASL_PLAINTEXT", TLS], scope="module")
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, protocol: str) -> Iterator[LiveNode]:
    directory = tmp_path_factory.mktemp("left")
    (directory / "data").mkdir()
    certificate, key = Authority(directory / "authority").issue("server", "/CN=server")
    more = (
        f"security.listener_security_protocol_map=kafka:{protocol}",
        f"security.ssl_certificate_file={certificate}",
        f"security.ssl_key_file={key}",
        "security.connections_max_reauth_ms=3600000",
    )
    with running_node(directory / "data", *secured(directory, *more)) as node:
        yield node


def behind_tls(client: RawClient, protocol: str) -> None:
    if protocol == TLS:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        client.socket = context.wrap_socket(client.socket)


def shaken(client: RawClient) -> None:
    """Say nothing, behind TLS where there is TLS."""


def asked(client: RawClient) -> None:
    client.ask(
        ApiKey.API_VERSIONS, 3, {"client_software_name": "a", "client_software_version": "1"}
    )


def begun(client: RawClient) -> None:
    choose(client, "SCRAM-SHA-512")


def proved(client: RawClient) -> None:
    choose(client, "PLAIN")
    prove(client)


def failed(client: RawClient) -> None:
    choose(client, "PLAIN")
    prove(client, WRONG)
    assert client.is_closed_by_node()


def refused(client: RawClient) -> None:
    client.send(ApiKey.METADATA, 4, {"topics": []})
    assert client.is_closed_by_node()


def half_a_frame(client: RawClient) -> None:
    client.send_bytes(b"\0\x01\0\0" + bytes(60_000))


@pytest.mark.parametrize("does", [shaken, asked, begun, proved, failed, refused, half_a_frame])
def test_a_connection_that_has_gone_is_free_at_once(
    node: LiveNode, protocol: str, does: Callable[[RawClient], None]
) -> None:
    listener = node.node._listener
    assert listener is not None
    connections: Callable[[], list[Connection]] = lambda: listener.connections  # noqa: E731
    gc.collect()
    before = alive()  # those of other tests of this process, which some hold to its end
    gc.disable()
    try:
        with closing(node.connect()) as client:
            behind_tls(client, protocol)
            assert node.until(lambda: connections() and not listener._opening)
            does(client)
        assert node.until(lambda: not connections())
        assert node.until(lambda: len(alive()) == len(before))
    finally:
        gc.enable()


@pytest.mark.parametrize(("does", "is_proved"), [(begun, False), (failed, False), (proved, True)])
def test_who_has_proved_nothing_does_not_leave_as_somebody_who_has(
    node: LiveNode, protocol: str, does: Callable[[RawClient], None], is_proved: bool
) -> None:
    """An address that has proved something goes first where many shake hands."""
    listener = node.node._listener
    assert listener is not None
    node.call(listener._tls.addresses._proved.clear)
    with closing(node.connect()) as client:
        behind_tls(client, protocol)
        does(client)
    assert node.until(lambda: not listener.connections)
    assert node.call(lambda: "127.0.0.1" in listener._tls.addresses._proved) is is_proved
