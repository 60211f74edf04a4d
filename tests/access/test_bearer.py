"""The exchange of OAUTHBEARER: what a message may be, and how a failure is told."""

import subprocess
import sys

import pytest

from penstock.access.bearer import BEARER_BYTES_MAX, REFUSAL, Bearer
from penstock.access.errors import MalformedToken
from penstock.access.sasl import SaslServer, SaslState, SaslUsers
from penstock.access.scram import ScramKeys
from tests.access.provider import message

GOOD = "good.to-ken_.x"


def check(token: str) -> Bearer:
    if token != GOOD:
        raise MalformedToken("a bad one")
    return Bearer("alice", 5_000)


def never(_mechanism: str, _user: str) -> ScramKeys:
    raise AssertionError


def server() -> SaslServer:
    users = SaslUsers(
        mechanisms=("OAUTHBEARER", "PLAIN"), keys=never, new_nonce=lambda: "", bearer=check
    )
    made = SaslServer(users)
    assert made.choose("OAUTHBEARER")
    return made


@pytest.mark.parametrize(
    "sent",
    [
        message(GOOD),
        message(GOOD, acts_for="alice"),
        message(GOOD, more="host=a\x01port=1\x01"),
        message(GOOD).replace(b"Bearer", b"bEARER  "),
    ],
)
def test_a_good_token_is_answered_with_nothing(sent: bytes) -> None:
    one = server()
    outcome = one.take(sent)
    assert (outcome.token, outcome.user, outcome.expires_ms) == (b"", "alice", 5_000)
    assert one.state is SaslState.AUTHENTICATED


@pytest.mark.parametrize("sent", [message("bad"), message(GOOD, acts_for="bob")])
def test_a_bad_token_is_told_so_and_fails_with_the_next_message(sent: bytes) -> None:
    one = server()
    outcome = one.take(sent)
    assert (outcome.token, outcome.user, outcome.reason) == (REFUSAL, None, "")
    assert state_of(one) is SaslState.CHOSEN
    failed = one.take(b"\x01")
    assert failed.reason in {"a bad one", "a user acts for nobody else"}
    assert state_of(one) is SaslState.FAILED


def state_of(one: SaslServer) -> SaslState:
    return one.state


def test_after_a_bad_token_a_good_one_comes_too_late() -> None:
    one = server()
    one.take(message("bad"))
    assert one.take(message(GOOD)).reason == "a bad one"
    assert one.take(message(GOOD)).reason
    assert one.user == ""


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\x01",
        message(GOOD)[:-1],
        message(GOOD) + b"\x01",
        b"y" + message(GOOD)[1:],
        b"p=tls-unique" + message(GOOD)[1:],
        message(GOOD).replace(b"auth=", b"host="),
        message(GOOD, more=f"auth=Bearer {GOOD}\x01"),
        message(GOOD, more="a b\x01"),
        message(GOOD).replace(b"Bearer", b"Basic"),
        message("a b"),
        message("a\x00b"),
        message("t\xf6ken"),
        message(GOOD, acts_for="\udcff".encode("utf-8", "surrogatepass").decode("latin1")),
        b"n,a=\xff,\x01auth=Bearer x\x01\x01",
        message("x" * BEARER_BYTES_MAX),
        b"n,," + b"\x01" * 10_000,
    ],
)
def test_what_is_no_message_fails_at_once(sent: bytes) -> None:
    one = server()
    outcome = one.take(sent)
    assert outcome.user is None
    assert outcome.reason or outcome.token == REFUSAL
    assert one.take(message(GOOD)).reason
    assert one.state is SaslState.FAILED


def test_another_user_than_before_fails() -> None:
    one = server()
    one.take(message(GOOD))
    one.user = "bob"
    one.choose("OAUTHBEARER")
    assert one.take(message(GOOD)).reason == "another user than before"


def test_a_node_without_tokens_does_not_import_what_checks_them() -> None:
    code = (
        "import sys, penstock.node.main, penstock.cli.main;"
        "print([name for name in ('jwt', 'cryptography') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"
