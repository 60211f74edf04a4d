"""`penstock acl`: rules of who may do what."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.access.rules import CLUSTER_NAME
from penstock.base.errors import ConfigError
from penstock.cli.connect import ADMIN_SECONDS, STREAM_SECONDS, TimeoutOption, connected
from penstock.cli.output import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    Output,
    OutputOption,
    note,
    print_rows,
)
from penstock.cli.values import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.access.filters import RuleFilter
    from penstock.access.rules import AclOperation, AclPattern, AclResource, Rule
    from penstock.audit.uses import Use

app = typer.Typer(help="Add, list and remove rules of who may do what (ACLs).")

COLUMNS = ("resource", "name", "pattern", "principal", "host", "operation", "permission")


class ResourceName(StrEnum):
    """The first half of RESOURCE."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"
    DELEGATION_TOKEN = "delegation-token"  # noqa: S105  the name of a type of resource
    USER = "user"


class OperationName(StrEnum):
    """The choices of --operation."""

    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster-action"
    DESCRIBE_CONFIGS = "describe-configs"
    ALTER_CONFIGS = "alter-configs"
    IDEMPOTENT_WRITE = "idempotent-write"
    CREATE_TOKENS = "create-tokens"
    DESCRIBE_TOKENS = "describe-tokens"
    TWO_PHASE_COMMIT = "two-phase-commit"


class PermissionName(StrEnum):
    """The choices of --permission."""

    ALLOW = "allow"
    DENY = "deny"


RESOURCE_HELP = (
    "TYPE:NAME, such as topic:orders, topic:orders-* for all that begin so, topic:* for all,"
    " group:NAME, transactional-id:NAME, user:NAME, delegation-token:NAME; or cluster."
)
ResourceArgument = Annotated[list[str], typer.Argument(metavar="RESOURCE", help=RESOURCE_HELP)]


@app.command()
def add(
    resources: ResourceArgument,
    operations: Annotated[
        list[OperationName],
        typer.Option(
            "--operation", metavar="OPERATION", help=f"Of {', '.join(OperationName)}; repeatable."
        ),
    ],
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="PRINCIPAL", help="User:NAME, or User:* for everybody; repeatable."),
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option(metavar="PRINCIPAL", help="The same, of who may not.")
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="Where they connect from; anywhere if left out."),
    ] = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Allow or deny operations on resources. A denial wins over whatever allows the same."""
    from penstock.access.rules import AclPermission, Rule
    from penstock.client.access.acls import Acls

    who = [(one, AclPermission.ALLOW) for one in allow or ()]
    who += [(one, AclPermission.DENY) for one in deny or ()]
    if not who:
        raise ConfigError("nobody is named: give --allow or --deny")
    rules = [
        Rule(
            resource_type=kind,
            resource_name=name,
            pattern=_pattern(is_prefix),
            principal=principal,
            host=address,
            operation=_operation(operation),
            permission=permission,
        )
        for kind, name, is_prefix in map(_resource, resources)
        for principal, permission in who
        for address in host or ("*",)
        for operation in operations
    ]
    with connected(bootstrap, timeout) as cluster:
        Acls(cluster).add(rules)
    _print(rules, output)


@app.command(name="list")
def list_acls(
    resource: Annotated[str | None, typer.Argument(metavar="RESOURCE", help=RESOURCE_HELP)] = None,
    principal: Annotated[str | None, typer.Option(metavar="PRINCIPAL")] = None,
    applying: Annotated[
        bool, typer.Option("--applying", help="All that apply to RESOURCE, by whatever pattern.")
    ] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the rules."""
    from penstock.access.filters import PatternFilter
    from penstock.client.access.acls import Acls

    wanted = _filter(resource)._replace(principal=principal)
    if applying:
        if resource is None:
            raise ConfigError("--applying: name the RESOURCE that they apply to")
        wanted = wanted._replace(pattern=PatternFilter.MATCH)
    with connected(bootstrap, timeout) as cluster:
        _print(Acls(cluster).find(wanted), output)


