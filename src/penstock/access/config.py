"""Settings of the access room.

Source: Kafka's authorizer.class.name, super.users, allow.everyone.if.no.acl.found.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.base.errors import ConfigError


class AuthoriserKind(StrEnum):
    """Who decides what a client may do."""

    OFF = "off"
    ACL = "acl"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessConfig:
    """What clients may do. Use the same values on all brokers."""

    authorizer: AuthoriserKind = AuthoriserKind.OFF
    """Who decides (Kafka: authorizer.class.name): off (every client may do everything) or acl
    (rules that `penstock acl` and Kafka's tools add). A client that has not authenticated is
    User:ANONYMOUS."""

    super_users: tuple[str, ...] = ()
    """Principals that may do everything, such as User:admin (Kafka: super.users, with semicolons).
    Without one nobody could add the first rule. A name that contains a comma can be given in the
    file only."""

    allow_everyone_if_no_acl_found: bool = False
    """Permit what no rule is about, to everybody (Kafka: allow.everyone.if.no.acl.found). A rule
    for somebody then shuts out everybody else from that resource."""

    def __post_init__(self) -> None:
        """Check principals, and the relations between fields."""
        for user in self.super_users:
            kind, colon, name = user.partition(":")
            if not (kind.isalnum() and colon and name):
                raise ConfigError(f"access.super_users: {user!r} is no principal: write User:NAME")
        is_open = self.super_users or self.allow_everyone_if_no_acl_found
        if self.authorizer is AuthoriserKind.ACL and not is_open:
            raise ConfigError(
                "access.authorizer=acl needs a principal in access.super_users: without one nobody"
                " could add the first rule"
            )
