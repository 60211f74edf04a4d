"""A node with a listener that lets in everybody from other machines does not start by itself."""

import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS
from penstock.base.errors import ConfigError
from penstock.grpc.config import GrpcConfig
from penstock.node.access.exposure import check_exposure, is_of_this_machine
from penstock.node.settings.config import NodeConfig
from penstock.node.settings.security_config import SecurityConfig
from penstock.node.settings.settings import NodeSettings
from penstock.remoting.config import RemotingConfig

ELSEWHERE = "192.0.2.1"
"""An address that no machine has (RFC 5737): nothing can be bound to it."""
REACHED = ("0.0.0.0", "::", "10.0.0.1", ELSEWHERE, "fd00::1")
FILES: dict[str, object] = {
    "ssl_certificate_file": "c",
    "ssl_key_file": "k",
    "ssl_authority_file": "a",
}


def settings(
    protocol: str = "PLAINTEXT", host: str = "0.0.0.0", **security: object
) -> NodeSettings:
    return NodeSettings(
        node=NodeConfig(host=host),
        security=SecurityConfig(
            listener_security_protocol_map=(f"kafka:{protocol}",),
            **(FILES | security),  # type: ignore[arg-type]
        ),
    )


def is_refused(given: NodeSettings) -> bool:
    try:
        check_exposure(given)
    except ConfigError:
        return True
    return False


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "127.1", "::1", "localhost"])
def test_what_is_bound_to_this_machine_alone_may_be_open(host: str) -> None:
    assert is_of_this_machine(host)
    check_exposure(settings(host=host))


@pytest.mark.parametrize("host", REACHED)
def test_what_others_reach_may_not(host: str) -> None:
    assert not is_of_this_machine(host)
    assert is_refused(settings(host=host))


def test_the_port_for_remoting_clients_is_open_by_permission_only() -> None:
    remoting = RemotingConfig(host="0.0.0.0", port=9876)
    given = settings(host="127.0.0.1")
    assert is_refused(replace(given, remoting=remoting))
    security = replace(given.security, open_listeners=("remoting",))
    check_exposure(replace(given, remoting=remoting, security=security))
    check_exposure(replace(given, remoting=replace(remoting, host="127.0.0.1")))


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_the_ports_for_rocketmq_s_clients_are_reached_where_they_sign(protocol: str) -> None:
    given = settings(host="127.0.0.1")
    asks = f"remoting:{protocol}", f"grpc:{protocol}"
    files = {"remoting_access_keys_file": "keys", "listener_security_protocol_map": asks}
    security = replace(given.security, **files)  # type: ignore[arg-type]
    remoting = RemotingConfig(host="0.0.0.0", port=9876)
    grpc = GrpcConfig(host="0.0.0.0", port=8081)
    check_exposure(replace(given, remoting=remoting, grpc=grpc, security=security))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_an_open_port_for_remoting_clients_beside_closed_ones_is_said_by_name(host: str) -> None:
    given = replace(settings("SASL_SSL"), remoting=RemotingConfig(host=host, port=9876))
    assert is_refused(given)
    named = replace(given.security, open_listeners=("remoting",))
    check_exposure(replace(given, security=named))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_an_open_port_for_grpc_clients_beside_closed_ones_is_said_by_name(host: str) -> None:
    given = replace(settings("SASL_SSL"), grpc=GrpcConfig(host=host, port=8081))
    with pytest.raises(ConfigError, match=r"listener grpc .*security\.open_listeners=grpc"):
        check_exposure(given)
    named = replace(given.security, open_listeners=("grpc",))
    check_exposure(replace(given, security=named))


def test_an_open_port_for_remoting_clients_beside_an_open_one_is_no_side_door() -> None:
    remoting = RemotingConfig(port=9876)
    given = replace(settings(host="127.0.0.1"), remoting=remoting)
    listeners = NodeConfig(listeners=("SECURE://127.0.0.1:9095",))
    security = replace(
        given.security, listener_security_protocol_map=("kafka:PLAINTEXT", "SECURE:SASL_SSL")
    )
    check_exposure(replace(given, node=listeners, security=security))


