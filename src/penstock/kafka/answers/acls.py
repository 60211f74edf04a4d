"""Rules and filters of access as requests and answers have them.

Source: Kafka `CreateAclsRequest`, `DescribeAclsRequest`, `DeleteAclsRequest`, which end the
connection where a number is unknown; here the entry is refused.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, TypeVar

from penstock.access.filters import PatternFilter, RuleFilter
from penstock.access.rules import AclOperation, AclPattern, AclPermission, AclResource, Rule
from penstock.controller.errors import InvalidMetadataRequest

E = TypeVar("E", bound=IntEnum)

_ANY = 1
"""Of resource types, operations and permissions: no matter which."""


def rule_of(created: Any) -> Rule:
    """Return the rule that an entry of CreateAcls says. Raises InvalidMetadataRequest."""
    return Rule(
        resource_type=_known(AclResource, created.resource_type, "resource type"),
        resource_name=created.resource_name,
        pattern=_known(AclPattern, created.resource_pattern_type, "pattern type"),
        principal=created.principal,
        host=created.host,
        operation=_known(AclOperation, created.operation, "operation"),
        permission=_known(AclPermission, created.permission_type, "permission type"),
    )


def filter_of(asked: Any) -> RuleFilter:
    """Return the filter of DescribeAcls, or of an entry of DeleteAcls.

    Raises InvalidMetadataRequest.
    """
    return RuleFilter(
        resource_type=_open(AclResource, asked.resource_type_filter, "resource type"),
        resource_name=asked.resource_name_filter,
        pattern=_known(PatternFilter, asked.pattern_type_filter, "pattern type"),
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=_open(AclOperation, asked.operation, "operation"),
        permission=_open(AclPermission, asked.permission_type, "permission type"),
    )


def resource_fields(rule: Rule) -> dict[str, object]:
    """Return which resources a rule is about."""
    return {
        "resource_type": rule.resource_type,
        "resource_name": rule.resource_name,
        "pattern_type": rule.pattern,
    }


def entry_fields(rule: Rule) -> Mapping[str, object]:
    """Return who may, or may not, do what."""
    return {
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation,
        "permission_type": rule.permission,
    }


def _open(kind: type[E], number: int, what: str) -> E | None:
    return None if number == _ANY else _known(kind, number, what)


def _known(kind: type[E], number: int, what: str) -> E:
    try:
        return kind(number)
    except ValueError:
        raise InvalidMetadataRequest(f"Invalid {what} {number}") from None
