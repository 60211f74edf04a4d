"""franz-go in a closed node: each way to log in, and each refusal."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.access.certificates import Authority
from tests.access.provider import Provider
from tests.compat.closed_node import PASSWORD, ClosedNode
from tests.compat.golang import program

pytestmark = [
    pytest.mark.compat,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]
COUNT = 20
PROGRAM_SECONDS = 60
"""The program itself gives up after half of it, and says so."""
Options = tuple[str, ...]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClosedNode]:
    found = program("logins")
    if isinstance(found, str):
        pytest.skip(found)
    closed = ClosedNode(tmp_path_factory.mktemp("closed"))
    with closed.node:
        yield closed


def by_password(closed: ClosedNode, mechanism: str, user: str, password: str) -> Options:
    at = ("-bootstrap", f"127.0.0.1:{closed.sasl}")
    return (*at, "-mechanism", mechanism, "-user", user, "-password", password)


def by_token(closed: ClosedNode, token: str) -> Options:
    return by_password(closed, "OAUTHBEARER", "", token)


def by_delegation(closed: ClosedNode, token_id: str, hmac: str) -> Options:
    return (*by_password(closed, "SCRAM-SHA-512", token_id, hmac), "-delegation")


def by_certificate(
    closed: ClosedNode, authority: Authority, name: str, *, days: int = 2
) -> Options:
    certificate, key = authority.issue(name, "/CN=job", days=days)
    return (*by_tls(closed), "-certificate", certificate, "-key", key)


def by_tls(closed: ClosedNode) -> Options:
    return "-bootstrap", f"127.0.0.1:{closed.mutual}"


def ran(closed: ClosedNode, options: Options, topic: str) -> "subprocess.CompletedProcess[str]":
    closed.topic(topic)
    found = program("logins")
    assert isinstance(found, Path), found
    return subprocess.run(
        [str(found), "-ca", closed.authority.file, *options, topic],
        capture_output=True, text=True, check=False, timeout=PROGRAM_SECONDS,
    )  # fmt: skip


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LOGINS: dict[str, Callable[[ClosedNode], Options]] = {
    **{
        one: lambda closed, one=one: by_password(closed, one, "alice", PASSWORD)  # type: ignore[misc]
        for one in MECHANISMS
    },
    "bearer": lambda closed: by_token(closed, closed.provider.token()),
    "delegation": lambda closed: by_delegation(closed, *closed.token()),
    "certificate": lambda closed: by_certificate(closed, closed.authority, "good"),
}


@pytest.mark.parametrize("name", LOGINS)
def test_franz_go_writes_and_reads_by_each_mechanism(closed: ClosedNode, name: str) -> None:
    done = ran(closed, LOGINS[name](closed), f"closed-{name}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [f"w{number}" for number in range(COUNT)]


class Refusal(NamedTuple):
    """Options that let nobody in, and what franz-go says of it."""

    options: Callable[[ClosedNode], Options]
    says: str


def _ended_token(closed: ClosedNode) -> Options:
    token_id, hmac = closed.token()
    closed.tokens("expire", token_id)
    return by_delegation(closed, token_id, hmac)


def _old_token(closed: ClosedNode) -> Options:
    return by_token(closed, closed.provider.token(exp=int(time.time()) - 60))


SASL = "SASL_AUTHENTICATION_FAILED"
REFUSALS = {
    **{
        f"{one}-wrong": Refusal(
            lambda closed, one=one: by_password(closed, one, "alice", "wrong"),  # type: ignore[misc]
            SASL,
        )
        for one in MECHANISMS
    },
    "bearer-wrong": Refusal(lambda closed: by_token(closed, Provider().token()), SASL),
    "bearer-expired": Refusal(_old_token, SASL),
    "delegation-wrong": Refusal(
        lambda closed: by_delegation(closed, closed.token()[0], "AAAA"), SASL
    ),
    "delegation-expired": Refusal(_ended_token, SASL),
    "certificate-none": Refusal(by_tls, "tls: certificate required"),
    "certificate-wrong": Refusal(
        lambda closed: by_certificate(closed, closed.stranger, "strange"), "tls: "
    ),
    "certificate-expired": Refusal(
        lambda closed: by_certificate(closed, closed.authority, "expired", days=-1),
        "tls: expired certificate",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_franz_go_is_told_why_it_may_not_come_in(closed: ClosedNode, name: str) -> None:
    refusal = REFUSALS[name]
    done = ran(closed, refusal.options(closed), f"refused-{name}")
    assert (done.returncode, done.stdout) == (1, "")
    assert refusal.says in done.stderr
    assert "deadline exceeded" not in done.stderr
