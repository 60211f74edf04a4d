"""The server's side of SASL on one connection, sans-IO: which answer follows which request.

    NEW ── handshake(known mechanism) ─► CHOSEN ── token ─► … ── token ─► AUTHENTICATED
     └─ unknown mechanism: the list             │                              │
                 wrong: FAILED, for good ◄──────┘                 handshake ─► CHOSEN

A client that has proved who it is may do so again, as the same user by the same mechanism. A
failure says nothing of its reason to the client; `reason` is for the log. By SCRAM a delegation
token proves its owner instead (KIP-48).

Source: Kafka `SaslServerAuthenticator`; KIP-43 (several mechanisms), KIP-152 (tokens in requests),
KIP-368 (again). Not here: time, error codes, and what may be asked before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import NamedTuple

from penstock.access.bearer import REFUSAL, Bearer, BearerServer
from penstock.access.delegation import TokenLogin
from penstock.access.errors import MalformedToken
from penstock.access.plain import plain_user
from penstock.access.scram import HASHES, ScramKeys, ScramServer

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
BY_PASSWORD = (PLAIN, *HASHES)
MECHANISMS = (*BY_PASSWORD, OAUTHBEARER)
"""All that are built."""
TOKEN_BYTES_MAX = 512 << 10
"""Kafka's `sasl.server.max.receive.size`."""


class SaslState(Enum):
    """Where an exchange is."""

    NEW = auto()
    CHOSEN = auto()
    AUTHENTICATED = auto()
    FAILED = auto()


class Outcome(NamedTuple):
    """The answer to a token: more to come, or done with a user; or a reason why not."""

    token: bytes = b""
    user: str | None = None
    reason: str = ""
    expires_ms: int | None = None
    """When the proof ends, in ms of the wall clock; None: never."""
    is_token: bool = False
    """Whether a delegation token is the proof; the user is its owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslUsers:
    """What proofs are checked against; all of it may change at any time."""

    mechanisms: tuple[str, ...]
    passwords: Callable[[], Mapping[str, bytes]] = field(default=dict, repr=False)
    """Users of PLAIN with the digests of their passwords."""
    keys: Callable[[str, str], ScramKeys]
    """(mechanism, user) -> keys, which fit no password if there is no such user."""
    new_nonce: Callable[[], str]
    bearer: Callable[[str], Bearer] | None = None
    """Checks tokens of OAUTHBEARER; None where that is not among the mechanisms."""
    tokens: Callable[[str, str], TokenLogin] | None = None
    """(mechanism, id) -> whom a delegation token lets in; nobody if there is no such token."""

    def __post_init__(self) -> None:
        assert (OAUTHBEARER in self.mechanisms) <= (self.bearer is not None)


class SaslServer:
    """See the module; one for each connection."""

    __slots__ = ("_bearer", "_login", "_scram", "_users", "mechanism", "state", "user")

    def __init__(self, users: SaslUsers) -> None:
        self._users = users
        self._scram: ScramServer | None = None
        self._bearer: BearerServer | None = None
        self._login: TokenLogin | None = None
        self.state = SaslState.NEW
        self.mechanism = self.user = ""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """What a client may choose from."""
        return self._users.mechanisms

    def choose(self, mechanism: str) -> bool:
        """Begin an exchange; False if the mechanism is unknown here."""
        assert self.state in {SaslState.NEW, SaslState.AUTHENTICATED}, self.state
        if mechanism not in self._users.mechanisms:
            return False
        if self.mechanism and mechanism != self.mechanism:
            self.state = SaslState.FAILED
            return True  # the token that follows fails, as in Kafka
        self.mechanism = mechanism
        self._forget()
        if mechanism == OAUTHBEARER:
            assert self._users.bearer is not None, "it is among the mechanisms"
            self._bearer = BearerServer(self._users.bearer)
        if mechanism in HASHES:
            self._scram = self._new_scram(mechanism)
        self.state = SaslState.CHOSEN
        return True

    def take(self, token: bytes) -> Outcome:
        """Take a token of the client."""
        if self.state is not SaslState.CHOSEN:
            return self._failed("another mechanism than before")
        try:
            outcome = self._step(token)
        except MalformedToken as error:
            return self._failed(str(error))
        if outcome.reason:
            return self._failed(outcome.reason)
        if outcome.user is not None:
            if self.user and outcome.user != self.user:
                return self._failed("another user than before")
            self.user = outcome.user
            self.state = SaslState.AUTHENTICATED
            self._forget()
        return outcome

    def _forget(self) -> None:
        self._scram = self._bearer = self._login = None

    def _new_scram(self, mechanism: str) -> ScramServer:
        find, find_token = self._users.keys, self._users.tokens

        def keys_of_token(token_id: str) -> ScramKeys:
            assert find_token is not None, "it is only asked where there are tokens"
            self._login = find_token(mechanism, token_id)
            return self._login.keys

        return ScramServer(
            mechanism,
            partial(find, mechanism),
            self._users.new_nonce(),
            None if find_token is None else keys_of_token,
        )

    def _step(self, token: bytes) -> Outcome:
        if self._bearer is not None:
            bearer = self._bearer.take(token)
            if bearer is None:
                return Outcome(REFUSAL)
            return Outcome(user=bearer.user, expires_ms=bearer.expires_ms)
        if self._scram is not None:
            return self._step_of_scram(self._scram, token)
        user = plain_user(token, self._users.passwords())
        return Outcome(reason="no such user and password") if user is None else Outcome(b"", user)

    def _step_of_scram(self, scram: ScramServer, token: bytes) -> Outcome:
        if not scram.has_begun:
            return Outcome(scram.first(token))
        answer = scram.final(token)
        if answer is None:
            kind = "token" if scram.is_token else "user"
            return Outcome(reason=f"a wrong proof for {kind} {scram.user[:100]!r}")
        login = self._login
        if login is None:
            return Outcome(answer, scram.user)
        assert login.owner is not None, "no proof fits what is nobody's"
        return Outcome(answer, login.owner, expires_ms=login.expires_ms, is_token=True)

    def _failed(self, reason: str) -> Outcome:
        self.state = SaslState.FAILED
        self._forget()
        return Outcome(reason=reason)
