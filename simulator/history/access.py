"""What rules of access come to, and what a broker may decide that has followed them so far.

    acknowledged     the rule is there, or not, for whoever has seen that change
    no answer        the rule may come or go at any later time: it is loose from then on

`decides` looks at every rule for each question; it shares nothing with the authoriser that it
judges but the rules themselves. A broker decides by some prefix of the metadata log, so that a
`Book` keeps what was known after each change. One client changes the rules of a book, one after
the other.

Source: KIP-11, KIP-290, KIP-679; Kafka `StandardAuthorizerData` (order, implied operations).
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import NamedTuple

from penstock.access.rules import (
    EVERYBODY,
    WILDCARD,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    Rule,
)

LOOSE_MAX = 6
"""Rules of unknown fate in one book: 64 sets are compared for each answer."""

_INCLUDED_IN = {
    AclOperation.DESCRIBE: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}


class Question(NamedTuple):
    """May `principal`, from `host`, do this with the resource of this name?"""

    principal: str
    host: str
    operation: AclOperation
    resource: AclResource
    name: str


def decides(rules: Collection[Rule], asked: Question) -> bool:
    """Return what the rules say, where some rule is about the resource; no rule permits nothing."""
    matching = [rule for rule in rules if _is_about(rule, asked)]
    named = (AclOperation.ALL, asked.operation)
    included = (*named, *_INCLUDED_IN.get(asked.operation, ()))
    if any(one.permission is AclPermission.DENY and one.operation in named for one in matching):
        return False
    return any(
        one.permission is AclPermission.ALLOW and one.operation in included for one in matching
    )


def _is_about(rule: Rule, asked: Question) -> bool:
    if rule.resource_type is not asked.resource:
        return False
    if rule.principal not in {asked.principal, EVERYBODY} or rule.host not in {
        asked.host,
        WILDCARD,
    }:
        return False
    if rule.pattern is AclPattern.PREFIXED:
        return asked.name.startswith(rule.resource_name)
    return rule.resource_name in {asked.name, WILDCARD}


def decides_some(rules: Collection[Rule], asked: Question) -> bool:
    """Return whether there could be a name for which the answer is yes, by trying such names.

    `asked.name` is a name that no rule has. Nothing is implied: an allowed operation that includes
    this one does not count.
    """
    exact = [
        rule
        for rule in rules
        if rule.resource_type is asked.resource
        and rule.operation in {asked.operation, AclOperation.ALL}
    ]
    names = {asked.name} | {rule.resource_name for rule in exact}
    names |= {f"{rule.resource_name}{asked.name}" for rule in exact}
    return any(decides(exact, asked._replace(name=name)) for name in sorted(names))


Decide = Callable[[Collection[Rule]], bool]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the rules after a change: these are there, and perhaps some of `loose`."""

    there: frozenset[Rule] = frozenset()
    loose: frozenset[Rule] = frozenset()

    def sets(self) -> Iterator[frozenset[Rule]]:
        """Yield every set of rules that there may be."""
        ordered = sorted(self.loose, key=repr)
        certain = self.there - self.loose
        for some in chain.from_iterable(
            combinations(ordered, count) for count in range(len(ordered) + 1)
        ):
            yield certain.union(some)

    def may_decide(self, decide: Decide, *, is_allowed: bool) -> bool:
        """Whether some possible set of rules decides so."""
        return any(decide(rules) is is_allowed for rules in self.sets())

    def may_be_found(self, finds: Callable[[Rule], bool], told: Collection[Rule]) -> bool:
        """Whether these can be all the rules that a filter finds."""
        certain = {rule for rule in self.there - self.loose if finds(rule)}
        return certain <= set(told) <= self.there | self.loose


@dataclass(slots=True)
class Book:
    """The rules of one client, with what was known after each of its changes."""

    pages: list[Known] = field(default_factory=lambda: [Known()])

    @property
    def last(self) -> Known:
        """What is known by now."""
        return self.pages[-1]

    @property
    def is_vague(self) -> bool:
        """Whether too much is of unknown fate to go on."""
        return len(self.last.loose) > LOOSE_MAX - 3

    def added(self, rules: Iterable[Rule], *, is_known: bool) -> None:
        """Note that rules were added, or that nobody has said so."""
        self._turn(there=self.last.there.union(rules), loose=() if is_known else rules)

    def removed(self, rules: Iterable[Rule], *, is_known: bool) -> None:
        """Note that rules were removed, or that nobody has said so."""
        gone = frozenset(rules)
        if is_known:
            self._turn(there=self.last.there - gone, loose=())
        else:
            self._turn(there=self.last.there, loose=gone & (self.last.there | self.last.loose))

    def _turn(self, *, there: frozenset[Rule], loose: Iterable[Rule]) -> None:
        self.pages.append(Known(there, self.last.loose.union(loose)))

    def explains(self, decide: Decide, *, is_allowed: bool, is_current: bool) -> bool:
        """Whether a broker may decide so; `is_current`: it has followed all that was acknowledged.

        Otherwise it may have stopped to follow after any change.
        """
        pages = self.pages[-1:] if is_current else self.pages
        return any(page.may_decide(decide, is_allowed=is_allowed) for page in reversed(pages))


@dataclass(slots=True)
class Passwords:
    """The password of one user and mechanism; None: there is no such credential."""

    now: str | None = None
    loose: set[str | None] = field(default_factory=set)
    """What it may have become by a change without an answer."""
    ever: set[str] = field(default_factory=set)
    """All that it may have been."""

    def changed(self, password: str | None, *, is_known: bool) -> None:
        """Note a change, or that nobody has said whether it was made."""
        if password is not None:
            self.ever.add(password)
        if is_known:
            self.now = password
        else:
            self.loose.add(password)

    def explains(self, password: str, *, is_let_in: bool, is_current: bool) -> bool:
        """Whether a broker may let this password in, or not; see `Book.explains`."""
        if not is_current:
            return password in self.ever or not is_let_in
        may_be = {self.now, *self.loose}
        return password in may_be if is_let_in else may_be != {password}
