"""The rows of the trace of messages, and whether the members of a group saw the same.

    delivered       to a member that was handed the message, or has lost an answer that had it: not
                    more often than that
    done            somebody has accepted it, and was not refused
    given_up        somebody has rejected it, or it was handed out up to the limit
    renewed         somebody has asked for more time
    released        it was handed out, or may have been
    a process       tells of a message nothing after it is over, and numbers its rows without a gap
    a sample        all events of a message, or none: by a hash of its place

A row may be missing: what a process that was killed had not written. So nothing is said of what
there is no row of, but where the process lives on.

Source: docs/formats/message-trace.md; ADR 0181.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple
from uuid import UUID
from zlib import crc32

from penstock.finding.traces import Row, decode_row
from simulator.history.rows import Name, RowBook, Writer
from simulator.history.shares import Kind, Place, Settled, ShareNotes

OVER = ("done", "given_up")
WORDS: Mapping[str, tuple[Kind, ...]] = {
    "done": (Kind.ACCEPT, Kind.GAP),
    "given_up": (Kind.REJECT,),
    "renewed": (Kind.RENEW,),
}
"""What a member says so that it happens."""
_PLACE = Struct(">IQ")


class Shared(NamedTuple):
    """What is known of the group whose rows are judged."""

    topic: str
    group: str
    notes: ShareNotes
    written: Mapping[Place, str]
    """What was acknowledged: of other records nobody knows what is true."""
    deliveries_max: int
    percent: float


@dataclass(slots=True)
class TraceBook(RowBook):
    """The rows that were read."""

    read: dict[Name, Row] = field(default_factory=dict)

    def add(self, key: bytes, value: bytes) -> None:
        """Add a record of the topic; one that is there twice counts once."""
        *found_by, own = key.split(b" ")
        if (name := self.add_named(own, value)) is None:
            return
        row = self.read[name] = decode_row(value)
        names = [f"{row.topic}/{part}/{offset}".encode() for part, offset in places(row)]
        if found_by != names or row.node != name[0].node:
            self.wrong.append(f"row {key!r} has {row}")

    def ends(self, topic: str) -> set[Place]:
        """Return the messages that are said to be done."""
        rows = [row for row in self.read.values() if row.topic == topic and row.event == "done"]
        return {place for row in rows for place in places(row)}


def places(row: Row) -> Iterator[Place]:
    """Yield the messages that a row is about."""
    yield from ((row.partition, at) for first, end in row.runs for at in range(first, end))


def is_sampled(topic_id: UUID, place: Place, percent: float) -> bool:
    """Whether a message is traced: the same on every node."""
    return crc32(_PLACE.pack(*place), crc32(topic_id.bytes)) < round(percent / 100 * (1 << 32))


def judge(book: TraceBook, shared: Shared) -> Iterator[str]:
    """Yield what is wrong with rows, whatever is still to be written."""
    yield from book.wrong
    yield from book.gaps()
    rows = [(name, row) for name, row in sorted(book.read.items()) if row.topic == shared.topic]
    for _, row in rows:
        if row.group != shared.group:
            yield f"{row} is of a group that has no members"
    if shared.notes.topic_id is not None:
        yield from _not_sampled(rows, shared, shared.notes.topic_id)
    yield from _never_handed(rows, shared)
    yield from _never_said(rows, shared)
    yield from _after_the_end(rows)


def missing(book: TraceBook, shared: Shared) -> Iterator[tuple[str, Settled]]:
    """Yield what was accepted once, and by nobody else, and there is no row of; with the word."""
    ends, topic_id = book.ends(shared.topic), shared.notes.topic_id
    words: defaultdict[Place, list[Settled]] = defaultdict(list)
    for word in shared.notes.settled:
        if word.kind not in {Kind.RELEASE, Kind.RENEW}:
            words[word.place].append(word)
    for place, (first, *others) in words.items():
        is_known = first.is_taken and first.kind is Kind.ACCEPT and not others
        if not is_known or topic_id is None or place in ends:
            continue
        if is_sampled(topic_id, place, shared.percent):
            yield f"{place} was accepted, and no row says so", first


def _not_sampled(rows: list[tuple[Name, Row]], shared: Shared, topic_id: UUID) -> Iterator[str]:
    for _, row in rows:
        for place in places(row):
            if not is_sampled(topic_id, place, shared.percent):
                yield f"{place} is not among those that are traced, and is in {row}"


def _never_handed(rows: list[tuple[Name, Row]], shared: Shared) -> Iterator[str]:
    handed = Counter((one.member, one.place) for one in shared.notes.handed)
    lost = Counter((one.member, one.partition) for one in shared.notes.lost)
    told = Counter(
        (row.client, place) for _, row in rows if row.event == "delivered" for place in places(row)
    )
    for (client, place), count in told.items():
        most = handed[client, place] + lost[client, place[0]]
        if client and count > most:
            yield f"{place} was delivered to {client} {count} times, who has seen {most}"


def _never_said(rows: list[tuple[Name, Row]], shared: Shared) -> Iterator[str]:
    notes = shared.notes
    said = {
        (word.place, word.kind) for word in notes.settled if word.is_taken or word.told_ns is None
    }
    handed = Counter(one.place for one in notes.handed)
    lost = Counter(one.partition for one in notes.lost)
    for _, row in rows:
        for place in places(row):
            count = handed[place] + lost[place[0]]
            if place not in shared.written or row.event == "delivered":
                continue
            is_so = any((place, kind) in said for kind in WORDS.get(row.event, ()))
            if row.event == "given_up":
                is_so = is_so or count >= shared.deliveries_max
            elif row.event == "released":
                is_so = count > 0
            if not is_so:
                yield f"{place} is {row.event} by {row}, and nobody did that"


def _after_the_end(rows: list[tuple[Name, Row]]) -> Iterator[str]:
    """Rows are in the order of their numbers, for each process."""
    over: dict[tuple[Writer, Place], str] = {}
    for (writer, number), row in rows:
        for place in places(row):
            if before := over.get((writer, place)):
                yield f"{place} is {row.event} by row {number} of {writer}, after {before}"
            if row.event in OVER:
                over[writer, place] = f"row {number}, {row.event}"
