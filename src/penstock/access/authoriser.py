"""The authoriser that decides by rules, and remembers its decisions.

    question ─► young decisions ─► old ones ─► super user? ─► the index ─► remembered as young

A full table of young decisions becomes the old one, and the old one is dropped: what is asked often
stays, and memory has a bound. Any change of the rules drops both.

Source: Kafka `StandardAuthorizer`, `AclAuthorizer` (super.users, allow.everyone.if.no.acl.found);
KIP-679 (`permits_some`).
"""

from collections.abc import Iterable
from typing import Final, Protocol

from penstock.access.config import AccessConfig
from penstock.access.index import RuleIndex, Verdict, host_key
from penstock.access.rules import Rule

DECISIONS_MAX: Final = 10_000
"""In each of the two tables; one takes about 300 bytes."""
NAME_CHARACTERS_KEPT: Final = 255
"""Longer names are decided anew each time: those of topics have 249 characters at most."""
_SOME_NAME: Final = "hardcode"
"""The name that Kafka asks for before it looks at rules one by one: super users are permitted, and
everybody where no rule is about any resource."""

_Question = tuple[str, str, int, int, str | None]


class Asker(Protocol):
    """Who asks."""

    @property
    def principal(self) -> str: ...

    @property
    def host(self) -> str: ...


class AclAuthoriser:
    """An Authoriser (broker/access.py). Follows the rules by `change`."""

    permits_all = False

    __slots__ = ("_index", "_old", "_super_users", "_without_rules", "_young", "generation")

    def __init__(self, config: AccessConfig) -> None:
        self._super_users = frozenset(config.super_users)
        self._without_rules = config.allow_everyone_if_no_acl_found
        self._index = RuleIndex()
        self.generation = 0
        """How often the rules have changed: whoever keeps a decision drops it then."""
        self._young: dict[_Question, bool] = {}
        self._old: dict[_Question, bool] = {}

    @property
    def decision_count(self) -> int:
        """Decisions that are remembered."""
        return len(self._young) + len(self._old)

    def change(
        self, added: Iterable[tuple[bytes, Rule]], removed: Iterable[tuple[bytes, Rule]]
    ) -> None:
        """Follow a change of the rules, by id."""
        for acl_id, rule in removed:
            self._index.remove(acl_id, rule)
        for acl_id, rule in added:
            self._index.add(acl_id, rule)
        self._young, self._old = {}, {}
        self.generation += 1

    def permits(self, who: Asker, operation: int, resource: int, name: str) -> bool:
        """Whether the operation is permitted on the resource of this name."""
        question = (who.principal, who.host, operation, resource, name)
        known = self._young.get(question)
        return self._decided(question) if known is None else known

    def permits_some(self, who: Asker, operation: int, resource: int) -> bool:
        """Whether the operation is permitted on any name, existing or not (KIP-679)."""
        question = (who.principal, who.host, operation, resource, None)
        known = self._young.get(question)
        return self._decided(question) if known is None else known

    def _decided(self, question: _Question) -> bool:
        principal, host, operation, resource, name = question
        decision = self._old.get(question)
        if decision is None:
            if name is None:
                decision = self._decide_some(principal, host_key(host), operation, resource)
            else:
                decision = self._decide(principal, host_key(host), operation, resource, name)
        if name is None or len(name) <= NAME_CHARACTERS_KEPT:
            if len(self._young) >= DECISIONS_MAX:
                self._young, self._old = {}, self._young
            self._young[question] = decision
        return decision

    def _decide(self, principal: str, host: str, operation: int, resource: int, name: str) -> bool:
        if principal in self._super_users:
            return True
        verdict = self._index.verdict(principal, host, operation, resource, name)
        return self._without_rules if verdict is Verdict.NO_RULES else verdict is Verdict.ALLOWED

    def _decide_some(self, principal: str, host: str, operation: int, resource: int) -> bool:
        if self._decide(principal, host, operation, resource, _SOME_NAME):
            return True
        return self._index.allows_some(principal, host, operation, resource)
