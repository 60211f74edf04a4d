"""Reading the numbers of a share's records: each within its bounds, or MalformedRecord.

Varints are unsigned and have up to ten bytes.

Source: docs/formats/share-state.md.
"""

from penstock.coordinator.errors import MalformedRecord
from penstock.coordinator.wire import Reader
from penstock.shares.runs import SPAN_MAX, Run
from penstock.shares.state import NONCE_MASK
from penstock.shares.ticks import TICK_MAX

VERSION = 1
OFFSET_MAX = (1 << 47) - 1
"""Timers keep an offset in 48 bits."""
RUNS_MAX = 5_000
"""Runs of one record: at most 100 KB."""
_VARINT_BYTES_MAX = 10


class UnknownVersion(MalformedRecord):
    """A key or value of a later release."""


def long_varint(reader: Reader) -> int:
    """Return an unsigned varint of at most ten bytes."""
    value = 0
    for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
        byte = reader.take(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise MalformedRecord("varint longer than ten bytes")


def number(reader: Reader, most: int, name: str) -> int:
    """Return a varint of at most `most`."""
    value = long_varint(reader)
    if value > most:
        raise MalformedRecord(f"{name} {value} above {most}")
    return value


def offset(reader: Reader) -> int:
    return number(reader, OFFSET_MAX, "offset")


def nonce(reader: Reader) -> int:
    return number(reader, NONCE_MASK, "nonce")


def tick(reader: Reader) -> int:
    return number(reader, TICK_MAX, "tick")


def flag(reader: Reader) -> bool:
    return bool(number(reader, 1, "flag"))


def runs(reader: Reader) -> list[Run]:
    """Return at least one run; they ascend, have offsets, and span SPAN_MAX at most."""
    found: list[Run] = []
    before = 0
    for _ in range(number(reader, RUNS_MAX, "runs")):
        first = before + long_varint(reader)
        before = first + long_varint(reader)
        if first == before or before > OFFSET_MAX:
            raise MalformedRecord(f"run from {first} to {before}")
        found.append((first, before))
    if not found or before - found[0][0] > SPAN_MAX:
        raise MalformedRecord(f"{len(found)} runs up to {before}")
    return found


def version(reader: Reader) -> None:
    """Take the version, which must be this one."""
    value = reader.take(1)[0]
    if value != VERSION:
        raise UnknownVersion(f"version {value}")


def end(reader: Reader) -> None:
    """Raise MalformedRecord unless everything was read."""
    if not reader.is_at_end:
        raise MalformedRecord("bytes behind the last field")
