"""`penstock quota`: how much clients may take."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.cli.connect import ADMIN_SECONDS, CommandFailed, TimeoutOption, connected
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
    from collections.abc import Mapping

    from penstock.quotas.entities import QuotaEntity

app = typer.Typer(help="List, set and delete quotas of users, client ids and addresses.")

COLUMNS = ("user", "client-id", "ip", "quota", "value")
DEFAULT = "<default>"
"""How the default of a kind is written and shown, as by Kafka's tools."""

UserOption = Annotated[
    str | None,
    typer.Option("--user", metavar="NAME", help=f"Of a user; {DEFAULT} for those without one."),
]
ClientOption = Annotated[
    str | None,
    typer.Option("--client-id", metavar="ID", help="Of a client id, alone or of the user's."),
]
AddressOption = Annotated[
    str | None, typer.Option("--ip", metavar="ADDRESS", help="Of connections from an address.")
]


@app.command(name="list")
def list_quotas(
    user: UserOption = None,
    client_id: ClientOption = None,
    ip: AddressOption = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """List quotas: all, or those of entities that have the named parts."""
    from penstock.client.quotas import Quotas
    from penstock.quotas.filters import Component, Match

    if ip is not None:
        _entity(None, None, ip)
    components = tuple(
        Component(kind, Match.DEFAULT if name is None else Match.EXACT, name)
        for kind, name in _parts(user, client_id, ip)
    )
    with connected(bootstrap, timeout) as cluster:
        found = Quotas(cluster).list(components)
    _print(found, output)


@app.command(name="set")
def set_quotas(
    values: Annotated[
        list[str],
        typer.Argument(
            metavar="QUOTA=VALUE",
            help="producer_byte_rate, consumer_byte_rate (bytes a second), request_percentage,"
            " controller_mutation_rate (partitions a second); connection_creation_rate (a second)"
            " with --ip.",
        ),
    ],
    user: UserOption = None,
    client_id: ClientOption = None,
    ip: AddressOption = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Set quotas of one entity, on each node; running nodes go by them at once."""
    from penstock.client.quotas import Quotas

    entity = _entity(user, client_id, ip)
    wanted = dict(map(_value, values))
    with connected(bootstrap, timeout) as cluster:
        Quotas(cluster).alter(entity, wanted)
    _print({entity: wanted}, output)


@app.command()
def delete(
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUOTA", help="Only these; without any all of the entity."),
    ] = None,
    user: UserOption = None,
    client_id: ClientOption = None,
    ip: AddressOption = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
) -> None:
    """Delete quotas of one entity."""
    from penstock.client.quotas import Quotas

    entity = _entity(user, client_id, ip)
    with connected(bootstrap, timeout) as cluster:
        quotas = Quotas(cluster)
        there = quotas.list().get(entity, {})
        gone = [key for key in keys or there if key in there]
        if not gone:
            raise CommandFailed("there is no such quota: see penstock quota list")
        quotas.alter(entity, dict.fromkeys(gone))
    note(f"{len(gone)} deleted")


def _parts(user: str | None, client_id: str | None, ip: str | None) -> list[tuple[str, str | None]]:
    given = {"user": user, "client-id": client_id, "ip": ip}
    return [
        (kind, None if name == DEFAULT else name)
        for kind, name in given.items()
        if name is not None
    ]


def _entity(user: str | None, client_id: str | None, ip: str | None) -> "QuotaEntity":
    """Return whose quota it is. Raises ConfigError."""
    from penstock.quotas.entities import entity_of
    from penstock.quotas.errors import InvalidQuota

    parts = _parts(user, client_id, ip)
    if not parts:
        raise ConfigError("say whose: --user, --client-id, both of them, or --ip")
    try:
        return entity_of(parts)
    except InvalidQuota as error:
        raise ConfigError(str(error)) from error


def _value(text: str) -> tuple[str, float]:
    from penstock.quotas.keys import QuotaKey

    key, _, number = text.partition("=")
    if key not in {*QuotaKey}:
        raise ConfigError(f"QUOTA=VALUE: {quoted(text)} is none of {', '.join(QuotaKey)}")
    try:
        return key, float(number)
    except ValueError as error:
        raise ConfigError(f"QUOTA=VALUE: {quoted(text)} has no number") from error


def _print(found: "Mapping[QuotaEntity, Mapping[str, float]]", output: Output) -> None:
    rows = []
    for entity, values in found.items():
        parts = {str(kind): DEFAULT if name is None else name for kind, name in entity}
        whose = {kind: parts.get(kind, "") for kind in COLUMNS[:3]}
        rows += [
            {**whose, "quota": key, "value": int(value) if value == int(value) else value}
            for key, value in sorted(values.items())
        ]
    print_rows(sorted(rows, key=lambda row: [str(one) for one in row.values()]), COLUMNS, output)
