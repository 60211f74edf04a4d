"""Rules of access (ACLs), for operators: add, find and remove them.

The active controller's broker is asked, so that what was just added is found.

Source: KIP-140, KIP-290. Adding a rule again, or removing one that is gone, is no failure, so that
a request without an answer is simply sent again.
"""

from collections.abc import Sequence
from typing import Any, Final

from penstock.access.filters import RuleFilter
from penstock.access.rules import AclOperation, AclPattern, AclPermission, AclResource, Rule
from penstock.client.cluster import Cluster, check_code
from penstock.protocol.api_keys import ApiKey

_ANY: Final = 1
"""Leaves a part of a filter open."""


class Acls:
    """The rules of a cluster, through a `Cluster` that the caller closes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def add(self, rules: Sequence[Rule]) -> None:
        """Add rules, or raise the error of the first that is refused: BrokerError."""
        creations = [
            {
                "resource_type": rule.resource_type,
                "resource_name": rule.resource_name,
                "resource_pattern_type": rule.pattern,
                "principal": rule.principal,
                "host": rule.host,
                "operation": rule.operation,
                "permission_type": rule.permission,
            }
            for rule in rules
        ]

        def attempt() -> None:
            connection = self._cluster.controller_connection()
            answer = connection.call(ApiKey.CREATE_ACLS, {"creations": creations})
            for result in answer.results:
                check_code(result.error_code, "adding rules", result.error_message)

        self._cluster.retry("adding rules", attempt)

    def find(self, wanted: RuleFilter) -> list[Rule]:
        """Return the rules that a filter finds, by resource. Raises BrokerError."""

        def attempt() -> list[Rule]:
            connection = self._cluster.controller_connection()
            answer = connection.call(ApiKey.DESCRIBE_ACLS, _fields(wanted))
            check_code(answer.error_code, "the rules", answer.error_message)
            return [_rule(one, acl) for one in answer.resources for acl in one.acls]

        return sorted(self._cluster.retry("the rules", attempt), key=_order)

    def remove(self, wanted: RuleFilter) -> list[Rule]:
        """Remove the rules that a filter finds; return those that this has removed.

        Raises BrokerError. Where a connection breaks, they may be fewer than are gone.
        """

        def attempt() -> list[Rule]:
            connection = self._cluster.controller_connection()
            (result,) = connection.call(
                ApiKey.DELETE_ACLS, {"filters": [_fields(wanted)]}
            ).filter_results
            check_code(result.error_code, "removing rules", result.error_message)
            return [_rule(acl, acl) for acl in result.matching_acls]

        return sorted(self._cluster.retry("removing rules", attempt), key=_order)


def _fields(wanted: RuleFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": wanted.resource_type or _ANY,
        "resource_name_filter": wanted.resource_name,
        "pattern_type_filter": wanted.pattern,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation or _ANY,
        "permission_type": wanted.permission or _ANY,
    }


def _rule(resource: Any, acl: Any) -> Rule:
    return Rule(
        resource_type=AclResource(resource.resource_type),
        resource_name=resource.resource_name,
        pattern=AclPattern(resource.pattern_type),
        principal=acl.principal,
        host=acl.host,
        operation=AclOperation(acl.operation),
        permission=AclPermission(acl.permission_type),
    )


def _order(rule: Rule) -> tuple[int, str, int, str, int]:
    return rule.resource_type, rule.resource_name, rule.pattern, rule.principal, rule.operation