@app.command()
def remove(
    resource: Annotated[str | None, typer.Argument(metavar="RESOURCE", help=RESOURCE_HELP)] = None,
    principal: Annotated[str | None, typer.Option(metavar="PRINCIPAL")] = None,
    host: Annotated[str | None, typer.Option(metavar="ADDRESS")] = None,
    operation: Annotated[OperationName | None, typer.Option(metavar="OPERATION")] = None,
    permission: Annotated[PermissionName | None, typer.Option(metavar="allow|deny")] = None,
    every: Annotated[bool, typer.Option("--all", help="All rules there are.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove the rules that all of the options fit."""
    from penstock.access.rules import AclPermission
    from penstock.client.access.acls import Acls

    wanted = _filter(resource)._replace(
        principal=principal,
        host=host,
        operation=None if operation is None else _operation(operation),
        permission=None if permission is None else AclPermission[permission.name],
    )
    is_narrow = wanted != _filter(None)
    if is_narrow is every:
        raise ConfigError("say which rules: a RESOURCE or options, or else --all")
    with connected(bootstrap, timeout) as cluster:
        acls = Acls(cluster)
        found = acls.find(wanted)
        if found and not yes:
            if not sys.stdin.isatty():
                raise ConfigError("removing rules asks first: give --yes")
            _print(found, Output.TABLE)
            typer.confirm(f"Remove these {len(found)}?", abort=True, err=True)
        gone = acls.remove(wanted) if found else []
    _print(gone, output)
    note(f"{len(gone)} removed")


@app.command()
def propose(
    start: Annotated[
        str, typer.Option("--from", metavar="PLACE", help="beginning, or a time (ISO or @ms).")
    ] = "beginning",
    principal: Annotated[str | None, typer.Option(metavar="PRINCIPAL")] = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = STREAM_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print the rules that match what the audit saw in use, as commands that add them."""
    from penstock.cli.access.proposals import lines, uses_since

    if principal is not None and ":" not in principal:
        raise ConfigError(f"--principal {quoted(principal)}: write User:NAME")
    uses = uses_since(bootstrap, timeout, start, principal)
    if output is Output.JSON:
        _print([_rule(use) for use in uses], output)
        return
    for line in lines(uses):
        print(line)
    if not uses:
        note(f"the audit saw nothing that {principal or 'anybody'} was permitted since {start}")


def _rule(use: "Use") -> "Rule":
    from penstock.access.rules import AclOperation, AclPattern, AclPermission, AclResource, Rule

    return Rule(
        resource_type=AclResource[use.resource.upper()],
        resource_name=use.name,
        pattern=AclPattern.LITERAL,
        principal=use.principal,
        host="*",
        operation=AclOperation[use.operation.upper()],
        permission=AclPermission.ALLOW,
    )


def _resource(text: str) -> "tuple[AclResource, str, bool]":
    """Return type, name, and whether the name is a prefix. Raises ConfigError."""
    from penstock.access.rules import WILDCARD, AclResource

    kind, colon, name = text.partition(":")
    if kind not in list(ResourceName):
        known = ", ".join(ResourceName)
        raise ConfigError(f"RESOURCE {quoted(text)}: write TYPE:NAME, with a type of {known}")
    resource = AclResource[ResourceName(kind).name]
    if resource is AclResource.CLUSTER:
        if colon:
            raise ConfigError("RESOURCE cluster has no name")
        return resource, CLUSTER_NAME, False
    if not name:
        raise ConfigError(f"RESOURCE {quoted(text)}: write {kind}:NAME, or {kind}:* for all")
    is_prefix = name.endswith(WILDCARD) and name != WILDCARD
    return resource, name[:-1] if is_prefix else name, is_prefix


def _filter(text: str | None) -> "RuleFilter":
    from penstock.access.filters import PatternFilter, RuleFilter

    if text is None:
        return RuleFilter()
    kind, name, is_prefix = _resource(text)
    pattern = PatternFilter.PREFIXED if is_prefix else PatternFilter.LITERAL
    return RuleFilter(resource_type=kind, resource_name=name, pattern=pattern)


def _pattern(is_prefix: bool) -> "AclPattern":
    from penstock.access.rules import AclPattern

    return AclPattern.PREFIXED if is_prefix else AclPattern.LITERAL


def _operation(name: OperationName) -> "AclOperation":
    from penstock.access.rules import AclOperation

    return AclOperation[name.name]


def _print(rules: "Sequence[Rule]", output: Output) -> None:
    rows = [
        {
            "resource": ResourceName[rule.resource_type.name].value,
            "name": rule.resource_name,
            "pattern": rule.pattern.name.lower(),
            "principal": rule.principal,
            "host": rule.host,
            "operation": OperationName[rule.operation.name].value,
            "permission": rule.permission.name.lower(),
        }
        for rule in rules
    ]
    print_rows(rows, COLUMNS, output)
