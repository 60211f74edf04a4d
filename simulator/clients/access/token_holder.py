"""Makes delegation tokens as the first user, and logs in by them.

    a round    a token ─► renewed, ended sooner, removed, through any broker ─► after each change a
               login at the broker that has acknowledged it, and at another one
    elsewhere  a broker that tells the last acknowledged state of the token has to go by it; any
               other has to refuse it only once all it may know is over
    at the end a token that is renewed all the time is let in by each broker, within the time that
               all has to become available in, and one that was removed is not

Whoever is known by a token can not make one. Delegation tokens are taken by SCRAM on any listener
with SASL, so the simulated one, which has no TLS, is as good as another.

Source: KIP-48, KIP-373; what is judged stands in history/tokens.py.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from penstock.access.delegation import password_of
from penstock.access.scram import HASHES
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.access.administrator import root
from simulator.clients.access.login import Believed, NotLetIn, Who
from simulator.clients.access.session import Session
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld, pause
from simulator.history.tokens import REMOVED, Token
from simulator.run.topology import TOKEN_MS, WALL_START_MS

STEPS = (2, 6)
LIFETIMES_MS = (-1, 3_000, 9_000)
PERIODS_MS = (-1, 300, 1_500, 5_000)
REST_SECONDS = (0.2, 0.8)
LOOK_SECONDS = 0.3
MAKES_SHARE = 0.3
GONE = frozenset({ErrorCode.DELEGATION_TOKEN_NOT_FOUND, ErrorCode.DELEGATION_TOKEN_EXPIRED})
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


class Vague(LinkFailed):
    """Nobody has said what became of a token."""


def wall_ms() -> int:
    """Return what all wall clocks show."""
    return WALL_START_MS + int(asyncio.get_running_loop().time() * 1_000)


def _ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def _told(moment: datetime | int) -> int:
    """Return a time of an answer in ms; a description has it as a number."""
    return moment if isinstance(moment, int) else round(moment.timestamp() * 1_000)


@dataclass(slots=True, kw_only=True)
class TokenHolder:
    """See the module."""

    world: ClientWorld
    name: str
    random: Random
    judged: int = 0
    """Logins of which something was known."""
    let_in: int = 0
    left: dict[str, str] = field(default_factory=dict)
    """Hosts of brokers that do not do at the end what they should, and what they do."""

    def __post_init__(self) -> None:
        """Nobody has been looked at."""
        self.left = dict.fromkeys(self.world.brokers.values(), "no token was tried")

    def behind(self) -> Iterator[str]:
        """Name the brokers that do not know yet which token is good."""
        for host, why in self.left.items():
            yield f"tokens at {host}: {why}"

    async def run(self) -> None:
        """Take turns until told to stop, then look at each broker."""
        while not self.world.is_stopping and not self.world.is_over:
            try:
                await self._round()
            except LinkFailed:
                await pause(self.random)
            await asyncio.sleep(self.random.uniform(*REST_SECONDS))
        while self.left and not self.world.is_over:
            try:
                await self._look()
            except LinkFailed:
                await pause(self.random)
            await asyncio.sleep(LOOK_SECONDS)

    # --- requests ------------------------------------------------------------------------------

    async def _session(self, host: str = "") -> Session:
        host = host or self.random.choice(list(self.world.brokers.values()))
        return await Session.open(root(self.random), host, self.random)

    async def _create(self, session: Session, lifetime_ms: int) -> Token:
        """Make a token. Raises LinkFailed."""
        answer = await self._ask_for_one(session, lifetime_ms)
        if answer.error_code != ErrorCode.NONE:
            raise LinkFailed(f"no token is made: {answer.error_code!r}")
        return Token(
            token_id=answer.token_id,
            proof=bytes(answer.hmac),
            ends_ms=_told(answer.max_timestamp),
            expires_ms=_told(answer.expiry_timestamp),
        )

    async def _ask_for_one(self, session: Session, lifetime_ms: int) -> Any:
        owner = {"owner_principal_type": None, "owner_principal_name": None}
        fields = {"renewers": (), "max_lifetime": _ms(lifetime_ms), **owner}
        return await session.ask(ApiKey.CREATE_DELEGATION_TOKEN, fields)

    async def _renew(self, session: Session, token: Token, period_ms: int) -> None:
        fields = {"hmac": token.proof, "renew_period": _ms(period_ms)}
        period_ms = min(period_ms if period_ms > 0 else TOKEN_MS, TOKEN_MS)
        await self._change(session, token, ApiKey.RENEW_DELEGATION_TOKEN, fields, period_ms)

    async def _expire(self, session: Session, token: Token, period_ms: int) -> None:
        fields = {"hmac": token.proof, "expiry_time_period": _ms(period_ms)}
        key = ApiKey.EXPIRE_DELEGATION_TOKEN
        await self._change(session, token, key, fields, period_ms)

    async def _change(
        self, session: Session, token: Token, key: ApiKey, fields: dict[str, Any], period_ms: int
    ) -> None:
        """Change a token. Raises Vague, LinkFailed."""
        began_ms = wall_ms()
        is_removal = period_ms < 0
        try:
            answer = await session.ask(key, fields)
        except LinkFailed as error:
            # It may be done later, by a controller that has a majority again.
            token.asked(REMOVED if is_removal else token.ends_ms)
            raise Vague(str(error)) from error
        code = answer.error_code
        if code in GONE:
            if min(token.may_be) > wall_ms() and not token.loose:
                self.world.refuse(f"{token.token_id} is said to be over or gone, and is good")
            raise LinkFailed("it is over")
        if code != ErrorCode.NONE:
            token.asked(REMOVED if is_removal else token.ends_ms)
            raise Vague(f"a token is answered with {code!r}")
        told_ms = _told(answer.expiry_timestamp)
        most_ms = min(wall_ms() + period_ms, token.ends_ms)
        if not is_removal and not min(began_ms + period_ms, token.ends_ms) <= told_ms <= most_ms:
            self.world.refuse(f"{token.token_id} is good until {told_ms}, not {most_ms}")
        token.changed(REMOVED if is_removal else told_ms)

    async def _told_of(self, session: Session, token: Token) -> int | None:
        """Return until when a broker says that a token is good; None if it has none."""
        answer = await session.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": None})
        if answer.error_code != ErrorCode.NONE:
            raise LinkFailed(f"tokens are not told: {answer.error_code!r}")
        for one in answer.tokens:
            if one.token_id == token.token_id:
                if bytes(one.hmac) != token.proof:
                    self.world.refuse(f"{token.token_id} is told with another HMAC")
                return _told(one.expiry_timestamp)
        return None

    async def _log_in(self, token: Token, host: str, followed: Session | None = None) -> bool:
        """Try a token; return whether it was let in. Raises LinkFailed.

        `followed`: a connection to a process there that knows the last state. It has answered
        before, and if it does so afterwards, the same process lives on, and has decided.
        """
        began_ms = wall_ms()
        is_let_in = await self._is_let_in(token, host)
        ended_ms, is_followed = wall_ms(), followed is not None
        if followed is not None:
            try:
                await followed.users([])
            except LinkFailed:
                is_followed = False
        wrong = token.wrong_login(
            is_let_in=is_let_in, began_ms=began_ms, ended_ms=ended_ms, is_followed=is_followed
        )
        self.judged += is_followed
        self.let_in += is_let_in
        if wrong:
            self.world.refuse(f"{token.token_id} {wrong}: {host}")
        return is_let_in

    async def _is_let_in(self, token: Token, host: str) -> bool:
        mechanism, password = self.random.choice(list(HASHES)), password_of(token.proof)
        who = Who(user=token.token_id, password=password, mechanism=mechanism, is_token=True)
        try:
            session = await Session.open(who, host, self.random)
        except NotLetIn:
            return False
        except Believed:
            self.world.refuse(f"{token.token_id} is let in by {host} without its keys")
            return True
        await self._make_by_token(session)
        return True

    async def _make_by_token(self, session: Session) -> None:
        try:
            if self.random.random() < MAKES_SHARE:
                answer = await self._ask_for_one(session, -1)
                if answer.error_code != NOT_ALLOWED:
                    self.world.refuse(f"a token makes a token: {answer.error_code!r}")
        except LinkFailed:
            pass  # the login is over by then
        finally:
            session.close()

    # --- a round -------------------------------------------------------------------------------

    async def _round(self) -> None:
        session = await self._session()
        try:
            token = await self._create(session, self.random.choice(LIFETIMES_MS))
            await self._try(session, token)
            for _ in range(self.random.randint(*STEPS)):
                if self.world.is_stopping:
                    return
                await session.stay()
                change = self.random.choice((self._renew, self._renew, self._expire))
                await change(session, token, self.random.choice(PERIODS_MS))
                await self._try(session, token)
                await asyncio.sleep(self.random.uniform(*REST_SECONDS))
                await self._try(session, token)
                if token.expires_ms == REMOVED:
                    return
        finally:
            session.close()

    async def _try(self, session: Session, token: Token) -> None:
        """Log in where the last change was acknowledged, and elsewhere. Raises LinkFailed."""
        now_ms = wall_ms()
        told_ms = await self._told_of(session, token)
        if wrong := token.wrong_description(told_ms, now_ms=now_ms):
            self.world.refuse(f"{token.token_id} {wrong}: {session.host}")
        await self._log_in(token, session.host, session)
        await self._elsewhere(token)

    async def _elsewhere(self, token: Token) -> None:
        """Log in at some broker; it is known to have followed if it tells the last state."""
        host = self.random.choice(list(self.world.brokers.values()))
        try:
            session = await self._session(host)
        except LinkFailed:
            return
        try:
            told_ms = await self._told_of(session, token)
            has_followed = (told_ms or REMOVED) == token.expires_ms
            await self._log_in(token, host, session if has_followed else None)
        except LinkFailed:
            return
        finally:
            session.close()

    # --- at the end ----------------------------------------------------------------------------

    async def _look(self) -> None:
        """Try a good token and one that was removed at each broker. Raises LinkFailed."""
        session = await self._session()
        try:
            good, gone = await self._create(session, -1), await self._create(session, -1)
            await self._expire(session, gone, -1)
        finally:
            session.close()
        await asyncio.sleep(LOOK_SECONDS)
        for host in list(self.left):
            if not await self._log_in(good, host):
                self.left[host] = "a good one is not let in"
            elif await self._log_in(gone, host):
                self.left[host] = "one that was removed is let in"
            else:
                del self.left[host]
