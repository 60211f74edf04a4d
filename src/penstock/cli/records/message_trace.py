"""`penstock message trace`: what became of messages, as nodes have traced it.

    messages by id or key ─► the place of each ─► rows of the trace that name it ─► by time

That a message is stored is said by the message itself. What groups did with it are rows; a record
that is done with and was never delivered to its group was passed over: its filter does not want it.

Groups that read by positions leave no rows. Where a port for Kafka's clients is named, it is told
of each whether the position that it has committed is behind the message: that is no delivery, has
no time, and nobody knows who had the message.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.cli.connect import (
    ADMIN_SECONDS,
    CommandFailed,
    TimeoutOption,
    connected,
    patient,
)
from penstock.cli.launch.http import BOOTSTRAP_DEFAULT, AuthorityOption, BootstrapOption
from penstock.cli.output import Output, OutputOption, moment, note, print_rows
from penstock.cli.records.asking import (
    MOST,
    Asker,
    IdOption,
    KeyOption,
    KeysOption,
    TopicArgument,
    wanted_name,
)

if TYPE_CHECKING:
    from penstock.finding.traces import Row
    from penstock.http.upstream.finding import Answer
    from penstock.remoting.wire.message import Message

MESSAGES = 8
"""That are traced unless more are asked for: each takes a search."""
COLUMNS = ("partition", "offset", "id", "time", "event", "group", "client", "node")
NOT_TRACED = (
    "no node has traced any message: set penstock.message.trace.percent of the topic, or"
    " broker.message_trace_percent on each node"
)
STORED, ACCEPTED, PASSED_OVER = "stored", "accepted", "passed over"
SHARE = "share"
IS_PAST, IS_BEFORE = "position past it", "position before it"
GroupsOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT[,...]",
        help="Tell positions of groups, too: brokers' ports for Kafka's clients.",
    ),
]


class Traced(NamedTuple):
    """A message at its place."""

    message: "Message"
    partition: int

    @property
    def offset(self) -> int:
        """In its partition."""
        return self.message.queue_offset


def trace(
    topic: TopicArgument,
    key: KeyOption = None,
    message_id: IdOption = None,
    count: Annotated[int, typer.Option(min=1, max=MOST, help="The newest so many.")] = MESSAGES,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    access_key: KeysOption = None,
    node_ca: AuthorityOption = None,
    groups: GroupsOption = None,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Tell when messages were stored, to whom delivered, and with what result, by key or id.

    Nodes need remoting.port, and broker.message_trace_percent or the topic's
    penstock.message.trace.percent. Groups that read by positions, Kafka's consumer groups and
    RocketMQ's that pull, leave no trace of single messages: with --groups it is told which of them
    have a committed position past a message, and which before it.
    """
    from penstock.http.upstream.finding import Query

    name, is_id = wanted_name(key, message_id)
    asker = Asker(bootstrap, access_key, node_ca, timeout)
    (answer,) = asker.ask([Query(topic, name, is_id=is_id, most=count)])
    messages = list(_placed(answer.messages))
    if not messages:
        _tell_lacks([answer])
        raise CommandFailed(f"topic {topic} has no such message, or none any more")
    answers = _traces(asker, topic, messages)
    _tell_lacks([answer, *answers])
    traced = [_rows(*one) for one in zip(answers, messages, strict=bool(answers))]
    traced = traced or [[] for _ in messages]
    stories = [list(_story(*one)) for one in zip(messages, traced, strict=True)]
    if groups is not None:
        for one, story in zip(_positions(groups, timeout, topic, messages), stories, strict=True):
            story += [{**story[0], **_NOTHING, **told} for told in one]
    print_rows([told for story in stories for told in story], COLUMNS, output)


_NOTHING = {"time": None, "client": None, "node": None}


