"""The machine of SASL: which token follows which, and what ends an exchange for good."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.access.delegation import TokenLogin
from penstock.access.plain import digest_of
from penstock.access.sasl import SaslServer, SaslState, SaslUsers
from penstock.access.scram import ScramClient, ScramKeys, keys_of, salted_password, unknown_keys

SALT = b"salt of some length"
ALICE = salted_password("SCRAM-SHA-512", "pa", SALT, 4096)


def find(mechanism: str, user: str) -> ScramKeys:
    if user == "alice" and mechanism == "SCRAM-SHA-512":
        return keys_of(mechanism, ALICE, SALT, 4096)
    return unknown_keys(mechanism, user, b"secret", None)


USERS = SaslUsers(
    mechanisms=("PLAIN", "SCRAM-SHA-512"),
    passwords=lambda: {"alice": digest_of("pa"), "bob": digest_of("pb")},
    keys=find,
    new_nonce=lambda: "nonce",
)


def plain(user: str, password: str, authorised: str = "") -> bytes:
    return f"{authorised}\0{user}\0{password}".encode()


def test_plain_takes_one_token() -> None:
    server = SaslServer(USERS)
    assert server.choose("PLAIN")
    assert server.take(plain("alice", "pa")).user == "alice"
    assert server.state is SaslState.AUTHENTICATED


@pytest.mark.parametrize(
    "token",
    [
        plain("alice", "pb"),
        plain("carol", "pa"),
        plain("alice", ""),
        plain("", "pa"),
        plain("alice", "pa", "bob"),
        b"alice\0pa",
        b"\0alice\0pa\0",
        b"\xff\0\xff\0\xff",
        b"",
    ],
)
def test_a_wrong_token_of_plain_fails_for_good(token: bytes) -> None:
    server = SaslServer(USERS)
    server.choose("PLAIN")
    assert server.take(token).reason
    assert server.take(plain("alice", "pa")).reason
    assert server.state is SaslState.FAILED


def test_scram_takes_two_tokens() -> None:
    server = SaslServer(USERS)
    server.choose("SCRAM-SHA-512")
    client = ScramClient("SCRAM-SHA-512", "alice", "pa", "mine")
    challenge = server.take(client.first())
    assert challenge.user is None
    outcome = server.take(client.final(challenge.token))
    assert outcome.user == "alice"
    assert client.is_servers(outcome.token)


@pytest.mark.parametrize(("user", "password"), [("alice", "pb"), ("nobody", "pa")])
def test_scram_fails_at_the_end_only(user: str, password: str) -> None:
    server = SaslServer(USERS)
    server.choose("SCRAM-SHA-512")
    client = ScramClient("SCRAM-SHA-512", user, password, "mine")
    challenge = server.take(client.first())
    assert not challenge.reason
    assert server.take(client.final(challenge.token)).reason


def test_an_unknown_mechanism_may_be_followed_by_a_known_one() -> None:
    server = SaslServer(USERS)
    assert not server.choose("GSSAPI")
    assert server.state is SaslState.NEW
    assert server.choose("PLAIN")


def prove(server: SaslServer, token: bytes, mechanism: str = "PLAIN") -> str:
    assert server.choose(mechanism)
    return server.take(token).reason


def test_a_client_may_prove_again_who_it_is_and_is_nobody_else_then() -> None:
    server = SaslServer(USERS)
    assert not prove(server, plain("alice", "pa"))
    assert not prove(server, plain("alice", "pa"))
    assert "another user" in prove(server, plain("bob", "pb"))
    assert server.user == "alice"
    assert server.state is SaslState.FAILED


def test_by_a_delegation_token_of_another_owner_a_client_is_nobody_else_either() -> None:
    mechanism = "SCRAM-SHA-512"
    keys = keys_of(mechanism, ALICE, SALT, 4096)

    def login(_: str, token_id: str) -> TokenLogin:
        return TokenLogin(keys=keys, owner=token_id.partition("-")[0], expires_ms=1_000)

    server = SaslServer(replace(USERS, tokens=login))
    told: list[tuple[str | None, bool, str]] = []
    for token_id in ("alice-1", "alice-2", "bob-1"):
        assert server.choose(mechanism)
        client = ScramClient(mechanism, token_id, "pa", "mine", is_token=True)
        outcome = server.take(client.final(server.take(client.first()).token))
        told.append((outcome.user, outcome.is_token, outcome.reason))
    assert told == [("alice", True, "")] * 2 + [(None, False, "another user than before")]
    assert server.user == "alice"


def test_a_client_proves_again_by_the_same_mechanism() -> None:
    server = SaslServer(USERS)
    assert not prove(server, plain("alice", "pa"))
    client = ScramClient("SCRAM-SHA-512", "alice", "pa", "mine")
    assert "another mechanism" in prove(server, client.first(), "SCRAM-SHA-512")


@given(st.lists(st.binary(max_size=60), max_size=4), st.sampled_from(USERS.mechanisms))
def test_no_tokens_let_anybody_in(tokens: list[bytes], mechanism: str) -> None:
    server = SaslServer(USERS)
    server.choose(mechanism)
    assert all(server.take(token).user is None for token in tokens)


def test_passwords_are_looked_up_when_they_are_needed() -> None:
    known: dict[str, bytes] = {}
    passwords: Callable[[], dict[str, bytes]] = lambda: known  # noqa: E731  as the setting is
    users = SaslUsers(mechanisms=("PLAIN",), passwords=passwords, keys=find, new_nonce=lambda: "")
    first, second = SaslServer(users), SaslServer(users)
    assert prove(first, plain("dora", "pd"))
    known["dora"] = digest_of("pd")
    assert not prove(second, plain("dora", "pd"))
