"""RocketMQ's stock Java client with access keys and over TLS."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting.wire.codes import ResponseCode
from tests.access.certificates import Authority
from tests.compat.java_tools import jars_or_skip
from tests.compat.rocketmq_client import CLIENT_SECONDS, told_by
from tests.remoting.served import running_remoting_node
from tests.remoting.signing import SECRETS, keys_file

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

SOURCE = Path(__file__).with_name("SignedClients.java")
TOPIC, COUNT = "topic", 20


@pytest.fixture(scope="module", params=["SASL_PLAINTEXT", "SASL_SSL"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, bool]]:
    """The address of a port whose clients sign, and whether it has TLS."""
    directory = tmp_path_factory.mktemp("signed")
    certificate, key = Authority(directory / "certificates").issue("server", "/CN=server")
    data = directory / "data"
    data.mkdir()
    overrides = (
        f"security.listener_security_protocol_map=remoting:{request.param}",
        f"security.remoting_access_keys_file={keys_file(directory)}",
        f"security.ssl_certificate_file={certificate}",
        f"security.ssl_key_file={key}",
        "access.authorizer=acl",
        "access.super_users=User:alice",
    )
    with running_remoting_node(data, *overrides) as (node, address):
        node.submit(CreateTopics(topics=(NewTopic(name=TOPIC, partition_count=2),)))
        yield address, request.param == "SASL_SSL"


def run(
    home: Path, served: tuple[str, bool], user: str, secret: str, *, tls: bool | None = None
) -> list[dict[str, Any]]:
    """Run the stock client; return what it has told."""
    address, has_tls = served
    class_path = ":".join(map(str, jars_or_skip("rocketmq")))
    is_over_tls = has_tls if tls is None else tls
    done = subprocess.run(
        [
            *("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            *("-Dfile.encoding=UTF-8", f"-Duser.home={home}", "-cp", class_path, str(SOURCE)),
            *(address, TOPIC, user, secret, str(COUNT), str(is_over_tls).lower()),
        ],
        capture_output=True,
        timeout=CLIENT_SECONDS,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return told_by(done.stdout)


def test_messages_are_sent_and_consumed_by_who_signs(
    served: tuple[str, bool], tmp_path: Path
) -> None:
    told = run(tmp_path, served, "alice", SECRETS["alice"])
    assert [one["sent"] for one in told if "sent" in one] == list(range(COUNT))
    bodies = [one["body"] for one in told if "body" in one]
    assert sorted(bodies) == sorted(f"ü{number}" for number in range(COUNT))
    assert told[-1] == {"done": True}


@pytest.mark.parametrize(
    ("user", "secret"), [("bob", SECRETS["bob"]), ("alice", SECRETS["bob"]), ("", "")]
)
def test_who_may_not_or_does_not_sign_is_refused_as_by_rocketmq(
    served: tuple[str, bool], tmp_path: Path, user: str, secret: str
) -> None:
    told = run(tmp_path, served, user, secret)
    assert told == [{"refused": ResponseCode.NO_PERMISSION}]


def test_a_client_without_tls_does_not_reach_a_port_with_it(
    served: tuple[str, bool], tmp_path: Path
) -> None:
    if not served[1]:
        pytest.skip("this port has no TLS")
    told = run(tmp_path, served, "alice", SECRETS["alice"], tls=False)
    assert [list(one) for one in told] == [["unreached"]]
