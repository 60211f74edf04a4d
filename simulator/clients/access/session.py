"""One administrator's or user's connection to one broker, kept while it works.

Two answers on the same connection come from the same process, and no other process of that broker
lived between them: what is asked of the broker in between is asked of that process.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from penstock.access.rules import Rule
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.access.drawing import Filter, rule_fields, rule_told
from simulator.clients.access.login import Who, open_as, prove
from simulator.clients.wire import BrokerLink, LinkFailed

VERSIONS = {
    ApiKey.CREATE_ACLS: 3,
    ApiKey.DELETE_ACLS: 3,
    ApiKey.DESCRIBE_ACLS: 3,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.CREATE_DELEGATION_TOKEN: 3,
    ApiKey.RENEW_DELEGATION_TOKEN: 2,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 2,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 3,
}
CHANGE_SECONDS = 2.5
AGAIN_SECONDS = (1.2, 2.0)
"""After so long a client proves again who it is; the listener asks for it after 3 s."""


@dataclass(slots=True, kw_only=True)
class Session:
    """See the module."""

    link: BrokerLink
    who: Who
    host: str
    random: Random
    again_s: float = 0.0
    """When to prove again who one is."""

    @classmethod
    async def open(cls, who: Who, host: str, draw: Random) -> "Session":
        """Connect. Raises NotLetIn, LinkFailed."""
        session = cls(link=await open_as(who, host, draw), who=who, host=host, random=draw)
        session._wait()
        return session

    def _wait(self) -> None:
        self.again_s = asyncio.get_running_loop().time() + self.random.uniform(*AGAIN_SECONDS)

    async def stay(self, who: Who | None = None) -> None:
        """Prove again who one is, if it is time, by the password there is now.

        Raises NotLetIn, LinkFailed.
        """
        self.who = self.who if who is None else who
        if asyncio.get_running_loop().time() >= self.again_s:
            await prove(self.link, self.who, self.random)
            self._wait()

    async def ask(self, key: ApiKey, fields: Mapping[str, Any]) -> Any:
        """Ask and return the answer. Raises LinkFailed."""
        return await self.link.call(key, VERSIONS[key], fields, wait_s=CHANGE_SECONDS)

    def close(self) -> None:
        """Leave."""
        self.link.close()

    # --- rules ---------------------------------------------------------------------------------

    async def create(self, rules: Iterable[Rule]) -> list[int]:
        """Add rules; return their codes. Raises LinkFailed."""
        answer = await self.ask(
            ApiKey.CREATE_ACLS, {"creations": [rule_fields(rule) for rule in rules]}
        )
        return [one.error_code for one in answer.results]

    async def delete(self, wanted: Filter) -> tuple[int, set[Rule]]:
        """Remove rules; return the code and those that are gone. Raises LinkFailed."""
        answer = await self.ask(ApiKey.DELETE_ACLS, {"filters": [wanted.fields()]})
        (result,) = answer.filter_results
        return result.error_code, {rule_told(one, one) for one in result.matching_acls}

    async def describe(self, wanted: Filter) -> list[Rule]:
        """Return the rules that a filter finds. Raises LinkFailed."""
        answer = await self.ask(ApiKey.DESCRIBE_ACLS, wanted.fields())
        if answer.error_code != ErrorCode.NONE:
            raise LinkFailed(f"rules are not told: {answer.error_code!r}")
        return [
            rule_told(resource, entry) for resource in answer.resources for entry in resource.acls
        ]

    async def users(self, names: list[str]) -> dict[str, set[int]]:
        """Return the mechanisms of these users, or of all. Raises LinkFailed."""
        wanted = {"users": [{"name": name} for name in names] or None}
        answer = await self.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, wanted)
        return {
            one.user: {int(info.mechanism) for info in one.credential_infos}
            for one in answer.results
        }
