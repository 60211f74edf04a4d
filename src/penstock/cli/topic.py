"""`penstock topic`: create, list, describe, alter, truncate and delete topics."""

import sys
from enum import StrEnum
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
    print_json,
    print_rows,
)
from penstock.cli.values import ID_MAX, REPLICAS_MAX, named, quoted
from penstock.configs.message_types import KEY as MESSAGE_TYPE
from penstock.configs.message_types import MESSAGE_TYPES

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.client.views import TopicView

app = typer.Typer(help="Create, list, describe, alter, truncate and delete topics.")

TopicArgument = Annotated[
    str, typer.Argument(metavar="TOPIC", help="Name of the topic.", callback=named)
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", help="Topic setting; repeatable."),
]
PARTITION_COLUMNS = ("partition", "leader", "replicas", "in_sync", "start", "end", "records")


class MessageType(StrEnum):
    """As configs/message_types.py has them."""

    MIXED = "MIXED"
    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"


assert tuple(MessageType) == MESSAGE_TYPES


def pairs(texts: list[str] | None, *, flag: str) -> dict[str, str]:
    """Return KEY=VALUE texts as a mapping. Raises ConfigError."""
    found = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"{flag} {quoted(text)}: write KEY=VALUE".strip())
        found[key] = value
    return found


@app.command()
def create(
    topic: TopicArgument,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, max=ID_MAX, help="As the node says if left out."),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas",
            min=1,
            max=REPLICAS_MAX,
            help="Copies of each partition; as the node says if left out.",
        ),
    ] = None,
    config: ConfigOption = None,
    message_type: Annotated[
        MessageType | None,
        typer.Option(
            "--message-type",
            case_sensitive=False,
            help="Kind of messages that RocketMQ's gRPC clients may send; all if left out.",
        ),
    ] = None,
    if_absent: Annotated[
        bool, typer.Option("--if-absent", help="Do nothing if the topic exists.")
    ] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a topic."""
    from penstock.client.admin import BROKER_DEFAULT, Admin
    from penstock.client.errors import BrokerError
    from penstock.protocol.error_codes import ErrorCode

    configs = pairs(config, flag="--config")
    if message_type is not None:
        configs[MESSAGE_TYPE] = message_type.value
    with connected(bootstrap, timeout) as cluster:
        admin = Admin(cluster)
        count = BROKER_DEFAULT if partitions is None else partitions
        copies = BROKER_DEFAULT if replicas is None else replicas
        try:
            admin.create_topic(topic, partitions=count, replication_factor=copies, configs=configs)
        except BrokerError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            if not if_absent:
                raise CommandFailed(f"topic {topic} already exists (see --if-absent)") from error
        _print_topics([admin.describe_topic(topic)], output)


@app.command(name="list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """List all topics."""
    from penstock.client.admin import Admin

    with connected(bootstrap, timeout) as cluster:
        _print_topics(Admin(cluster).list_topics(with_internal=internal), output)


@app.command()
def describe(
    topic: TopicArgument,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the partitions of a topic, their offsets, and the settings that differ."""
    from penstock.client.admin import Admin

    with connected(bootstrap, timeout) as cluster:
        admin = Admin(cluster)
        view = admin.describe_topic(topic)
        rows = _partition_rows(admin, view)
        configs = {
            entry.name: entry.value
            for entry in admin.describe_configs(topic)
            if entry.source == "topic"
        }
    summary = {**_topic_row(view), "configs": configs}
    if output is Output.JSON:
        print_json({**summary, "partitions": rows})
        return
    print_rows([summary], ("topic", "topic_id", "partitions", "configs"), output)
    print()
    print_rows(rows, PARTITION_COLUMNS, output)


@app.command()
def alter(
    topic: TopicArgument,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, max=ID_MAX, help="New, larger count."),
    ] = None,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give a topic more partitions, or change its settings."""
    from penstock.client.admin import Admin

    configs = pairs(config, flag="--config")
    if partitions is None and not configs:
        raise ConfigError("nothing to alter: give --partitions or --config")
    with connected(bootstrap, timeout) as cluster:
        admin = Admin(cluster)
        if configs:
            admin.alter_configs(topic, set_to=configs)
        if partitions is not None:
            admin.create_partitions(topic, partitions)
        _print_topics([admin.describe_topic(topic)], output)


@app.command()
def delete(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC", help="Topics to delete.", callback=named)
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete topics with all their records."""
    from penstock.client.admin import Admin

    with connected(bootstrap, timeout) as cluster:
        admin = Admin(cluster)
        for topic in topics:
            admin.describe_topic(topic)
        if not yes:
            if not sys.stdin.isatty():
                raise ConfigError("nobody can be asked here: say --yes to delete with all records")
            if not typer.confirm(f"Delete {', '.join(topics)} with all records?", err=True):
                raise CommandFailed("nothing is deleted")
        for topic in topics:
            admin.delete_topic(topic)
    if output is Output.JSON:
        print_json({"deleted": topics})
    else:
        note(f"deleted {', '.join(topics)}")


@app.command()
def truncate(
    topic: TopicArgument,
    before: Annotated[
        str,
        typer.Option(metavar="PLACE", help="end, an offset, or a time (ISO or @ms)."),
    ],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", metavar="N", help="Only these.")
    ] = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete the records before a place, in all partitions or some."""
    from penstock.cli.records.places import Place, resolve
    from penstock.client.admin import Admin

    place = Place.parse(before)
    with connected(bootstrap, timeout) as cluster:
        starts = Admin(cluster).delete_records(topic, resolve(cluster, topic, place, partition))
    rows = [{"partition": number, "start": start} for number, start in sorted(starts.items())]
    print_rows(rows, ("partition", "start"), output)


def _print_topics(views: "list[TopicView]", output: Output) -> None:
    print_rows([_topic_row(view) for view in views], ("topic", "partitions", "topic_id"), output)


def _topic_row(view: "TopicView") -> dict[str, object]:
    return {
        "topic": view.name,
        "partitions": len(view.partitions),
        "topic_id": str(view.topic_id) if view.topic_id else None,
    }


def _partition_rows(admin: "Admin", view: "TopicView") -> list[dict[str, object]]:
    from penstock.client.admin import EARLIEST, LATEST

    starts = admin.list_offsets(view.name, EARLIEST)
    ends = admin.list_offsets(view.name, LATEST)
    return [
        {
            "partition": partition.partition,
            "leader": partition.leader,
            "replicas": partition.replicas,
            "in_sync": partition.in_sync_replicas,
            "start": starts[partition.partition].offset,
            "end": ends[partition.partition].offset,
            "records": ends[partition.partition].offset - starts[partition.partition].offset,
        }
        for partition in view.partitions
    ]
