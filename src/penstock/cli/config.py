"""`penstock config`: settings of topics and brokers, as the cluster has them."""

from enum import StrEnum
from typing import Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.cli.connect import ADMIN_SECONDS, TimeoutOption, connected
from penstock.cli.output import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    Output,
    OutputOption,
    note,
    print_json,
    print_rows,
)
from penstock.cli.topic import pairs
from penstock.cli.values import named

app = typer.Typer(help="Show and change settings of topics; show those of a broker.")


class Resource(StrEnum):
    """The kinds of resources that have settings."""

    TOPIC = "topic"
    BROKER = "broker"


ResourceArgument = Annotated[Resource, typer.Argument(metavar="topic|broker")]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Topic name, or broker id.", callback=named)
]


@app.command()
def describe(
    resource: ResourceArgument,
    name: NameArgument,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only what differs from the default.")
    ] = False,
    documentation: Annotated[
        bool, typer.Option("--documentation", help="With the meaning of each.")
    ] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show all settings of a topic or a broker, and where each value comes from."""
    from penstock.client.admin import Admin

    _check_name(resource, name)
    with connected(bootstrap, timeout) as cluster:
        entries = Admin(cluster).describe_configs(
            name, resource=_kind(resource), with_documentation=documentation
        )
    rows = [
        {
            "name": entry.name,
            "value": entry.value,
            "source": entry.source,
            "documentation": entry.documentation,
        }
        for entry in entries
        if not changed or entry.source != "default"
    ]
    columns = ("name", "value", "source", *(["documentation"] if documentation else []))
    print_rows(rows, columns, output)


@app.command(name="set")
def set_config(
    resource: ResourceArgument,
    name: NameArgument,
    settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE")],
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change settings, all or none."""
    from penstock.client.admin import Admin

    values = pairs(settings, flag="")
    _check_name(resource, name)
    with connected(bootstrap, timeout) as cluster:
        Admin(cluster).alter_configs(name, set_to=values, resource=_kind(resource))
    _done({"set": values}, f"set {', '.join(values)} of {resource} {name}", output)


@app.command()
def unset(
    resource: ResourceArgument,
    name: NameArgument,
    keys: Annotated[list[str], typer.Argument(metavar="KEY")],
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Reset settings to their defaults, all or none."""
    from penstock.client.admin import Admin

    _check_name(resource, name)
    with connected(bootstrap, timeout) as cluster:
        Admin(cluster).alter_configs(name, delete=keys, resource=_kind(resource))
    _done({"unset": keys}, f"unset {', '.join(keys)} of {resource} {name}", output)


def _done(document: object, text: str, output: Output) -> None:
    if output is Output.JSON:
        print_json(document)
    else:
        note(text)


def _kind(resource: Resource) -> int:
    from penstock.client.admin import BROKER_RESOURCE, TOPIC_RESOURCE

    return TOPIC_RESOURCE if resource is Resource.TOPIC else BROKER_RESOURCE


def _check_name(resource: Resource, name: str) -> None:
    if resource is Resource.BROKER and not (name.isascii() and name.isdigit()):
        raise ConfigError(
            f"{name} is no broker id: give a number, as penstock topic describe shows"
        )
