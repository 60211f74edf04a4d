"""What clients have pushed of their own metrics, and whether the rows say the same.

    taken          all of its points are there once; none, or some, if the process that took it has
                   ended since: then what is missing is the last that it numbered
    refused        nothing of it is there
    no answer      as taken, and may be missing whatever has become of the process
    told twice     a row is named by its process and number, so that one that was written twice
                   counts once; a point in two rows was taken twice

Each point has a metric of its own. Pushes over one connection are of one process, which numbers
their rows in order: if a later one is there, so is one before.

Source: docs/operations/client-metrics.md (what is lost), docs/formats/client-metrics.md.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.telemetry.row import Row, decode_row
from simulator.history.rows import Name, RowBook


class Verdict(StrEnum):
    """What a client was told of a push."""

    TAKEN = "taken"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True)
class Pushed:
    """One push."""

    instance: str
    """As rows name it."""
    client_id: str
    principal: str
    node: int
    connection: tuple[str, int]
    """Who made it, and which one it is."""
    began_s: float
    """When the connection was made."""
    points: dict[str, float]
    """By metric."""
    verdict: Verdict = Verdict.UNKNOWN


@dataclass(slots=True)
class PushBook(RowBook):
    """The rows that were read, by metric."""

    read: defaultdict[str, list[tuple[Name, Row]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, key: bytes, value: bytes) -> None:
        """Add a record of the topic; one that is there twice counts once."""
        if (name := self.add_named(key, value)) is not None:
            row = decode_row(value)
            self.read[row.point.metric].append((name, row))


def judge(book: PushBook, pushes: Iterable[Pushed]) -> Iterator[str]:
    """Yield what is wrong with rows, whatever is still to be written."""
    pushes = [*pushes]
    yield from book.wrong
    yield from book.gaps()
    known = {metric for push in pushes for metric in push.points}
    yield from (f"{metric} was never pushed" for metric in book.read if metric not in known)
    for push in pushes:
        yield from _wrong_rows(book, push)
    by_connection: defaultdict[tuple[str, int], list[Pushed]] = defaultdict(list)
    for push in pushes:
        by_connection[push.connection].append(push)
    for sent in by_connection.values():
        yield from _out_of_order(book, sent)


def missing(book: PushBook, push: Pushed) -> str:
    """Return which point of a push that was taken is not there; empty if there is none."""
    for metric in push.points:
        if push.verdict is Verdict.TAKEN and not book.read.get(metric):
            return f"{metric} of {push.client_id}, taken by {push.node}"
    return ""


def _wrong_rows(book: PushBook, push: Pushed) -> Iterator[str]:
    for metric, value in push.points.items():
        found = book.read.get(metric, [])
        if found and push.verdict is Verdict.REFUSED:
            yield f"{metric} was refused, and is there"
        if len(found) > 1:
            yield f"{metric} is there {len(found)} times: {[name for name, _ in found]}"
        for (writer, _), row in found:
            source, who = row.source, row.source.who
            told = source.node, source.instance, who.client_id, who.principal, row.point.value
            wanted = push.node, push.instance, push.client_id, push.principal, value
            if told != wanted or writer.node != push.node:
                yield f"{metric} is there as {told} by {writer}, and was pushed as {wanted}"


def _out_of_order(book: PushBook, sent: list[Pushed]) -> Iterator[str]:
    """Pushes of one connection, in their order: rows rise, and none is left out before another."""
    taken = [push for push in sent if push.verdict is Verdict.TAKEN]
    numbers = [
        (metric, [name for name, _ in book.read.get(metric, [])])
        for push in taken
        for metric in push.points
    ]
    last: Name | None = None
    absent = ""
    for metric, names in numbers:
        if not names:
            absent = absent or metric
            continue
        if absent:
            yield f"{absent} is missing, and {metric} that was pushed later is there"
            return
        if last is not None and (names[0][0] != last[0] or names[0][1] <= last[1]):
            yield f"{metric} is row {names[0]}, and what was pushed before is {last}"
        last = names[0]
