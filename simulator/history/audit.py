"""What a client did, and whether the rows of the audit say the same.

    at most     what was sent: a request without an answer may have been counted, or not
    at least    what was answered without an error, once the process that counted it has written it
    lost        with a process that has ended, what it had folded last: its rows are a beginning of
                those that it numbered, and what a client did before others, of whom rows of two
                folds are there, is among them

Each visit has a client id and a connection of its own, so that one process counted all of it: rows
of a visit are of one writer, and a writer's rows are of visits that followed one another.

Source: docs/formats/audit.md; ADR 0119 (what is lost with a process that is killed).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.audit.row import Row, decode_row
from simulator.history.rows import Name, RowBook, Writer

COUNTED = ("requests", "records", "bytes_in", "errors")
"""Sums that a client knows."""


class What(NamedTuple):
    """The rows that are added up."""

    operation: str
    topic: str = ""
    partition: int = -1


@dataclass(slots=True)
class Sides:
    """Sums on both sides."""

    least: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True, kw_only=True)
class Visit:
    """What one client id did at one process."""

    client_id: str
    node: int
    began_s: float
    ended_s: float = 0.0
    """When it had its last answer; 0 while it goes on."""
    sums: defaultdict[What, Sides] = field(default_factory=lambda: defaultdict(Sides))

    def sent(self, what: What, counts: dict[str, int]) -> None:
        """Note what may be counted from now on."""
        self.sums[what].most.update(counts)

    def answered(self, what: What, counts: dict[str, int]) -> None:
        """Note what has to be counted."""
        self.sums[what].least.update(counts)


@dataclass(slots=True)
class Book(RowBook):
    """The rows that were read, each once."""

    read: dict[Name, Row] = field(default_factory=dict)

    def add(self, key: bytes, value: bytes) -> None:
        """Add a record of the topic; one that is there twice counts once."""
        if (name := self.add_named(key, value)) is not None:
            self.read[name] = decode_row(value)

    def by_client(self) -> dict[str, list[tuple[Writer, Row]]]:
        """Return the rows by client id."""
        found: defaultdict[str, list[tuple[Writer, Row]]] = defaultdict(list)
        for (writer, _), row in self.read.items():
            found[row.key.who.client_id].append((writer, row))
        return found


def judge(book: Book, visits: Iterable[Visit]) -> Iterator[str]:
    """Yield what is wrong with rows, whatever is still to be written."""
    yield from book.wrong
    yield from book.gaps()
    rows = book.by_client()
    by_writer: defaultdict[Writer, list[Visit]] = defaultdict(list)
    for visit in visits:
        found = rows.get(visit.client_id, [])
        writers = {writer for writer, _ in found}
        if len(writers) > 1 or any(writer.node != visit.node for writer in writers):
            yield f"{visit.client_id} was at {visit.node}, and has rows of {sorted(writers)}"
        for writer in writers:
            by_writer[writer].append(visit)
        yield from _invented(visit, [row for _, row in found])
    for seen in by_writer.values():
        yield from _left_out(rows, seen)


def missing(book: Book, visit: Visit) -> str:
    """Return what rows of a visit do not have yet; empty if they have all of it."""
    found = _sums([row for _, row in book.by_client().get(visit.client_id, [])])
    for what, sides in visit.sums.items():
        for name, least in sides.least.items():
            if found[what][name] < least:
                return f"{visit.client_id}: {name} of {what}: {found[what][name]} of {least}"
    return ""


def _sums(rows: list[Row]) -> defaultdict[What, Counter[str]]:
    sums: defaultdict[What, Counter[str]] = defaultdict(Counter)
    for row in rows:
        _, operation, topic, partition = row.key
        what = What(operation, topic, partition)
        sums[what].update({name: row.counts[name] for name in COUNTED})
    return sums


def _invented(visit: Visit, rows: list[Row]) -> Iterator[str]:
    for what, found in _sums(rows).items():
        if what.operation.startswith(("allowed", "denied")):
            continue
        most = visit.sums[what].most if what in visit.sums else Counter[str]()
        for name, number in found.items():
            if number > most[name]:
                yield f"{visit.client_id}: {name} of {what}: {number}, and {most[name]} were sent"


def _left_out(rows: dict[str, list[tuple[Writer, Row]]], seen: list[Visit]) -> Iterator[str]:
    """Visits of one writer: those before others, of whom there are two folds, are all there."""
    for visit in seen:
        later = [one for one in seen if visit.ended_s and one.began_s > visit.ended_s]
        folds = {row.began_ms for one in later for _, row in rows[one.client_id]}
        if len(folds) < 2:
            continue
        found = _sums([row for _, row in rows[visit.client_id]])
        for what, sides in visit.sums.items():
            for name, least in sides.least.items():
                if found[what][name] < least:
                    yield f"{visit.client_id}: {name} of {what}: {found[what][name]} of {least}"
