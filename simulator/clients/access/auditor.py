"""Looks at every broker: does it know the rules, and no others, once nobody changes any more?

    during faults    no rule and no user that nobody has ever asked for
    at the end       each broker, within the time that all has to become available in: the rules
                     and users that were acknowledged, and users of several rounds may what these
                     rules come to: who was allowed to is not denied for ever

What was left without an answer may be there or not.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from penstock.access.rules import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    Rule,
)
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.access.administrator import SCRAM, Administrator, Round, root
from simulator.clients.access.drawing import Filter
from simulator.clients.access.login import NotLetIn, open_as
from simulator.clients.access.questions import ask_some
from simulator.clients.access.session import Session
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld, pause
from simulator.run.topology import ROOT

ANONYMOUS = "User:ANONYMOUS"
"""All other clients of a run."""
LOOK_SECONDS = (0.6, 1.2)
ROUNDS_ASKED = 3
QUESTIONS = 6


def first_rules() -> list[Rule]:
    """Return the rules by which all other clients of a run may what they do."""
    names = {
        AclResource.TOPIC: WILDCARD,
        AclResource.GROUP: WILDCARD,
        AclResource.TRANSACTIONAL_ID: WILDCARD,
        AclResource.CLUSTER: CLUSTER_NAME,
    }
    return [
        Rule(
            resource_type=resource,
            resource_name=name,
            pattern=AclPattern.LITERAL,
            principal=ANONYMOUS,
            host=WILDCARD,
            operation=AclOperation.ALL,
            permission=AclPermission.ALLOW,
        )
        for resource, name in names.items()
    ]


async def make_first_rules(world: ClientWorld, draw: Random) -> None:
    """Add them; returns when they are acknowledged."""
    while True:
        try:
            host = draw.choice(list(world.brokers.values()))
            session = await Session.open(root(draw), host, draw)
            codes = await session.create(first_rules())
            session.close()
            if all(code == ErrorCode.NONE for code in codes):
                return
        except LinkFailed:
            pass
        await pause(draw)


@dataclass(slots=True, kw_only=True)
class Auditor:
    """See the module."""

    world: ClientWorld
    name: str
    random: Random
    administrators: list[Administrator]
    left: dict[str, str] = field(default_factory=dict)
    """Hosts of brokers that do not say at the end what they should, and what they say."""

    def __post_init__(self) -> None:
        """Nobody has been looked at."""
        self.left = dict.fromkeys(self.world.brokers.values(), "not looked at")

    def behind(self) -> Iterator[str]:
        """Name the brokers that do not know yet who may what."""
        for host, why in self.left.items():
            yield f"{host}: {why}"

    async def run(self) -> None:
        """Go on until the run is over."""
        while not self.world.is_over:
            await asyncio.sleep(self.random.uniform(*LOOK_SECONDS))
            for host in self.world.brokers.values():
                is_final = all(one.is_done for one in self.administrators)
                why = await self._look(host, is_final=is_final)
                if not is_final:
                    continue
                if why:
                    self.left[host] = why
                else:
                    self.left.pop(host, None)

    @property
    def _rounds(self) -> list[Round]:
        return [each for one in self.administrators for each in one.rounds]

    async def _look(self, host: str, *, is_final: bool) -> str:
        """Return what is missing there, or why nothing can be said."""
        rounds = self._rounds
        try:
            session = await Session.open(root(self.random), host, self.random)
            told = await session.describe(Filter())
            users = await session.users([])
            session.close()
            missing = self._missing(host, set(told), users)
            if missing or not is_final:
                return missing
            for this in self.random.sample(rounds, min(ROUNDS_ASKED, len(rounds))):
                if why := await self._ask(host, this):
                    return why
        except LinkFailed as error:
            return repr(error)
        return ""

    def _missing(self, host: str, told: set[Rule], users: dict[str, set[int]]) -> str:
        """Refuse what can never have been there; return what is not as it should be at the end."""
        ever = set(first_rules())
        certain = set(ever)
        may_be = set(ever)
        for this in self._rounds:
            ever.update(*(page.there | page.loose for page in this.book.pages))
            last = this.book.last
            certain |= last.there - last.loose
            may_be |= last.there | last.loose
        # A change that is under way is not in its book before it is answered.
        if all(one.is_done for one in self.administrators) and not told <= ever:
            self.world.refuse(f"{host} has a rule that nobody made: {min(map(repr, told - ever))}")
        if lost := certain - told:
            return f"lacks {min(map(repr, lost))}"
        if extra := told - may_be:
            return f"still has {min(map(repr, extra))}"
        return self._wrong_users(users)

    def _wrong_users(self, users: dict[str, set[int]]) -> str:
        if users.get(ROOT) != set(SCRAM.values()):
            return f"the first user has {users.get(ROOT)}"
        for this in self._rounds:
            may_be = {this.passwords.now, *this.passwords.loose}
            has = SCRAM[this.mechanism] in users.get(this.user, set())
            if (None not in may_be and not has) or (may_be == {None} and has):
                return f"mechanisms of {this.user}: {users.get(this.user)}"
        return ""

    async def _ask(self, host: str, this: Round) -> str:
        """Have the user of a round ask; return what no possible set of rules explains."""
        password = this.passwords.now
        if password is None:
            return ""
        try:
            link = await open_as(this.who(password), host, self.random)
        except NotLetIn:
            is_lost = not this.passwords.explains(password, is_let_in=False, is_current=True)
            return f"{this.user} is not let in" if is_lost else ""
        try:
            asker = this.asker._replace(host=f"client-{self.name}")
            told = await ask_some(link, asker, this.names.all, self.random, QUESTIONS)
        finally:
            link.close()
        for one in told:
            if not this.book.explains(one.decide, is_allowed=one.is_allowed, is_current=True):
                return one.text
        return ""