def _positions(
    bootstrap: str, timeout: float, topic: str, messages: Sequence[Traced]
) -> list[list[dict[str, object]]]:
    """Return for each message which groups have a position past it, and which before it."""
    from penstock.client.groups import Groups
    from penstock.remoting.later.group_topics import stored_name

    stored = stored_name(topic)
    partitions = sorted({(stored, one.partition) for one in messages})
    told: list[list[dict[str, object]]] = [[] for _ in messages]
    with connected(bootstrap, timeout) as cluster, patient("the brokers", timeout):
        asked = Groups(cluster)
        for group in [one.group_id for one in asked.list() if one.group_type != SHARE]:
            known = asked.offsets(group, partitions)
            for one, rows in zip(messages, told, strict=True):
                position = known.get((stored, one.partition))
                if position is not None:
                    event = IS_PAST if position.offset > one.offset else IS_BEFORE
                    rows.append({"event": event, "group": group})
    return told


def _placed(messages: Sequence["Message"]) -> Iterator[Traced]:
    """Yield the messages whose place can be told, the oldest first."""
    from penstock.remoting.ids import located

    for message in reversed(messages):
        place = located(message.locator)
        if place is None:
            note("a message is left out: its place has no name")
        else:
            yield Traced(message, place.partition)


def _traces(asker: Asker, topic: str, messages: Sequence[Traced]) -> "list[Answer]":
    """Return what the trace has of each message; nothing at all where there is none."""
    from penstock.finding.traces import TOPIC, name_of
    from penstock.http.upstream.errors import NodeRefused
    from penstock.http.upstream.finding import Query
    from penstock.remoting.wire.codes import ResponseCode

    queries: list[Query] = [
        Query(TOPIC, name_of(topic, one.partition, one.offset), most=MOST) for one in messages
    ]
    try:
        return asker.ask(queries)
    except NodeRefused as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        note(NOT_TRACED)
        return []


def _tell_lacks(answers: "Sequence[Answer]") -> None:
    lacks = [lack for answer in answers for lack in answer.lacks]
    lacks += [
        f"a message has {MOST} rows or more, and the oldest are left out"
        for answer in answers[1:]
        if len(answer.messages) >= MOST
    ]
    for lack in dict.fromkeys(lacks):
        note(f"there may be more: {lack}")


def _rows(answer: "Answer", one: Traced) -> list["Row"]:
    """Return the rows of a message, the oldest first, each once."""
    from penstock.finding.errors import MalformedTrace
    from penstock.finding.traces import decode_row
    from penstock.remoting.wire.properties import read_properties

    found: dict[tuple[int, int, int, str], Row] = {}
    for message in answer.messages:
        try:
            row = decode_row(bytes(message.body))
        except MalformedTrace as error:
            note(f"a row is left out: {error}")
            continue
        # The last word of a row's key is its name, node:began:number, of which it has one.
        name = read_properties(message.properties).get("KEYS", "").rpartition(" ")[2]
        number = int(name.rpartition(":")[2]) if name.rpartition(":")[2].isdecimal() else 0
        if row.has(one.partition, one.offset):
            found[row.at_ms, row.node, number, name] = row
    return [found[each] for each in sorted(found)]


def _story(one: Traced, rows: Sequence["Row"]) -> Iterator[dict[str, object]]:
    """Yield what is told of a message, line by line."""
    from ipaddress import ip_address

    from penstock.remoting.wire.message import NO_HOST
    from penstock.remoting.wire.properties import read_properties

    message = one.message
    unique = read_properties(message.properties).get("UNIQ_KEY")
    place = {"partition": one.partition, "offset": one.offset, "id": unique}
    host = message.born_host
    client = None if host == NO_HOST else str(ip_address(host.address))
    stored = {"time": moment(message.store_ms), "event": STORED, "client": client}
    yield {**place, **stored, "group": None, "node": None}
    delivered: set[str] = set()
    for row in rows:
        if row.event == "delivered":
            delivered.add(row.group)
        event = PASSED_OVER if row.event == "passed_over" else row.event
        if event == "done":
            event = ACCEPTED if row.group in delivered else PASSED_OVER
        told = {"time": moment(row.at_ms), "event": event, "group": row.group}
        yield {**place, **told, "client": row.client or None, "node": row.node}
