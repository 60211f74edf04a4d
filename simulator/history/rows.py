"""The rows that brokers write to an internal topic, each once; what is missing among them.

    node:began_ms:number     names a row: a process, and a number that counts from 0; names by which
                             it is found may stand before that

A process writes its rows in the order of their numbers. With one that is killed go those that it
has not written: what is there is a beginning of what it numbered.

Source: docs/formats (audit.md, client-metrics.md, message-trace.md).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Writer(NamedTuple):
    """A process, as the keys of its rows name it."""

    node: int
    began_ms: int


Name = tuple[Writer, int]
Add = Callable[[bytes, bytes], None]


def name_of(key: bytes) -> Name:
    """Return the name that a record's key tells."""
    node, began_ms, number = map(int, key.rpartition(b" ")[2].split(b":"))
    return Writer(node, began_ms), number


class Arrivals:
    """Rows of several partitions that are read one after the other, over and over.

    While one is read rows come to another, so those of one look are no beginning of what a process
    has numbered. Those up to the highest number that was there when a whole look began are one.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Name, bytes, bytes]] = []
        self._highest: dict[Writer, int] = {}
        self._at_begin: dict[Writer, int] = {}

    def begin(self) -> None:
        """Begin to read every partition to its end."""
        self._at_begin = dict(self._highest)

    def note(self, key: bytes, value: bytes) -> None:
        """Note a row that was read."""
        writer, number = name = name_of(key)
        self._waiting.append((name, key, value))
        self._highest[writer] = max(number, self._highest.get(writer, number))

    def end(self, add: Add) -> None:
        """Hand over beginnings, once every partition was read to its end."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            (writer, number), key, value = one
            if number <= self._at_begin.get(writer, -1):
                add(key, value)
            else:
                self._waiting.append(one)


@dataclass(slots=True)
class RowBook:
    """See the module."""

    rows: dict[Name, bytes] = field(default_factory=dict)
    twice: int = 0
    wrong: list[str] = field(default_factory=list)

    def add_named(self, key: bytes, value: bytes) -> Name | None:
        """Add a row; return its name, or None if it is there already."""
        name = name_of(key)
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
