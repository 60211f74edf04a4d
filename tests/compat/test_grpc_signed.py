"""RocketMQ's stock gRPC clients of Java, Python and Node with access keys, with TLS and without."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.ports import free_port
from penstock.controller.commands.command import CreateTopics, NewTopic
from tests.access.certificates import Authority
from tests.compat.java_tools import jars_or_skip
from tests.compat.rocketmq_client import CLIENT_SECONDS, told_by
from tests.compat.rocketmq_node import node_client
from tests.live_node import running_node
from tests.remoting.signing import SECRETS, keys_file

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

SOURCE = Path(__file__).with_name("GrpcSigned.java")
PYTHON = Path(__file__).with_name("grpc_python_signed.py")
COUNT = 20


class Served(NamedTuple):
    """A port whose clients sign."""

    address: str
    has_tls: bool
    authority: str


@pytest.fixture(scope="module", params=["SASL_PLAINTEXT", "SASL_SSL"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("signed")
    authority = Authority(directory / "certificates")
    certificate, key = authority.issue("server", "/CN=server")
    data = directory / "data"
    data.mkdir()
    port = free_port()
    overrides = (
        f"grpc.port={port}",
        f"security.listener_security_protocol_map=grpc:{request.param}",
        f"security.remoting_access_keys_file={keys_file(directory)}",
        f"security.ssl_certificate_file={certificate}",
        f"security.ssl_key_file={key}",
        "access.authorizer=acl",
        "access.super_users=User:alice",
    )
    with running_node(data, *overrides) as node:
        for topic in ("java", "python", "node"):
            node.submit(CreateTopics(topics=(NewTopic(name=topic, partition_count=2),)))
        yield Served(f"127.0.0.1:{port}", request.param == "SASL_SSL", authority.file)


class Client(NamedTuple):
    """How a stock client is run."""

    home: Path
    user: str = "alice"
    secret: str = SECRETS["alice"]
    tls: bool | None = None
    hours_ahead: int = 0
    """Its zone."""
    authority: str = ""


Runs = Callable[[Served, Client], list[dict[str, Any]]]


def by_java(served: Served, client: Client) -> list[dict[str, Any]]:
    zone = f"GMT{client.hours_ahead:+03d}:00"
    words = [
        *("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        *("-Dfile.encoding=UTF-8", f"-Duser.home={client.home}", f"-Duser.timezone={zone}"),
        *("-cp", ":".join(map(str, jars_or_skip("rocketmq-grpc"))), str(SOURCE)),
    ]
    return run([*words, *words_of(served, client, "java")], {})


def by_python(served: Served, client: Client) -> list[dict[str, Any]]:
    environment = {
        "HOME": str(client.home),
        "TZ": f"LOC{-client.hours_ahead}",  # POSIX counts westwards
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": client.authority or served.authority,
    }
    return run([sys.executable, str(PYTHON), *words_of(served, client, "python")], environment)


def by_node(served: Served, client: Client) -> list[dict[str, Any]]:
    """It signs UTC, wherever it is."""
    return node_client(
        client.home,
        "signed",
        endpoints=served.address,
        topic="node",
        group="readers",
        count=COUNT,
        user=client.user,
        secret=client.secret,
        tls=served.has_tls if client.tls is None else client.tls,
        authority=client.authority or served.authority,
        isRefused=True,
    )


def words_of(served: Served, client: Client, topic: str) -> list[str]:
    has_tls = served.has_tls if client.tls is None else client.tls
    told = (client.user, client.secret, str(COUNT), str(has_tls).lower())
    return [served.address, topic, *told]


def run(words: list[str], environment: dict[str, str]) -> list[dict[str, Any]]:
    done = subprocess.run(
        words,
        capture_output=True,
        timeout=CLIENT_SECONDS,
        check=False,
        encoding="utf-8",
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return told_by(done.stdout)


UNAVAILABLE = 14
"""Of gRPC's own statuses."""
UNAUTHORIZED, FORBIDDEN = "unauthorized", "forbidden"
NO_ROUTE = "failed to fetch topic"
"""All that Python's client says, whatever it was told."""
FAILED: dict[Runs, str] = {by_java: "failed", by_python: "why"}
BOTH = pytest.mark.parametrize("runs", [by_java, by_python])


