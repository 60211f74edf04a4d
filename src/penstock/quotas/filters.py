"""Which entities a description asks for.

    exact      this name                       default     the default of the kind
    specified  any of the kind, by name or default
    strict     and the entity has no other part

Without strict an entity that has more parts is found too.

Source: KIP-546; Kafka `ClientQuotasImage.describe`, whose texts are taken.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from penstock.quotas.entities import KINDS, QuotaEntity, QuotaKind, address_of
from penstock.quotas.errors import InvalidQuota, UnknownEntityKind


class Match(IntEnum):
    """How a part is compared; the numbers are Kafka's."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


_NAMES: Final = {int(one): f"MATCH_TYPE_{one.name}" for one in Match}


class Component(NamedTuple):
    """One part of a filter, as a request has it."""

    kind: str
    match: int
    name: str | None = None


class QuotaFilter(NamedTuple):
    """A filter that was checked."""

    named: Mapping[QuotaKind, str | None]
    """Names by kind; None is the default."""
    any_of: frozenset[QuotaKind]
    is_strict: bool

    def matches(self, entity: QuotaEntity) -> bool:
        """Whether the entity is asked for."""
        parts = {part.kind: part.name for part in entity}
        if self.is_strict and len(parts) != len(self.named) + len(self.any_of):
            return False
        return all(kind in parts for kind in self.any_of) and all(
            kind in parts and parts[kind] == name for kind, name in self.named.items()
        )


def filter_of(components: Iterable[Component], *, is_strict: bool) -> QuotaFilter:
    """Return the filter of a request. Raises InvalidQuota, UnknownEntityKind."""
    named: dict[QuotaKind, str | None] = {}
    any_of: set[QuotaKind] = set()
    for kind, match, name in components:
        if not kind:
            raise InvalidQuota("Invalid empty entity type.")
        if kind not in KINDS:
            raise UnknownEntityKind(f"Custom entity type {kind[:100]} not supported")
        which = QuotaKind(kind)
        if which in named or which in any_of:
            raise InvalidQuota(f"Entity type {kind} cannot appear more than once in the filter.")
        _check(match, name)
        if match == Match.SPECIFIED:
            any_of.add(which)
        else:
            named[which] = _as_kept(which, name)
    kinds = named.keys() | any_of
    if QuotaKind.IP in kinds and len(kinds) > 1:
        raise InvalidQuota(
            "Invalid entity filter component combination. IP filter component should not be used"
            " with user or clientId filter component."
        )
    return QuotaFilter(named, frozenset(any_of), is_strict)


def _as_kept(kind: QuotaKind, name: str | None) -> str | None:
    """Return a name as entities have it; an address that is none stays, and finds nothing."""
    if kind is not QuotaKind.IP or name is None:
        return name
    try:
        return address_of(name)
    except InvalidQuota:
        return name


def _check(match: int, name: str | None) -> None:
    text = _NAMES.get(match)
    if text is None:
        raise InvalidQuota(f"Unknown match type {match}")
    if match == Match.EXACT and name is None:
        raise InvalidQuota(f"Request specified {text}, but set match string to null.")
    if match != Match.EXACT and name is not None:
        raise InvalidQuota(f"Request specified {text}, but also specified a match string.")
