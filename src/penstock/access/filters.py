"""A filter finds rules: each part is a value to be equal to, or leaves that part open.

    pattern   LITERAL, PREFIXED   rules of that pattern, with the name itself
              ANY                 rules of either pattern, with the name itself
              MATCH               rules that apply to the resource of that name

Source: Kafka `ResourcePatternFilter`, `AccessControlEntryFilter`; KIP-290 (MATCH).
"""

from enum import IntEnum
from typing import NamedTuple

from penstock.access.rules import (
    WILDCARD,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    Rule,
)


class PatternFilter(IntEnum):
    """How a filter compares names. The numbers are Kafka's."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class RuleFilter(NamedTuple):
    """See the module; None leaves a part open."""

    resource_type: AclResource | None = None
    resource_name: str | None = None
    pattern: PatternFilter = PatternFilter.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation | None = None
    permission: AclPermission | None = None

    def matches(self, rule: Rule) -> bool:
        """Whether the filter finds the rule."""
        return (
            self.principal in {None, rule.principal}
            and self.resource_type in {None, rule.resource_type}
            and self.host in {None, rule.host}
            and self.operation in {None, rule.operation}
            and self.permission in {None, rule.permission}
            and self._matches_name(rule)
        )

    def _matches_name(self, rule: Rule) -> bool:
        if self.pattern > PatternFilter.MATCH and int(self.pattern) != int(rule.pattern):
            return False
        wanted = self.resource_name
        if wanted is None or wanted == rule.resource_name:
            return True
        if self.pattern is not PatternFilter.MATCH:
            return False
        if rule.pattern is AclPattern.PREFIXED:
            return wanted.startswith(rule.resource_name)
        return rule.resource_name == WILDCARD

    def only_rule(self) -> Rule | None:
        """Return the only rule that the filter can find, if it leaves no part open."""
        kind, name, operation = self.resource_type, self.resource_name, self.operation
        if kind is None or name is None or operation is None:
            return None
        if self.principal is None or self.host is None or self.permission is None:
            return None
        if self.pattern <= PatternFilter.MATCH:
            return None
        return Rule(
            resource_type=kind,
            resource_name=name,
            pattern=AclPattern(self.pattern),
            principal=self.principal,
            host=self.host,
            operation=operation,
            permission=self.permission,
        )
