"""What became of messages with groups: rows of a topic, and the names by which they are found.

    name    TOPIC/PARTITION/OFFSET, one for each message of a row: a key of the row's record, so
            that the index of messages finds the rows of a message as it finds other messages
    row     one event of one group with messages of one partition; docs/formats/message-trace.md

A message is named by its place: clients of all protocols can be told of it, and it is known where a
message is handed out without a look at the message. So nodes agree about which messages are
traced, whichever of them leads: that is decided by a hash of the place.

Source: docs/requirements.md M-12; RocketMQ's `TraceContext` for what is told. The bounds are
ours.
"""

import json
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple
from zlib import crc32

from penstock.finding.errors import MalformedTrace

TOPIC: Final = "__penstock_message_trace"
"""Internal topic of rows."""
VERSION: Final = 1
OFFSETS_MAX: Final = 100
"""Of a row: the index takes 128 keys of a message, and a message 32 KiB of properties."""
TEXT_KEPT_MAX: Final = 255
"""Characters of a group's and a member's name: longer ones are cut."""
EVERY: Final = 1 << 32
"""The limit under which all hashes are."""
_OFFSET: Final = Struct(">IQ")

Runs = Sequence[tuple[int, int]]


class Row(NamedTuple):
    """One event; offsets are runs, each with its end exclusive, OFFSETS_MAX together."""

    node: int
    at_ms: int
    """Wall time at which the event was confirmed."""
    event: str
    topic: str
    partition: int
    runs: Runs
    group: str
    client: str
    """Of a delivery: the member; else empty."""

    def has(self, partition: int, offset: int) -> bool:
        """Whether it is about the message at a place of its topic."""
        return partition == self.partition and any(a <= offset < b for a, b in self.runs)


def limit_of(percent: float) -> int:
    """Return the limit under which the hashes of so many percent of all places are."""
    return round(percent / 100 * EVERY)


def sampled(topic_id: bytes, partition: int, runs: Runs, limit: int) -> Runs:
    """Return those of the offsets that are traced; the same on every node."""
    if limit >= EVERY:
        return runs
    seed = crc32(topic_id)
    found: list[tuple[int, int]] = []
    for first, end in runs:
        for offset in range(first, end):
            if crc32(_OFFSET.pack(partition, offset), seed) >= limit:
                continue
            if found and found[-1][1] == offset:
                found[-1] = (found[-1][0], offset + 1)
            else:
                found.append((offset, offset + 1))
    return found


def pieces(runs: Runs) -> Iterator[Runs]:
    """Yield the runs in order, cut into such of OFFSETS_MAX offsets at most."""
    piece: list[tuple[int, int]] = []
    room = OFFSETS_MAX
    for begin, end in runs:
        first = begin
        while first < end:
            stop = min(end, first + room)
            piece.append((first, stop))
            room -= stop - first
            first = stop
            if not room:
                yield piece
                piece, room = [], OFFSETS_MAX
    if piece:
        yield piece


def name_of(topic: str, partition: int, offset: int) -> str:
    """Return by which name the rows of a message are found."""
    return f"{topic}/{partition}/{offset}"


def names_of(row: Row) -> bytes:
    """Return the names of a row's messages, with blanks between them."""
    topic, partition = row.topic, row.partition
    places = (offset for first, end in row.runs for offset in range(first, end))
    return " ".join([name_of(topic, partition, offset) for offset in places]).encode()


def encode_row(row: Row) -> bytes:
    """Return the bytes of a row."""
    return json.dumps({"v": VERSION, **row._asdict()}, separators=(",", ":")).encode()


def decode_row(value: bytes) -> Row:
    """Return the row that a record's value is. Raises MalformedTrace."""
    try:
        read: dict[str, Any] = json.loads(value)
        if read["v"] != VERSION:
            raise MalformedTrace(f"version {read['v']}")
        numbers = {name: int(read[name]) for name in ("node", "at_ms", "partition")}
        texts = {name: str(read[name]) for name in ("event", "topic", "group", "client")}
        runs = [(int(first), int(end)) for first, end in read["runs"]]
        return Row(runs=runs, **numbers, **texts)  # type: ignore[arg-type]
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedTrace(str(error)) from error
