"""`penstock message`: messages by id and key, as nodes' indexes have them."""

from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.cli.connect import ADMIN_SECONDS, CommandFailed, TimeoutOption
from penstock.cli.launch.http import (
    BOOTSTRAP_DEFAULT,
    AuthorityOption,
    BootstrapOption,
    node_addresses,
    node_context,
)
from penstock.cli.output import Output, OutputOption, moment, note, print_json, print_rows

if TYPE_CHECKING:
    from penstock.http.upstream.connection import Credentials
    from penstock.http.upstream.finding import Answer, Query
    from penstock.remoting.wire.message import Message

app = typer.Typer(help="Find messages by id and key.")

MOST = 64
"""That a node tells."""
COLUMNS = ("partition", "offset", "time", "id", "keys", "tag", "bytes")
KeysOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Sign with the access key in this file, user:secret."),
]


@app.callback()
def _message() -> None:
    """Find messages by id and key."""


@app.command()
def find(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic of the messages.")],
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="One of its keys; a Kafka record's key.")
    ] = None,
    message_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Its id (UNIQ_KEY).")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=MOST, help="The newest so many.")] = MOST,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    access_key: KeysOption = None,
    node_ca: AuthorityOption = None,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Find messages of a topic by a key or by their id, the newest first.

    Nodes need remoting.port. JSON has bodies and properties, too. The exit code is 1 if none is
    found.
    """
    name = key if key is not None else message_id
    if not name or (key is not None and message_id is not None):
        raise ConfigError("give either --key or --id")
    import asyncio

    from penstock.http.upstream.finding import Query

    query = Query(topic, name, is_id=message_id is not None, most=count)
    answer = asyncio.run(_find(query, bootstrap, access_key, node_ca, timeout))
    if output is Output.JSON:
        print_json([_document(one) for one in answer.messages])
    elif answer.messages:
        print_rows([_row(one) for one in answer.messages], COLUMNS, output)
    for lack in answer.lacks:
        note(f"there may be more: {lack}")
    if not answer.messages:
        raise CommandFailed(f"topic {topic} has no such message, or none any more")


async def _find(
    query: "Query", bootstrap: str, access_key: Path | None, authority: Path | None, seconds: float
) -> "Answer":
    from penstock.http.upstream.finding import find_messages
    from penstock.http.upstream.nodes import Nodes

    addresses, tls = node_addresses(bootstrap), node_context(authority)
    nodes = Nodes(addresses, None if access_key is None else _credentials(access_key), tls)
    try:
        return await find_messages(nodes, query, seconds)
    finally:
        nodes.close()


def _credentials(path: Path) -> "Credentials":
    """Return the first access key of a file, in the form of nodes' own. Raises ConfigError."""
    from penstock.http.upstream.connection import Credentials
    from penstock.node.access.files import read_private

    text = read_private("--access-key", str(path))
    lines = [line.strip() for line in text.splitlines()]
    first = next((line for line in lines if line and not line.startswith("#")), "")
    user, _, secret = first.partition(":")
    if not user or not secret:
        raise ConfigError(f"--access-key {path}: it has no line user:secret")
    return Credentials(user, secret)


def _row(message: "Message") -> dict[str, object]:
    document = _document(message)
    properties = _properties(message)
    return {
        "partition": document["partition"],
        "offset": message.queue_offset,
        "time": moment(message.store_ms),
        "id": properties.get("UNIQ_KEY"),
        "keys": properties.get("KEYS"),
        "tag": properties.get("TAGS"),
        "bytes": len(message.body),
    }


def _document(message: "Message") -> dict[str, object]:
    from penstock.remoting.ids import located

    place = located(message.locator)
    body = bytes(message.body)
    try:
        value: dict[str, object] = {"value": body.decode()}
    except UnicodeDecodeError:
        value = {"value_base64": b64encode(body).decode()}
    return {
        "topic": message.topic,
        "partition": None if place is None else place.partition,
        "offset": message.queue_offset,
        "timestamp_ms": message.store_ms,
        "born_ms": message.born_ms,
        "reconsume_times": message.reconsume_times,
        "properties": _properties(message),
        **value,
    }


def _properties(message: "Message") -> dict[str, str]:
    from penstock.remoting.wire.properties import read_properties

    return read_properties(message.properties)
