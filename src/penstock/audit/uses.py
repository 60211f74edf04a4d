"""Which permission a row of the audit shows to be used.

    produce to a partition          write topic NAME
    fetch from a partition          read topic NAME
    allowed OPERATION RESOURCE      that, on NAME

Words are those of rows: lower case, as `Operation` and `Resource` of the broker are called.

Source: docs/requirements.md G-26; Kafka `AclEntry.operationsImplied` for what is in another.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from penstock.audit.row import ALLOWED, NO_PARTITION, TEXT_KEPT_MAX, Row

BY_API: Final[Mapping[str, str]] = {"produce": "write", "fetch": "read"}
_IMPLIED_BY: Final[Mapping[str, frozenset[str]]] = {
    "describe": frozenset({"read", "write", "delete", "alter"}),
    "describe_configs": frozenset({"alter_configs"}),
}
"""Permissions that come with others on the same resource."""


class Use(NamedTuple):
    """Somebody did something with a resource, and may."""

    principal: str
    resource: str
    name: str
    operation: str

    @property
    def is_cut(self) -> bool:
        """Whether a text may have been longer than rows keep, so that it names nothing."""
        return max(len(self.principal), len(self.name)) >= TEXT_KEPT_MAX


def use_of(row: Row) -> Use | None:
    """Return the use that a row shows; None where it shows none."""
    who, operation, name, partition = row.key
    word, _, rest = operation.partition(" ")
    if word == ALLOWED and row.counts["requests"]:
        done, _, resource = rest.partition(" ")
        return Use(who.principal, resource, name, done)
    if partition != NO_PARTITION and operation in BY_API and row.counts["requests"]:
        return Use(who.principal, "topic", name, BY_API[operation])
    return None


def needed(uses: Iterable[Use]) -> list[Use]:
    """Return the uses in order, without those that come with others."""
    every = set(uses)
    return sorted(
        use
        for use in every
        if not any(
            use._replace(operation=more) in every
            for more in _IMPLIED_BY.get(use.operation, frozenset())
        )
    )
