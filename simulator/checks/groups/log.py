"""An independent reader of the records of an internal partition.

    records, oldest first ─► the last one of each key ─► positions, groups, unknown records

If the value of a position can not be read, the position keeps its last known value together with
that record. A group whose record can not be decoded completely is unknown. Keys are compared whole.

Source: docs/formats/group-records.md; Kafka, GroupMetadataValue.json and OffsetCommitValue.json.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

Entry = tuple[bytes, bytes | None]
"""Key and value of a record; None is a tombstone."""
Place = tuple[str, str, int]
"""Group, topic, partition."""
NOWHERE = -1


class Position(NamedTuple):
    """A position as the log has it. `unread`: the value that says more than can be read."""

    offset: int
    metadata: str = ""
    topic_id: bytes | None = None
    unread: bytes | None = None


class Member(NamedTuple):
    """A member of a group's record."""

    member_id: str
    instance_id: str | None
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupSaid(NamedTuple):
    """What a group's record says."""

    generation: int
    protocol_name: str | None
    leader_id: str | None
    members: tuple[Member, ...]


@dataclass(slots=True)
class Reading:
    """The state after all records of a log."""

    positions: dict[Place, Position] = field(default_factory=dict)
    groups: dict[str, bytes] = field(default_factory=dict)
    unknown: dict[bytes, bytes] = field(default_factory=dict)

    def take(self, entry: Entry) -> None:
        """Take the next record."""
        key, value = entry
        name = _name(key)
        if isinstance(name, str):
            _put(self.groups, name, value)
        elif name is None:
            _put(self.unknown, key, value)
        elif value is None:
            self.positions.pop(name, None)
        else:
            self.positions[name] = _position(value, self.positions.get(name))

    def of_group(self, group_id: str) -> dict[tuple[str, int], Position]:
        """Return the positions of one group."""
        return {key[1:]: position for key, position in self.positions.items() if key[0] == group_id}


def read_log(entries: Iterable[Entry]) -> Reading:
    """Return the state after all records of a log."""
    reading = Reading()
    for entry in entries:
        reading.take(entry)
    return reading


def group_said(value: bytes) -> GroupSaid | None:
    """Return what a group's record says; None where it can not be read to its end."""
    cursor = _Cursor(value)
    try:
        if cursor.number("h") != 3:
            return None
        cursor.text()
        generation, protocol, leader = cursor.number("i"), cursor.text(), cursor.text()
        cursor.number("q")
        members = tuple(_member(cursor) for _ in range(cursor.number("i")))
    except (struct.error, UnicodeDecodeError, ValueError):
        return None
    return GroupSaid(generation, protocol, leader, members)


def group_named(key: bytes) -> str:
    """Return the group that a key is of, of whatever kind the record is."""
    length = int.from_bytes(key[2:4], "big")
    return key[4 : 4 + length].decode()


def _put(values: dict, key: object, value: bytes | None) -> None:  # type: ignore[type-arg]
    values.pop(key, None)
    if value is not None:
        values[key] = value


def _name(key: bytes) -> Place | str | None:
    """Return the place of a position, or a group, or None for a key of another kind."""
    cursor = _Cursor(key)
    name: Place | str | None = None
    try:
        version = cursor.number("h")
        if version in (0, 1):
            name = (cursor.text() or "", cursor.text() or "", cursor.number("i"))
        elif version == 2:
            name = cursor.text()
    except (struct.error, UnicodeDecodeError, ValueError):
        return None
    return name if cursor.at == len(key) else None


def _position(value: bytes, before: Position | None) -> Position:
    cursor = _Cursor(value)
    try:
        version = cursor.number("h")
        offset = cursor.number("q")
        cursor.number("i")
        if version == 3:
            return Position(offset, cursor.text() or "")
        if version == 4:
            metadata = cursor.take(cursor.take(1)[0] - 1).decode()
            cursor.number("q")
            return Position(offset, metadata, value[-16:])
    except (struct.error, UnicodeDecodeError, ValueError):
        pass
    return (before or Position(NOWHERE))._replace(unread=value)


def _member(cursor: "_Cursor") -> Member:
    member_id, instance_id = cursor.text() or "", cursor.text()
    cursor.text(), cursor.text(), cursor.number("i")
    session_ms = cursor.number("i")
    subscription = cursor.take(cursor.number("i"))
    return Member(member_id, instance_id, session_ms, subscription, cursor.take(cursor.number("i")))


class _Cursor:
    """Takes values from the front of some bytes. Raises ValueError, struct.error."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, length: int) -> bytes:
        end = self.at + length
        if not self.at <= end <= len(self._data):
            raise ValueError(f"{length} bytes at {self.at} of {len(self._data)}")
        taken, self.at = self._data[self.at : end], end
        return taken

    def number(self, form: str) -> int:
        return int(struct.unpack(">" + form, self.take(struct.calcsize(">" + form)))[0])

    def text(self) -> str | None:
        length = self.number("h")
        return None if length < 0 else self.take(length).decode()
