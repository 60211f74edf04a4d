"""A client that pushes metrics of itself (KIP-714), and the operator who says which.

    a visit   a broker, often another one than before ─► perhaps another subscription ─► what is
              asked of the client ─► pushes, one an interval, zipped or not ─► away
    amid      a push or a question too early, for what was never asked, that is no push, a last one
    at last   each broker is asked what it wants of a client that it does not know yet

A client that does as it is told is never refused for good: told that it was too early it waits an
interval more, a few times at most, since the clock of a broker that was suspended has stood still.

With rules on, half of the visits are those of a user; the client has quotas, by which pushes are
not held up. Source: docs/operations/client-metrics.md; `PushTelemetry` of KIP-714.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.quotas.keys import QuotaKey
from penstock.telemetry.subscriptions import id_text
from simulator.clients.access.administrator import root
from simulator.clients.access.login import open_as
from simulator.clients.pushers.subscribed import Subscribed
from simulator.clients.pushers.telling import POINTS, Told, told, wrong
from simulator.clients.quotas.book import Entry, draw_entity
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import ClientWorld, open_link, pause
from simulator.history.pushes import Pushed, Verdict
from simulator.run.topology import PUSH_BYTES_MAX

VERSION = 0
NOBODY = UUID(int=0)
CODECS_ACCEPTED = {1, 2, 3, 4}
CHANGE_SHARE, REMOVAL_SHARE, MOVES_SHARE = 0.3, 0.3, 0.7
EARLY_SHARE, WRONG_SHARE, OLD_SHARE, LAST_SHARE = 0.15, 0.15, 0.1, 0.05
PUSHES = (2, 6)
WAIT = 1.05
"""Of an interval: clocks differ by some percent."""
EARLY_MAX = 5
"""So often in a row one that waits may be told that it was too early."""
REST_SECONDS = (0.05, 0.3)
LOOK_SECONDS = 0.3
EARLY, OTHER = ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.UNKNOWN_SUBSCRIPTION_ID
ANONYMOUS = "User:ANONYMOUS"
QUOTAS: dict[str, float | None] = {QuotaKey.PRODUCE: 100.0, QuotaKey.REQUEST: 200.0}


@dataclass(slots=True, kw_only=True)
class Visit:
    """One connection, and so one process of a broker."""

    link: BrokerLink
    node: int
    principal: str
    number: int
    began_s: float
    heard: int = 0
    """The newest change that was asked for."""
    asked: int = 0
    """What the broker called what it asks for."""
    interval_s: float = 0.0
    is_wanted: bool = False
    """Whether it asks for anything."""
    pushed_s: float = 0.0
    """When the last push was sent that was taken."""
    early: int = 0
    """How often in a row the client was too early, though it had waited."""


@dataclass(slots=True, kw_only=True)
class Pusher:
    """See the module."""

    world: ClientWorld
    name: str
    random: Random
    has_users: bool = False
    pushes: list[Pushed] = field(default_factory=list)
    verdicts: dict[str, int] = field(default_factory=dict)
    """How often each code was told, by its name; of what was asked and of what was pushed."""
    left: dict[str, str] = field(default_factory=dict)
    """Hosts of brokers that do not say at the end what they should, and what they say."""
    _now: Subscribed = field(init=False)
    _node: int = -1
    _count: int = 0
    _connections: int = 0
    _is_done: bool = False

    def __post_init__(self) -> None:
        """Nobody has been looked at."""
        self.left = dict.fromkeys(self.world.brokers.values(), "not looked at")
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._count += 1
        self._now = Subscribed(client_id=f"{self.name}-{self._count}", instance=self._new_id())

    def _new_id(self) -> UUID:
        return UUID(int=self.random.getrandbits(128))

    def behind(self) -> Iterator[str]:
        """Name the brokers that do not ask for what is configured."""
        for host, why in self.left.items():
            yield f"metrics of {self.name} at {host}: {why}"

    async def run(self) -> None:
        """Come and go until told to stop; half of the clients are asked for nothing then."""
        while not self.world.is_stopping and not self.world.is_over:
            try:
                await self._visit()
            except LinkFailed:
                await pause(self.random)
            if not self._now.is_certain:
                self._begin_anew()
            await asyncio.sleep(self.random.uniform(*REST_SECONDS))
        is_removal = self.random.random() < 0.5
        before = len(self._now.changes)
        while len(self._now.changes) == before and not self.world.is_over:
            try:
                visit = await self._open(self.random.choice(list(self.world.brokers)))
                await self._now.change(visit.link, self.random, is_removal=is_removal)
                visit.link.close()
            except LinkFailed:
                await pause(self.random)
            if not self._now.is_certain:
                self._begin_anew()
                before = len(self._now.changes)
        self._is_done = True

    async def _open(self, node: int) -> Visit:
        principal = ANONYMOUS
        if self.has_users and self.random.random() < 0.5:
            who = root(self.random)
            link, principal = (
                await open_as(who, self.world.brokers[node], self.random),
                who.principal,
            )
        else:
            link = await open_link(self.world, node)
        self._connections += 1
        now_s = asyncio.get_running_loop().time()
        return Visit(
            link=link,
            node=node,
            principal=principal,
            number=self._connections,
            began_s=now_s,
        )

    async def _visit(self) -> None:
        if self._node < 0 or self.random.random() < MOVES_SHARE:
            self._node = self.random.choice(list(self.world.brokers))
        visit = await self._open(self._node)
        visit.link.client_id = self._now.client_id
        try:
            if len(self._now.changes) == 1:
                entity = draw_entity(self._now.client_id, self.random)
                await Entry(self._now.client_id, entity).alter(visit.link, QUOTAS)
            if len(self._now.changes) == 1 or self.random.random() < CHANGE_SHARE:
                is_removal = self.random.random() < REMOVAL_SHARE
                await self._now.change(visit.link, self.random, is_removal=is_removal)
            await self._ask(visit)
            for _ in range(self.random.randint(*PUSHES)):
                if not visit.is_wanted or self.world.is_stopping:
                    break
                await self._turn(visit)
        except LinkFailed:
            # What nobody has answered may be heard later, and let that one ask or push once more.
            self._now.instance = self._new_id()
            raise
        finally:
            visit.link.close()

    async def _turn(self, visit: Visit) -> None:
        """Push as asked; or as nobody may, and see that it is refused and costs nothing."""
        draw = self.random.random()
        if draw < OLD_SHARE:
            await self._refused(visit, OTHER, number=visit.asked ^ 1)
        elif (draw := draw - OLD_SHARE) < WRONG_SHARE:
            points = self._points()
            bad = wrong(points, self.random)
            await self._refused(visit, bad.code, bad, points=points)
            await self._wait(visit)
        elif (draw := draw - WRONG_SHARE) < LAST_SHARE:
            await self._last(visit)
        elif await self._push(visit):
            if draw - LAST_SHARE < EARLY_SHARE:
                await self._too_early(visit)
            await self._wait(visit)

    async def _wait(self, visit: Visit) -> None:
        await asyncio.sleep(visit.interval_s * WAIT)

    # --- what is asked -------------------------------------------------------------------------

    async def _get(self, visit: Visit, instance: UUID | None) -> tuple[ErrorCode, Any]:
        fields = {"client_instance_id": instance}
        answer = await visit.link.call(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, VERSION, fields)
        code = ErrorCode(answer.error_code)
        self._note(visit, "get", code, answer)
        return code, answer

    async def _ask(self, visit: Visit, *, is_told_to: bool = False) -> None:
        """Hear what is asked of the client; too early may be one that was here before.

        One that an error has told to ask is never too early.
        """
        while True:
            given = self._now.instance
            code, answer = await self._get(visit, given)
            if code is ErrorCode.NONE:
                break
            if code is not EARLY or is_told_to or visit.early >= EARLY_MAX:
                self._complain(visit, f"asks, and is answered with {code.name}")
                raise visit.link.broken("refused")
            visit.early += 1
            await asyncio.sleep(max(wanted.interval_ms for wanted in self._now.changes) / 1_000)
        visit.early = 0
        self._take(visit, answer, given)

    def _take(self, visit: Visit, answer: Any, given: UUID) -> None:
        codecs = {int(one) for one in answer.accepted_compression_types}
        if answer.client_instance_id != given or not codecs >= CODECS_ACCEPTED:
            self._complain(visit, f"is answered as {answer.client_instance_id} with {codecs}")
        if answer.telemetry_max_bytes != PUSH_BYTES_MAX:
            self._complain(visit, f"is told {answer.telemetry_max_bytes} bytes")
        visit.heard, why = self._now.heard(answer, visit.heard)
        if why:
            self._complain(visit, why)
        visit.asked = answer.subscription_id
        visit.interval_s = answer.push_interval.total_seconds()
        visit.is_wanted = bool(answer.requested_metrics)
        if not visit.is_wanted:
            self._now.instance = self._new_id()  # who is asked for nothing asks in five minutes

    # --- what is pushed ------------------------------------------------------------------------

    def _points(self) -> dict[str, float]:
        """Return points that no push has had."""
        prefix = (*self._now.changes[-1].metrics, f"{self._now.client_id}.")[0]
        count, first = self.random.randint(*POINTS), len(self.pushes)
        return {f"{prefix}{first}/{at}": first + at / 8 for at in range(count)}

    async def _send(
        self, visit: Visit, number: int, what: Told, points: dict[str, float], *, is_last: bool
    ) -> ErrorCode:
        push = Pushed(
            instance=id_text(self._now.instance),
            client_id=visit.link.client_id,
            principal=visit.principal,
            node=visit.node,
            connection=(self.name, visit.number),
            began_s=visit.began_s,
            points=points,
        )
        self.pushes.append(push)
        fields = {
            "client_instance_id": self._now.instance,
            "subscription_id": number,
            "terminating": is_last,
            "compression_type": what.codec,
            "metrics": what.data,
        }
        answer = await visit.link.call(ApiKey.PUSH_TELEMETRY, VERSION, fields)
        code = ErrorCode(answer.error_code)
        push.verdict = Verdict.TAKEN if code is ErrorCode.NONE else Verdict.REFUSED
        self._note(visit, "push", code, answer)
        return code

    async def _push(self, visit: Visit, *, is_last: bool = False) -> bool:
        """Push what is asked for; returns whether it was taken. Asks anew where it has to."""
        points = self._points()
        what = told(points, self.random)
        pushed_s = asyncio.get_running_loop().time()
        code = await self._send(visit, visit.asked, what, points, is_last=is_last)
        if code is ErrorCode.NONE:
            visit.early, visit.pushed_s = 0, pushed_s
            return True
        if code is EARLY and not is_last and visit.early < EARLY_MAX:
            visit.early += 1
            await self._wait(visit)
        elif code is OTHER:
            before = visit.asked
            if not is_last:
                await self._ask(visit, is_told_to=True)
                if visit.asked == before:
                    self._complain(visit, f"is refused for {before}, and asked for the same")
        else:
            self._complain(visit, f"pushes as it was told, and is answered with {code.name}")
            raise visit.link.broken("refused")
        return False

    async def _refused(
        self,
        visit: Visit,
        code: ErrorCode,
        what: Told | None = None,
        *,
        number: int | None = None,
        points: dict[str, float] | None = None,
    ) -> None:
        """Push what may not be taken: it is too early, for something else, or refused as due."""
        points = self._points() if points is None else points
        what = told(points, self.random) if what is None else what
        number = visit.asked if number is None else number
        answered = await self._send(visit, number, what, points, is_last=False)
        is_due = code is EARLY and answered is ErrorCode.NONE and not self._was_early(visit)
        if answered not in {code, EARLY, OTHER} and not is_due:
            self._complain(visit, f"pushes what is {code.name}, and is told {answered.name}")
        if answered is OTHER:
            await self._ask(visit, is_told_to=True)

    async def _too_early(self, visit: Visit) -> None:
        """Push, or ask, right after a push that was taken."""
        if self.random.random() < 0.5:
            await self._refused(visit, EARLY)
            return
        before, given = visit.heard, self._now.instance
        code, answer = await self._get(visit, given)
        if code is ErrorCode.NONE:
            self._take(visit, answer, given)
            if visit.heard == before and self._was_early(visit):
                self._complain(visit, "asks too early, and is answered")
        elif code is not EARLY:
            self._complain(visit, f"asks too early, and is told {code.name}")

    @staticmethod
    def _was_early(visit: Visit) -> bool:
        """Whether what is answered now came too early, however long it was on its way."""
        return asyncio.get_running_loop().time() - visit.pushed_s < visit.interval_s / WAIT

    async def _last(self, visit: Visit) -> None:
        """Push for the last time, which is never too early, and once more; then be another one."""
        await self._push(visit, is_last=True)
        points = self._points()
        code = await self._send(
            visit,
            visit.asked,
            told(points, self.random),
            points,
            is_last=self.random.random() < 0.5,
        )
        if code is not ErrorCode.INVALID_REQUEST:
            self._complain(visit, f"pushes after its last time, and is told {code.name}")
        code, answer = await self._get(visit, self.random.choice((None, NOBODY)))
        if code is not ErrorCode.NONE or answer.client_instance_id in {None, NOBODY}:
            self._complain(visit, f"has no id, and is told {code.name}")
            raise visit.link.broken("no id")
        self._now.instance = answer.client_instance_id
        self._take(visit, answer, self._now.instance)

    def _note(self, visit: Visit, what: str, code: ErrorCode, answer: Any) -> None:
        name = f"{what} {code.name}"
        self.verdicts[name] = self.verdicts.get(name, 0) + 1
        if answer.throttle_time:
            self._complain(visit, f"is told to wait {answer.throttle_time}")

    def _complain(self, visit: Visit, what: str) -> None:
        self.world.refuse(f"{visit.link.client_id} at {visit.link.host} {what}", visit.link.host)

    # --- at last -------------------------------------------------------------------------------

    async def look(self) -> None:
        """Once nothing is configured any more: look at each broker until it asks for that."""
        while self.left and not self.world.is_over:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._is_done:
                continue
            for node, host in self.world.brokers.items():
                if host not in self.left:
                    continue
                try:
                    self.left[host] = await self._missing(node)
                except LinkFailed as error:
                    self.left[host] = repr(error)
                if not self.left[host]:
                    del self.left[host]

    async def _missing(self, node: int) -> str:
        """Be a client that no broker knows: it may push at once if there is anything to push."""
        self._now.instance = self._new_id()
        visit = await self._open(node)
        visit.link.client_id = self._now.client_id
        try:
            await self._ask(visit)
            wanted = self._now.changes[-1]
            if self._now.changes[visit.heard].metrics != wanted.metrics:
                return f"{self._now.changes[visit.heard]} is asked for, and not {wanted}"
            if not wanted.metrics:
                await self._refused(visit, OTHER, number=visit.asked ^ 1)
            elif not await self._push(visit):
                return "a push is not taken"
        finally:
            visit.link.close()
        return ""
