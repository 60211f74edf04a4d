"""The rows that brokers write to an internal topic, each once; what is missing among them.

    node:began_ms:number     names a row: a process, and a number that counts from 0

A process writes its rows in the order of their numbers. With one that is killed go those that it
has not written: what is there is a beginning of what it numbered.

Source: docs/formats (audit.md, client-metrics.md, message-trace.md).
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Writer(NamedTuple):
    """A process, as the keys of its rows name it."""

    node: int
    began_ms: int


Name = tuple[Writer, int]


@dataclass(slots=True)
class RowBook:
    """See the module."""

    rows: dict[Name, bytes] = field(default_factory=dict)
    twice: int = 0
    wrong: list[str] = field(default_factory=list)

    def add_named(self, key: bytes, value: bytes) -> Name | None:
        """Add a row; return its name, or None if it is there already."""
        node, began_ms, number = map(int, key.split(b":"))
        name = Writer(node, began_ms), number
        if name in self.rows:
            self.twice += 1
            if self.rows[name] != value:
                self.wrong.append(f"row {key!r} is there with two contents")
            return None
        self.rows[name] = value
        return name

    def gaps(self) -> Iterator[str]:
        """Name the writers whose rows are not all that they numbered first."""
        numbers: defaultdict[Writer, list[int]] = defaultdict(list)
        for writer, number in self.rows:
            numbers[writer].append(number)
        for writer, found in numbers.items():
            if len(found) != max(found) + 1:
                missing = min(set(range(max(found))) - set(found))
                yield f"row {missing} of {writer} is missing, and row {max(found)} is there"
