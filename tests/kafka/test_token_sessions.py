"""A session that a token has begun ends with the token, or earlier where a setting says so."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from penstock.access.bearer import Bearer
from penstock.access.errors import MalformedToken
from penstock.access.sasl import SaslUsers
from penstock.kafka.handlers.access.sasl_authenticate import handle
from penstock.kafka.sasl.session import SESSION_MS_MIN, SaslPorts, SaslSession
from penstock.net.errors import CloseKind
from penstock.net.tls.failed_logins import FailedLogins
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.access.provider import message
from tests.net.minutes import Minutes

NOW_MS = 1_000_000
FAILED_MS = 100
METADATA = memoryview(int(ApiKey.METADATA).to_bytes(2, "big") + bytes(8))
HANDSHAKE = memoryview(int(ApiKey.SASL_HANDSHAKE).to_bytes(2, "big") + bytes(8))


@dataclass
class Time:
    """Both clocks, which are no two views of one: the wall clock may jump."""

    wall: int = NOW_MS
    monotonic: int = 7

    def wall_ms(self) -> int:
        return self.wall

    def monotonic_ms(self) -> int:
        return self.monotonic

    def monotonic_us(self) -> int:
        return self.monotonic * 1000


@dataclass
class Peer:
    """What a session needs of its connection."""

    client_host: str = "10.0.0.1"
    principal: str = "User:ANONYMOUS"
    state: None = None
    guard: object = None
    ended: list[CloseKind] = field(default_factory=list)

    def end(self, kind: CloseKind) -> None:
        self.ended.append(kind)


def check(token: str) -> Bearer:
    """Return what a token of the form `user.end` says."""
    user, _, end = token.partition(".")
    if user == "bad":
        raise MalformedToken("a bad one")
    return Bearer(user, int(end))


class Session:
    """A session with the time, the connection and the timers that it sees."""

    def __init__(self, session_ms_max: int = 0) -> None:
        self.time, self.peer = Time(), Peer()
        self.later: list[tuple[int, Callable[[], object]]] = []
        users = SaslUsers(
            mechanisms=("OAUTHBEARER",),
            keys=lambda *_: pytest.fail("no user has a password here"),
            new_nonce=str,
            bearer=check,
        )
        ports = SaslPorts(
            users=users,
            clock=self.time,
            scheduler=self,  # type: ignore[arg-type]
            session_ms_max=session_ms_max,
            failed_ms=FAILED_MS,
            failures=FailedLogins(Minutes()),
        )
        self.session = SaslSession(self.peer, ports)  # type: ignore[arg-type]
        self.peer.guard = self.session

    def ask(self, token: bytes) -> tuple[object, object, object]:
        """Return the code, the text and the token of the answer to SaslAuthenticate."""
        answers: list[dict[str, object]] = []
        body = SimpleNamespace(auth_bytes=token)
        request = SimpleNamespace(connection=self.peer, api_version=2, body=body)
        handle(None, request, answers.append)  # type: ignore[arg-type]
        [answer] = answers
        return answer["error_code"], answer["error_message"], answer["auth_bytes"]

    def call_later(self, delay_ms: int, act: Callable[[], object]) -> None:
        self.later.append((delay_ms, act))

    def prove(self, user: str, end_ms: int) -> str | None:
        assert self.session.choose("OAUTHBEARER", is_bare=False)
        return self.session.take(message(f"{user}.{end_ms}")).user


@pytest.mark.parametrize(
    ("session_ms_max", "left_ms", "expected_ms"),
    [
        (0, 60_000, 60_000),
        (90_000, 60_000, 60_000),
        (30_000, 60_000, 30_000),
        (0, 500, SESSION_MS_MIN),
        (0, -20_000, SESSION_MS_MIN),
    ],
)
def test_a_session_is_as_long_as_its_token(
    session_ms_max: int, left_ms: int, expected_ms: int
) -> None:
    one = Session(session_ms_max)
    assert one.prove("alice", NOW_MS + left_ms) == "alice"
    assert one.session.session_ms == expected_ms
    assert one.peer.principal == "User:alice"
    assert one.peer.guard is one.session  # it watches on
    one.time.monotonic += expected_ms
    one.time.wall += 10**9  # what the wall clock does meanwhile does not matter
    assert one.session.lets(METADATA)
    one.time.monotonic += 1
    assert not one.session.lets(METADATA)
    assert one.peer.ended == [CloseKind.AUTHENTICATION]


def test_a_session_goes_on_with_a_new_token_of_the_same_user() -> None:
    one = Session()
    one.prove("alice", NOW_MS + 60_000)
    assert not one.session.may_choose()
    one.time.monotonic += 59_000
    one.time.wall += 59_000
    assert one.session.may_choose()
    assert one.prove("alice", NOW_MS + 180_000) == "alice"
    assert one.session.session_ms == 121_000
    one.time.monotonic += 121_000
    assert one.session.lets(METADATA)


def test_a_session_that_is_over_may_be_renewed_and_nothing_else() -> None:
    one = Session()
    one.prove("alice", NOW_MS + 60_000)
    one.time.monotonic += 61_000
    assert one.session.lets(HANDSHAKE)
    assert not one.session.lets(METADATA)


@pytest.mark.parametrize("user", ["bob", "bad"])
def test_another_user_or_a_bad_token_does_not_renew_it(user: str) -> None:
    one = Session()
    one.prove("alice", NOW_MS + 60_000)
    one.time.monotonic += 2_000
    assert one.prove(user, NOW_MS + 60_000) is None
    assert one.peer.principal == "User:alice"
    one.session.take(b"\x01")
    assert not one.session.lets(METADATA)


def test_a_bad_token_proves_nothing() -> None:
    one = Session()
    assert one.prove("bad", NOW_MS) is None
    assert one.peer.principal == "User:ANONYMOUS"
    assert not one.session.lets(METADATA)


def test_who_shows_a_bad_token_is_not_told_of_passwords() -> None:
    one = Session()
    assert one.session.choose("OAUTHBEARER", is_bare=False)
    assert one.ask(message("bad.0")) == (Code.NONE, None, b'{"status":"invalid_token"}')
    said = "Authentication failed: the token is not valid, or its time is over."
    assert one.ask(b"\x01") == (Code.SASL_AUTHENTICATION_FAILED, said, b"")
    [(delay_ms, _)] = one.later
    assert delay_ms == FAILED_MS
