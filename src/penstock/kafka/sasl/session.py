"""SASL on one connection: the guard that frames pass, and what the two requests of SASL change.

    before     ApiVersions, SaslHandshake, SaslAuthenticate, and bare tokens after a handshake of
               version 0; anything else closes the connection
    after      everything, until the session is over where it has an end; then SaslHandshake alone

A failure is answered with the same text whatever was wrong, and the connection closed a little
later: clients that see the end first do not look at the answer. A client that has begun to prove
anew who it is, and has not within AGAIN_SECONDS, is closed; for the first proof it has
`net.unproven_seconds_max`.

Source: Kafka `SaslServerAuthenticator`, KIP-43, KIP-152, KIP-368 (sessions with an end),
`connection.failed.authentication.delay.ms`.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.access.sasl import TOKEN_BYTES_MAX, Outcome, SaslServer, SaslState, SaslUsers
from penstock.base.ports import Clock, Scheduler
from penstock.net.errors import CloseKind
from penstock.net.tls.failed_logins import FailedLogins
from penstock.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from penstock.net.connection import Connection

AGAIN_SECONDS = 30
"""For a proof that is not the first of its connection."""
AGAIN_MS_MIN = 1_000
"""Between two proofs of one session, as in Kafka."""
SESSION_MS_MIN = 2 * AGAIN_MS_MIN
"""Of a proof that is about to end, or has ended within the skew of clocks: time to prove anew."""
HEADER_BYTES_MAX = 64 << 10
"""Of a request with a token: its header has a client id."""
PERMITTED: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslPorts:
    """What the SASL sessions of one listener share."""

    users: SaslUsers
    clock: Clock
    scheduler: Scheduler
    session_ms_max: int
    """After so long a client has to prove anew who it is; 0: never."""
    failed_ms: int
    """Time from the answer to a failure to the end of the connection."""
    failures: FailedLogins


class SaslSession:
    """See the module. It is its connection's `guard`."""

    __slots__ = (
        "_connection",
        "_is_bare",
        "_is_shut",
        "_ports",
        "_proved_ms",
        "_seconds",
        "server",
        "session_ms",
    )

    def __init__(self, connection: "Connection", ports: SaslPorts) -> None:
        self._connection = connection
        self._ports = ports
        self.server = SaslServer(ports.users)
        self._is_bare = False
        self._is_shut = False
        self._seconds = 0
        self.session_ms = ports.session_ms_max
        """How long the client is known from its proof on; 0: for ever."""
        self._proved_ms: int | None = None
        """When the client has last proved who it is."""

    # --- the guard -----------------------------------------------------------------------------

    @property
    def takes_tokens(self) -> bool:
        """Whether the next frame is a bare token."""
        return self._is_bare and self.server.state is SaslState.CHOSEN

    @property
    def frame_bytes_max(self) -> int:
        """Largest frame before the client has proved who it is; after it the listener's counts."""
        return (1 << 31) if self._is_proved else TOKEN_BYTES_MAX + HEADER_BYTES_MAX

    def lets(self, frame: memoryview) -> bool:
        """See the module."""
        if self._is_shut:
            return False  # an earlier one has failed, and the end is due
        if self.takes_tokens:
            self._take_bare(bytes(frame))
            return False
        why_not = self._why_not(int.from_bytes(frame[:2], "big"), len(frame))
        if why_not:
            self._ports.failures.note(self._connection.client_host, f"closed: {why_not}")
            self._connection.end(CloseKind.AUTHENTICATION)
        return not why_not

    def is_late(self) -> bool:
        """Count a second; see `Guard`."""
        if self._is_proved:
            return False
        self._seconds += 1
        return self._seconds > AGAIN_SECONDS

    # --- what requests change ------------------------------------------------------------------

    def may_choose(self) -> bool:
        """Whether a mechanism may be chosen now: at first, and again where sessions have an end."""
        state = self.server.state
        if state is SaslState.AUTHENTICATED:
            assert self._proved_ms is not None, "a client that is known has proved it"
            waited = self._ports.clock.monotonic_ms() - self._proved_ms
            return self.session_ms > 0 and waited >= AGAIN_MS_MIN
        return state is SaslState.NEW

    def choose(self, mechanism: str, *, is_bare: bool) -> bool:
        """Begin an exchange; False if the mechanism is unknown here."""
        is_known = self.server.choose(mechanism)
        if is_known:
            self._is_bare = is_bare
            self._seconds = 0
        return is_known

    def take(self, token: bytes) -> Outcome:
        """Take a token; a user whom it proves is the connection's principal from here on."""
        if len(token) > TOKEN_BYTES_MAX:
            self.server.state = SaslState.FAILED
            outcome = Outcome(reason="a token that is too large")
        else:
            outcome = self.server.take(token)
        if outcome.user is not None:
            self._prove(f"User:{outcome.user}", outcome)
        elif outcome.reason:
            why = f"not authenticated by {self.server.mechanism}: {outcome.reason}"
            self._ports.failures.note(self._connection.client_host, why)
        return outcome

    def fail(self) -> None:
        """Close later, so that the client reads why; what comes until then is dropped."""
        self._is_shut = True
        end = partial(self._connection.end, CloseKind.AUTHENTICATION)
        self._ports.scheduler.call_later(self._ports.failed_ms, end)

    # --- parts ---------------------------------------------------------------------------------

    @property
    def _is_proved(self) -> bool:
        return self.server.state is SaslState.AUTHENTICATED

    def _is_over(self) -> bool:
        if not self.session_ms or self._proved_ms is None:
            return False
        now_ms = self._ports.clock.monotonic_ms()
        return now_ms - self._proved_ms > self.session_ms

    def _prove(self, principal: str, outcome: Outcome) -> None:
        self.session_ms = self._ports.session_ms_max
        if outcome.expires_ms is not None:
            left_ms = max(SESSION_MS_MIN, outcome.expires_ms - self._ports.clock.wall_ms())
            self.session_ms = min(self.session_ms or left_ms, left_ms)
        connection = self._connection
        connection.principal, connection.is_by_token = principal, outcome.is_token
        if connection.state is not None:
            connection.state.principal = principal
            connection.state.is_by_token = outcome.is_token
            connection.state.is_unproven = False
        self._proved_ms = self._ports.clock.monotonic_ms()
        if not self.session_ms:
            connection.guard = None  # nothing is left to be asked

    def _take_bare(self, token: bytes) -> None:
        slot = self._connection.reserve()
        outcome = self.take(token)
        if outcome.reason:
            slot.skip()
            self.fail()
        else:
            slot.send(len(outcome.token).to_bytes(4, "big") + outcome.token)

    def _why_not(self, key: int, size: int) -> str:
        """Return why a request is not handled; empty if it is."""
        if self._is_proved:
            is_over = self._is_over() and key != ApiKey.SASL_HANDSHAKE
            return "the session is over" if is_over else ""
        if key not in PERMITTED:
            return "the client has not said who it is"
        return "a token that is too large" if size > self.frame_bytes_max else ""
