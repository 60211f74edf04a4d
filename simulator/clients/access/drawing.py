"""Rules, filters and passwords that an administrator draws, and the fields that requests have.

Every round has names and a user of its own: what became of a change without an answer is a matter
of that round. Rules for everybody are about such names alone, so that nobody else is concerned.
"""

from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

from penstock.access.rules import (
    CLUSTER_NAME,
    EVERYBODY,
    WILDCARD,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    Rule,
)
from simulator.run.topology import TOPIC

ANY = 1
MATCH = 2
"""Of filters: rules that apply to a name."""
OTHER_HOST = "10.1.2.3"
DENY_SHARE = 0.25
PREFIX_SHARE = 0.35
EVERYBODY_SHARE = 0.2
HOSTS = (WILDCARD, WILDCARD, WILDCARD, OTHER_HOST)
OPERATIONS = {
    AclResource.TOPIC: (
        AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE,
        AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS,
    ),
    AclResource.GROUP: (
        AclOperation.ALL, AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE,
    ),
    AclResource.TRANSACTIONAL_ID: (
        AclOperation.ALL, AclOperation.WRITE, AclOperation.DESCRIBE,
    ),
    AclResource.CLUSTER: (
        AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.ALTER,
        AclOperation.IDEMPOTENT_WRITE, AclOperation.DESCRIBE_CONFIGS,
    ),
}  # fmt: skip
_KINDS = (AclResource.TOPIC, AclResource.TOPIC, *OPERATIONS)


class Names(NamedTuple):
    """The names of one round, and whom its rules are about."""

    prefix: str
    principal: str
    host: str
    """From where the user asks."""

    @property
    def own(self) -> tuple[str, str]:
        """Names that nobody else uses."""
        return f"{self.prefix}x", f"{self.prefix}y"

    @property
    def all(self) -> tuple[str, ...]:
        """What is asked about."""
        return (*self.own, TOPIC)


def draw_rule(names: Names, draw: Random) -> Rule:
    """Draw a rule of a round."""
    resource = draw.choice(_KINDS)
    principal, pattern = names.principal, AclPattern.LITERAL
    if resource is AclResource.CLUSTER:
        name = CLUSTER_NAME
    elif draw.random() < EVERYBODY_SHARE:
        principal, name = EVERYBODY, draw.choice(names.own)
    elif draw.random() < PREFIX_SHARE:
        pattern, name = AclPattern.PREFIXED, draw.choice((names.prefix, TOPIC[:3], names.own[0]))
    else:
        name = draw.choice((*names.all, WILDCARD))
    operation = draw.choice(OPERATIONS[resource])
    is_denied = draw.random() < DENY_SHARE
    if principal == EVERYBODY and operation in {AclOperation.ALL, AclOperation.WRITE}:
        is_denied = True  # who may write to some topic may have a producer id: all would
    return Rule(
        resource_type=resource,
        resource_name=name,
        pattern=pattern,
        principal=principal,
        host=draw.choice((*HOSTS, names.host)),
        operation=operation,
        permission=AclPermission.DENY if is_denied else AclPermission.ALLOW,
    )


class Filter(NamedTuple):
    """A filter of DescribeAcls and DeleteAcls; None leaves a part open."""

    principal: str | None = None
    resource: AclResource | None = None
    name: str | None = None
    pattern: int = ANY
    host: str | None = None
    operation: AclOperation | None = None
    permission: AclPermission | None = None

    def finds(self, rule: Rule) -> bool:
        """Whether the rule is one of those that are looked for."""
        wanted = (self.principal, self.resource, self.host, self.operation, self.permission)
        parts = (
            rule.principal, rule.resource_type, rule.host, rule.operation, rule.permission,
        )  # fmt: skip
        if any(a is not None and a != b for a, b in zip(wanted, parts, strict=True)):
            return False
        if self.pattern > MATCH and self.pattern != rule.pattern:
            return False
        if self.name is None or self.name == rule.resource_name:
            return True
        if self.pattern != MATCH:
            return False
        if rule.pattern is AclPattern.PREFIXED:
            return self.name.startswith(rule.resource_name)
        return rule.resource_name == WILDCARD

    def fields(self) -> dict[str, Any]:
        """Return what a request has."""
        return {
            "resource_type_filter": self.resource or ANY,
            "resource_name_filter": self.name,
            "pattern_type_filter": self.pattern,
            "principal_filter": self.principal,
            "host_filter": self.host,
            "operation": self.operation or ANY,
            "permission_type": self.permission or ANY,
        }


def exactly(rule: Rule) -> Filter:
    """Return the filter that finds this rule alone."""
    return Filter(
        rule.principal, rule.resource_type, rule.resource_name, rule.pattern, rule.host,
        rule.operation, rule.permission,
    )  # fmt: skip


def draw_filter(names: Names, draw: Random) -> Filter:
    """Draw a filter that finds rules of the round alone."""
    return draw.choice(
        (
            Filter(principal=names.principal),
            Filter(principal=names.principal, name=draw.choice(names.all), pattern=MATCH),
            Filter(principal=names.principal, permission=AclPermission.DENY),
            Filter(principal=names.principal, resource=AclResource.TOPIC),
            Filter(principal=names.principal, operation=AclOperation.READ, host=WILDCARD),
            Filter(resource=AclResource.TOPIC, name=draw.choice(names.own)),
        )
    )


def rule_fields(rule: Rule) -> Mapping[str, Any]:
    """Return an entry of CreateAcls."""
    return {
        "resource_type": rule.resource_type,
        "resource_name": rule.resource_name,
        "resource_pattern_type": rule.pattern,
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation,
        "permission_type": rule.permission,
    }


def rule_told(resource: Any, entry: Any) -> Rule:
    """Return the rule that an answer tells: its resource, and who may or may not do what."""
    return Rule(
        resource_type=AclResource(resource.resource_type),
        resource_name=resource.resource_name,
        pattern=AclPattern(resource.pattern_type),
        principal=entry.principal,
        host=entry.host,
        operation=AclOperation(entry.operation),
        permission=AclPermission(entry.permission_type),
    )
