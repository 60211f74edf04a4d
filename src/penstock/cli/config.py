"""`penstock config`: settings of topics, brokers, groups and client metrics.

A broker is named by its id, and `default` stands for what is set for all brokers.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from penstock.client.cluster import Cluster

app = typer.Typer(help="Show and change settings of topics, brokers, groups, client metrics.")

DEFAULT = "default"
"""As the name of a broker: all of them."""


class Resource(StrEnum):
    """The kinds of resources that have settings."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


ResourceArgument = Annotated[Resource, typer.Argument(metavar="topic|broker|group|client-metrics")]
NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Its name; a broker's id, or 'default' for all brokers.",
        callback=named,
    ),
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
    """Show all settings, and where each value comes from. Of all brokers, only what is set."""
    from penstock.client.admin import Admin

    name = _asked(resource, name)
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

    values, asked = pairs(settings, flag=""), _asked(resource, name)
    with connected(bootstrap, timeout) as cluster:
        Admin(cluster).alter_configs(asked, set_to=values, resource=_kind(resource))
    _done({"set": values}, f"set {', '.join(values)} of {resource} {name}", output)


@app.command()
def unset(
    resource: ResourceArgument,
    name: NameArgument,
    keys: Annotated[list[str], typer.Argument(metavar="KEY", callback=named)],
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Reset settings to their defaults, all or none."""
    from penstock.client.admin import Admin

    asked = _asked(resource, name)
    with connected(bootstrap, timeout) as cluster:
        admin = Admin(cluster)
        _check_keys(cluster, resource, name, keys)
        admin.alter_configs(asked, delete=keys, resource=_kind(resource))
    _done({"unset": keys}, f"unset {', '.join(keys)} of {resource} {name}", output)


@app.command(name="list")
def list_resources(
    resource: ResourceArgument,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """List what has settings: all topics or brokers, or those groups and client metrics for which
    something is set.
    """
    from penstock.client.admin import Admin

    with connected(bootstrap, timeout) as cluster:
        names = Admin(cluster).list_config_resources(_kind(resource))
    print_rows([{"name": name} for name in names], ("name",), output)


def _check_keys(cluster: "Cluster", resource: Resource, name: str, keys: list[str]) -> None:
    """Raise ConfigError for a key that the resource can not have: brokers take any, as Kafka's."""
    from penstock.client.admin import Admin

    names = [_asked(resource, name)]
    if resource is Resource.BROKER and name == DEFAULT:  # of which only what is set is described
        names.append(str(cluster.describe([]).brokers[0].broker_id))
    admin, kind = Admin(cluster), _kind(resource)
    known = {entry.name for each in names for entry in admin.describe_configs(each, resource=kind)}
    for key in keys:
        if key not in known:
            raise ConfigError(
                f"{key} is no setting of {resource} {name}: see penstock config describe"
                f" {resource} {names[-1]}"
            )


def _done(document: object, text: str, output: Output) -> None:
    if output is Output.JSON:
        print_json(document)
    else:
        note(text)


def _kind(resource: Resource) -> int:
    from penstock.client import admin

    return {
        Resource.TOPIC: admin.TOPIC_RESOURCE,
        Resource.BROKER: admin.BROKER_RESOURCE,
        Resource.GROUP: admin.GROUP_RESOURCE,
        Resource.CLIENT_METRICS: admin.METRICS_RESOURCE,
    }[resource]


def _asked(resource: Resource, name: str) -> str:
    """Return the name as brokers know it. Raises ConfigError."""
    from penstock.client.admin import ALL_BROKERS

    if resource is not Resource.BROKER:
        return name
    if name == DEFAULT:
        return ALL_BROKERS
    if not (name.isascii() and name.isdigit()):
        raise ConfigError(
            f"{name} is no broker id: give a number, as penstock topic describe shows, or default"
        )
    return name
