"""ACLs are added and removed.

A rule stands in the log once, under an id of 16 random bytes; whoever adds it again changes
nothing. Rules are removed by id: a broker finds them by the client's filters in its own image.

Source: Kafka `AclControlManager` (validateNewAcl, its texts), `AclApis` (the name of the cluster).
Who may ask is decided before (kafka/gate.py).
"""

from penstock.access.rules import CLUSTER_NAME, AclResource, Rule
from penstock.base.errors import as_answer
from penstock.controller.commands.access.commands import AclOutcome, AddAcls, RemoveAcls
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.errors import (
    FeatureLevelTooLow,
    InvalidMetadataRequest,
    MetadataPolicyViolation,
    RefusedCommand,
)
from penstock.controller.metadata.config_records import CONFIGURATION_LEVEL, AclAdded, AclRemoved
from penstock.controller.metadata.levels import METADATA

ACLS_MAX = 20_000
"""All processes hold them in memory, 1.4 KB each in a broker, which indexes those of a snapshot in
one turn of the loop: 7 us each."""
TEXT_CHARACTERS_MAX = 1_024
"""Of the name, the principal and the host of a rule."""


def add_acls(context: CommandContext, command: AddAcls) -> Result[tuple[AclOutcome, ...]]:
    """Add what is not there yet, rule by rule."""
    known = context.image.configuration.acl_ids
    new: dict[Rule, AclAdded] = {}
    outcomes: list[AclOutcome] = []
    for rule in command.acls:
        error: RefusedCommand | None = None
        try:
            _check(context, rule)
            if rule not in known and rule not in new:
                _check_count(len(known) + len(new))
                new[rule] = _record(context.new_topic_id(), rule)
        except RefusedCommand as refused:
            error = as_answer(refused)
        outcomes.append(AclOutcome(error=error))
    return Result(tuple(outcomes), tuple(new.values()))


def remove_acls(context: CommandContext, command: RemoveAcls) -> Result[tuple[bytes, ...]]:
    """Remove what is there."""
    known = context.image.configuration.acls
    found = [acl_id for acl_id in dict.fromkeys(command.acl_ids) if acl_id in known]
    return Result(tuple(found), tuple(AclRemoved(acl_id=acl_id) for acl_id in found))


def _check(context: CommandContext, rule: Rule) -> None:
    level = context.image.metadata_level
    if level < CONFIGURATION_LEVEL:
        raise FeatureLevelTooLow(METADATA, CONFIGURATION_LEVEL, level)
    if not rule.resource_name:
        raise InvalidMetadataRequest("Resource name should not be empty")
    if rule.resource_type is AclResource.CLUSTER and rule.resource_name != CLUSTER_NAME:
        raise InvalidMetadataRequest(
            f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        )
    kind, colon, name = rule.principal.partition(":")
    if not (kind and colon and name):
        raise InvalidMetadataRequest(
            f"Could not parse principal from `{rule.principal[:100]}` (write User:NAME)"
        )
    if not rule.host:
        raise InvalidMetadataRequest("The host is empty: write an address, or * for all")
    for text in (rule.resource_name, rule.principal, rule.host):
        if len(text) > TEXT_CHARACTERS_MAX:
            raise InvalidMetadataRequest(
                f"Names, principals and hosts of ACLs have {TEXT_CHARACTERS_MAX} characters at most"
            )


def _check_count(count: int) -> None:
    if count >= ACLS_MAX:
        raise MetadataPolicyViolation(
            f"There are {ACLS_MAX} ACLs already: remove some, or use prefixes."
        )


def _record(acl_id: bytes, rule: Rule) -> AclAdded:
    return AclAdded(
        acl_id=acl_id,
        resource_type=rule.resource_type,
        resource_name=rule.resource_name,
        pattern=rule.pattern,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission=rule.permission,
    )