@BOTH
@pytest.mark.parametrize("hours", [0, 14, -12])
def test_messages_are_sent_and_received_by_who_signs_wherever_he_is(
    served: Served, tmp_path: Path, runs: Runs, hours: int
) -> None:
    """Both clients sign local time, and say that it is UTC."""
    check_all_through(runs(served, Client(tmp_path, hours_ahead=hours)))


def test_node_s_messages_are_sent_and_received_by_who_signs(served: Served, tmp_path: Path) -> None:
    check_all_through(by_node(served, Client(tmp_path)))


def check_all_through(told: list[dict[str, Any]]) -> None:
    """All is sent, and received once."""
    assert [one["sent"] for one in told if "sent" in one] == list(range(COUNT)), told[-1]
    bodies = [one["body"] for one in told if "body" in one]
    assert sorted(bodies) == sorted(f"ü{number}" for number in range(COUNT))
    assert told[-1] == {"done": True}


JAVA_SAYS = {UNAUTHORIZED: "UnauthorizedException", FORBIDDEN: "ForbiddenException"}


@BOTH
@pytest.mark.parametrize(
    ("client", "why"),
    [
        ({"user": "bob", "secret": SECRETS["bob"]}, FORBIDDEN),
        ({"secret": SECRETS["bob"]}, UNAUTHORIZED),
        ({"user": "", "secret": ""}, UNAUTHORIZED),
        ({"hours_ahead": -23}, UNAUTHORIZED),
        ({"hours_ahead": 22}, UNAUTHORIZED),
    ],
)
def test_who_may_not_or_does_not_sign_is_refused(
    served: Served, tmp_path: Path, runs: Runs, client: dict[str, Any], why: str
) -> None:
    (told,) = runs(served, Client(tmp_path, **client))
    assert (JAVA_SAYS[why] if runs is by_java else NO_ROUTE) in told[FAILED[runs]]


@pytest.mark.parametrize(
    ("client", "kind", "code"),
    [
        ({"user": "bob", "secret": SECRETS["bob"]}, "ForbiddenException", 40300),
        ({"secret": SECRETS["bob"]}, "UnauthorizedException", 40100),
        ({"user": "mallory"}, "UnauthorizedException", 40100),
        ({"user": "", "secret": ""}, "UnauthorizedException", 40100),
    ],
)
def test_node_is_told_that_it_may_not_or_does_not_sign(
    served: Served, tmp_path: Path, client: dict[str, Any], kind: str, code: int
) -> None:
    (told,) = by_node(served, Client(tmp_path, **client))
    assert (told["kind"], told["code"]) == (kind, code)


@pytest.mark.parametrize("way", ["without TLS", "of another authority"])
def test_node_s_client_does_not_come_to_a_port_that_it_does_not_trust(
    served: Served, tmp_path: Path, way: str
) -> None:
    if not served.has_tls:
        pytest.skip("this port has no TLS")
    plain = Client(tmp_path, tls=False)
    strange = Client(tmp_path, authority=Authority(tmp_path / "other").file)
    (told,) = by_node(served, plain if way == "without TLS" else strange)
    assert (told["kind"], told["code"]) == ("Error", UNAVAILABLE)


@BOTH
def test_a_client_without_tls_does_not_reach_a_port_with_it(
    served: Served, tmp_path: Path, runs: Runs
) -> None:
    if not served.has_tls:
        pytest.skip("this port has no TLS")
    (told,) = runs(served, Client(tmp_path, tls=False))
    assert ("StatusRuntimeException" if runs is by_java else NO_ROUTE) in told[FAILED[runs]]


def test_python_s_client_does_not_come_to_a_node_of_another_authority(
    served: Served, tmp_path: Path
) -> None:
    """Java's trusts whatever certificate it is shown."""
    if not served.has_tls:
        pytest.skip("this port has no TLS")
    other = Authority(tmp_path / "other")
    (told,) = by_python(served, Client(tmp_path, authority=other.file))
    assert NO_ROUTE in told["why"]
