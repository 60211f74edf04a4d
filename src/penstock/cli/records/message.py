"""`penstock message`: messages by id and key, and what became of them."""

from base64 import b64encode
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import ADMIN_SECONDS, CommandFailed, TimeoutOption
from penstock.cli.launch.http import BOOTSTRAP_DEFAULT, AuthorityOption, BootstrapOption
from penstock.cli.output import Output, OutputOption, moment, note, print_json, print_rows
from penstock.cli.records.asking import (
    MOST,
    Asker,
    IdOption,
    KeyOption,
    KeysOption,
    TopicArgument,
    wanted_name,
)
from penstock.cli.records.message_trace import trace

if TYPE_CHECKING:
    from penstock.remoting.wire.message import Message

app = typer.Typer(help="Find messages by id and key, and what became of them.")
app.command(name="trace")(trace)

COLUMNS = ("partition", "offset", "time", "id", "keys", "tag", "bytes")


@app.callback()
def _message() -> None:
    """Find messages by id and key, and what became of them."""


@app.command()
def find(
    topic: TopicArgument,
    key: KeyOption = None,
    message_id: IdOption = None,
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
    from penstock.http.upstream.finding import Query

    name, is_id = wanted_name(key, message_id)
    asker = Asker(bootstrap, access_key, node_ca, timeout)
    (answer,) = asker.ask([Query(topic, name, is_id=is_id, most=count)])
    if output is Output.JSON:
        print_json([_document(one) for one in answer.messages])
    elif answer.messages:
        print_rows([_row(one) for one in answer.messages], COLUMNS, output)
    for lack in answer.lacks:
        note(f"there may be more: {lack}")
    if not answer.messages:
        raise CommandFailed(f"topic {topic} has no such message, or none any more")


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
