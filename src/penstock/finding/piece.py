"""A piece of the index: which names occur in one range of a log, and at which offsets.

    hash of (topic, name), 8 bytes ─► the first 9 bits: its bucket ─► entries, oldest first
    entry    hash 8, partition 4 (a number within the piece), offset 8

A name is an id or a key of a message. Two names may have one hash, and a message may be gone: who
finds a place reads what is there and compares. So an entry too many costs a read, and only one too
few would be a mistake.

One worker at a time gathers entries for a piece; the loop adds them and looks in it meanwhile.

Source: ours; RocketMQ `IndexFile` (4 bytes of a hash, one list for all messages of a broker).
"""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from penstock.base.ids import TopicId, TopicPartition

HASH_BYTES: Final = 8
ENTRY: Final = Struct(">8sIQ")
BUCKET_BITS: Final = 9
ENTRIES_MAX: Final = 1 << 17
"""Of a piece, whereupon it becomes a table on the disk: 2.6 MB of memory."""
NO_TIME: Final = (1 << 63) - 1
_SHIFT: Final = 16 - BUCKET_BITS


class Place(NamedTuple):
    """Where a message may be."""

    partition: TopicPartition
    offset: int


def hash_of(topic_id: bytes, name: bytes) -> bytes:
    """Return what a name of a topic is found by."""
    return blake2b(topic_id + name, digest_size=HASH_BYTES).digest()


def bucket_of(name_hash: bytes) -> int:
    """Return the bucket of a hash."""
    return (name_hash[0] << 8 | name_hash[1]) >> _SHIFT


def matches(entries: bytes | bytearray, name_hash: bytes) -> Iterator[tuple[int, int]]:
    """Yield partition number and offset of the entries of a hash, newest first."""
    at = entries.rfind(name_hash)
    while at >= 0:
        rest = at % ENTRY.size
        if not rest:
            _, number, offset = ENTRY.unpack_from(entries, at)
            yield number, offset
        at = entries.rfind(name_hash, 0, at + HASH_BYTES - 1)


class Gathered:
    """What a worker has found in the next part of the range, for one piece."""

    __slots__ = ("_piece", "buckets", "count", "first_ms", "last_ms", "unreadable")

    def __init__(self, piece: "Piece") -> None:
        self._piece = piece
        self.buckets: dict[int, bytearray] = {}
        self.count = 0
        self.first_ms, self.last_ms = NO_TIME, -NO_TIME
        self.unreadable = 0
        """Batches whose records can not be read; no consumer gets them."""

    def add(self, partition: TopicPartition, offset: int, names: list[bytes]) -> None:
        """Note the names of a message."""
        number = self._piece.number_of(partition, offset)
        for name in names:
            name_hash = hash_of(partition.topic_id, name)
            entry = ENTRY.pack(name_hash, number, offset)
            self.buckets.setdefault(bucket_of(name_hash), bytearray()).extend(entry)
        self.count += len(names)

    def saw(self, timestamp_ms: int) -> None:
        """Note the time of a message."""
        self.first_ms = min(self.first_ms, timestamp_ms)
        self.last_ms = max(self.last_ms, timestamp_ms)


class Piece:
    """See the module. It covers the positions [first, end) of its log."""

    __slots__ = (
        "_numbers",
        "buckets",
        "count",
        "end",
        "epoch",
        "first",
        "first_ms",
        "last_ms",
        "last_offsets",
        "partitions",
    )

    def __init__(self, first: int, epoch: int = -1) -> None:
        self.first = self.end = first
        self.epoch = epoch
        """Of the last frame in front of `end`; -1 where that is not known."""
        self.count = 0
        self.first_ms, self.last_ms = NO_TIME, -NO_TIME
        self.buckets = [bytearray() for _ in range(1 << BUCKET_BITS)]
        self.partitions: list[TopicPartition] = []
        self.last_offsets: list[int] = []
        """The highest offset of each partition."""
        self._numbers: dict[TopicPartition, int] = {}

    def number_of(self, partition: TopicPartition, offset: int) -> int:
        """Return the number of a partition that has a message there; for the worker that gathers.

        An offset that nothing is added for afterwards keeps a table for longer than needed.
        """
        number = self._numbers.get(partition)
        if number is None:
            number = len(self.partitions)
            kept = TopicPartition(TopicId(bytes(partition.topic_id)), partition.partition)
            self.last_offsets.append(offset)
            self.partitions.append(kept)
            self._numbers[kept] = number
        self.last_offsets[number] = max(self.last_offsets[number], offset)
        return number

    def add(self, gathered: Gathered, end: int, epoch: int) -> None:
        """Add what was gathered up to a position, whose last frame is of this epoch."""
        for bucket, entries in gathered.buckets.items():
            self.buckets[bucket] += entries
        self.count += gathered.count
        self.first_ms = min(self.first_ms, gathered.first_ms)
        self.last_ms = max(self.last_ms, gathered.last_ms)
        self.end, self.epoch = end, epoch

    def find(self, name_hash: bytes, most: int) -> list[Place]:
        """Return up to `most` places of a hash, newest first."""
        found = islice(matches(self.buckets[bucket_of(name_hash)], name_hash), most)
        return [Place(self.partitions[number], offset) for number, offset in found]