def test_a_name_counts_by_all_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(2, 1, 6, "", ("127.0.0.1", 0)), (2, 1, 6, "", ("10.0.0.1", 0))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: found)
    assert not is_of_this_machine("both")
    found.pop()
    assert is_of_this_machine("both")
    found.clear()
    assert not is_of_this_machine("both")


def test_a_name_without_an_address_counts_as_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object, **__: object) -> object:
        raise socket.gaierror

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
    assert not is_of_this_machine("nowhere")


@pytest.mark.parametrize(
    ("protocol", "client_auth", "is_open"),
    [
        ("PLAINTEXT", "none", True),
        ("PLAINTEXT", "required", True),
        ("SSL", "none", True),
        ("SSL", "requested", True),
        ("SSL", "required", False),
        ("SASL_PLAINTEXT", "none", False),
        ("SASL_SSL", "none", False),
    ],
)
def test_a_listener_that_makes_clients_prove_who_they_are_is_served(
    protocol: str, client_auth: str, is_open: bool
) -> None:
    assert is_refused(settings(protocol, ssl_client_auth=client_auth)) is is_open
    own = settings(protocol, listeners=(f"kafka.ssl_client_auth={client_auth}",))
    assert is_refused(own) is is_open


def test_an_open_one_is_served_if_it_is_named() -> None:
    check_exposure(settings(open_listeners=("kafka",)))


def test_every_listener_counts_by_itself() -> None:
    node = NodeConfig(listeners=("IN://127.0.0.1:9095", "OUT://0.0.0.0:9096"))
    with pytest.raises(ConfigError, match=r"listener OUT is bound to 0\.0\.0\.0"):
        check_exposure(NodeSettings(node=node))
    others = SecurityConfig(open_listeners=("kafka", "IN"))
    assert is_refused(NodeSettings(node=node, security=others))
    check_exposure(NodeSettings(node=node, security=SecurityConfig(open_listeners=("OUT",))))


def test_an_open_listener_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="security names listener OUT, which is not there"):
        settings(open_listeners=("OUT",))


def penstock(directory: Path, command: str, more: str = "") -> str:
    """Run a process that does not get as far as serving; return the line that says why."""
    config = directory / "node.toml"
    (directory / "data").mkdir()
    config.write_text(
        f'[node]\nhost = "{ELSEWHERE}"\nport = {free_port()}\nmetrics_port = {free_port()}\n{more}'
    )
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", *command.split(), "--config", str(config)],
        capture_output=True, check=False, text=True, timeout=UNTIL_SECONDS,
    )  # fmt: skip
    assert done.returncode == 2, done
    return done.stderr.splitlines()[-1]


SAID = (
    f"penstock: listener kafka is bound to {ELSEWHERE}, so everybody who reaches this machine would"
    " be let in: give it a protocol that asks clients who they are, such as"
    " security.listener_security_protocol_map=kafka:SASL_SSL, or bind it to 127.0.0.1, or permit it"
    " with security.open_listeners=kafka"
)


@pytest.mark.process
@pytest.mark.parametrize("command", ["node", "serve --nodes 1"])
def test_the_process_says_what_to_set(tmp_path: Path, command: str) -> None:
    assert penstock(tmp_path, command) == SAID
    assert not list((tmp_path / "data").iterdir())  # nothing was begun


@pytest.mark.process
def test_a_node_that_may_be_open_gets_as_far_as_its_address(tmp_path: Path) -> None:
    said = penstock(tmp_path, "node", '[security]\nopen_listeners = ["kafka"]\n')
    assert f"{ELSEWHERE}:" in said
    assert "would be let in" not in said


@pytest.mark.process
def test_up_is_refused_as_well_unless_it_is_secure_or_named(tmp_path: Path) -> None:
    def up(*more: str) -> str:
        port = str(free_port())
        where = ("--data", str(tmp_path / "up"), "--port", port, "--metrics-port", "0")
        done = subprocess.run(
            [sys.executable, "-m", "penstock.cli.main", "up", *where, *more],
            capture_output=True, check=False, text=True, timeout=UNTIL_SECONDS,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr

    host = ("--set", f"node.host={ELSEWHERE}")
    assert up(*host) == f"{SAID}\n"
    assert "can not be used: Cannot assign requested address" in up(*host, "--secure")
    named = ("--set", "security.open_listeners=kafka")
    assert "can not be used: Cannot assign requested address" in up(*host, *named)
