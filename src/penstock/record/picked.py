"""Keys and a few headers of the records of a block, without making objects of all the rest.

Who looks at every record of a log for two of its headers, beside a node at work, has two
microseconds for each. So there are two twins, `_picked.pyx` in C and the function here in Python,
with the same tests; the compiled one is used if it was built.

Source: ours; record/read.py for the format.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from penstock.record.errors import CorruptBatch
from penstock.record.read import iter_header_parts, part, read_raw

Picked: TypeAlias = tuple[Any, ...]
"""Offset delta, timestamp delta, key, and a value for each name: that of the first header of the
name that is neither null nor empty, or None."""
_Pick = Callable[[memoryview, tuple[bytes, ...], int, int, int], tuple[list[Picked], int]]
PORTION: Final = 512
"""Records in one call: a millisecond at most, for which the compiled twin keeps other threads
waiting, the event loop among them."""


def pick_records(
    block: memoryview, names: tuple[bytes, ...], at: int, previous: int, records_max: int
) -> tuple[list[Picked], int]:
    """Return what is wanted of so many records from byte `at` on, and where they end.

    `previous` is the offset delta of the record in front of them, or -1. Raises CorruptBatch.
    """
    found: list[Picked] = []
    while at < len(block) and len(found) < records_max:
        raw = read_raw(block, at)
        if raw.offset_delta <= previous:
            raise CorruptBatch(f"record at byte {at} of its block")
        values: dict[bytes, bytes] = {}
        for name, span in iter_header_parts(block, raw.headers_at, raw.end):
            told, value = part(block, name), part(block, span)
            if value and told in names:
                values.setdefault(told, value)
        picked = (values.get(name) for name in names)
        found.append((raw.offset_delta, raw.timestamp_delta, part(block, raw.key), *picked))
        previous, at = raw.offset_delta, raw.end
    return found, at


COMPILED: _Pick | None
try:
    from penstock.record import _picked
except ImportError:  # no C compiler at installation
    COMPILED = None
else:
    COMPILED = _picked.pick_records

_pick = COMPILED or pick_records


def iter_picked(block: memoryview, names: tuple[bytes, ...]) -> Iterator[Picked]:
    """Yield what is wanted of all records of a block. Raises CorruptBatch, maybe after some."""
    at, previous = 0, -1
    while at < len(block):
        found, at = _pick(block, names, at, previous, PORTION)
        yield from found
        previous = found[-1][0]
