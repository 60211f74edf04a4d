"""What a node and its housekeeper say to each other over a pipe: jobs and answers.

    frame    8   length of the body u32, crc32c u32 of the body; then the body
    job      9   kind u8, number u64; then the job
    rate     9   kind u8, bytes per second u64: counts at once, also for a job under way; no answer
    answer   9   kind u8, number u64 of the job; then the answer

    split      text root, text log directory, text unfinished file, cluster id 16, replica set u32,
               reserve bytes u64, batch bytes u64, segment count u32, partition count u32;
               for each segment its base i64; for each partition topic id 16, partition i32,
               first offset i64
    clean      the first six as of a split, then topic id 16, partition i32, now i64 ms, newest i64
               ms, delete retention i64 ms, memory u32, bytes u64 and ms i64 of an extent, salt 16,
               extent count u32; for each extent its file's number u64, first offset i64, end offset
               i64, its entry in the directory 112
    shrink     the first six as of a split, then the file's number u64, bytes of the batches u64,
               extent count u32; then of all extents, little-endian, the numbers of their entries
               u32[], their end offsets i64[]
    made       extents u32, bytes of their batches u64; no extents: no file
    cleaned    extents u32, bytes read u64, bytes kept u64, dropped records u64; as above
    failed     position i64 of damage in the log, number i64 of a damaged extent file, each or -1;
               text reason

Text is its length in bytes as u16, and UTF-8. Another kind of work is another kind of job: its
codec stands in `_JOBS`, and what does it in jobs.py.

The two are of one release, started by one another: a message that is not right is a bug, or a pipe
that something else has written to, and ends the housekeeper.

Source: docs/adr/0104.
"""

from collections.abc import Callable
from struct import Struct, error
from typing import Any, NamedTuple, TypeVar

from crc32c import crc32c

from penstock.base.ids import TopicId, TopicPartition
from penstock.base.ports import Buffer
from penstock.extents.layout import ENTRY, Entry, pack_columns, unpack_columns
from penstock.housekeeper.errors import BadMessage
from penstock.storage.second_level.cleaning import Cleaned, CleaningOrder
from penstock.storage.second_level.held import Extent
from penstock.storage.second_level.shrinking import Kept

FRAME = Struct(">II")
HEAD = Struct(">BQ")
SPLIT = Struct(">16sIQQII")
SHRINK = Struct(">16sIQQQI")
CLEAN = Struct(">16sIQ16siqqqIQq16sI")
EXTENT = Struct(">Qqq")
KEPT_COLUMNS = "Iq"
KEPT_BYTES = 12
BASE = Struct(">q")
WANTED = Struct(">16siq")
MADE = Struct(">IQ")
CLEANED = Struct(">IQQQ")
FAILED = Struct(">qq")
TEXT = Struct(">H")

BODY_BYTES_MAX = 2 << 20
"""A split of the most partitions has 1.4 MB."""
REASON_CHARACTERS_MAX = 1000
UNFINISHED = ".tmp"

KIND_SPLIT = 1
KIND_CLEAN = 2
KIND_SHRINK = 3
KIND_RATE = 16
KIND_MADE = 1
KIND_FAILED = 2
KIND_CLEANED = 3

T = TypeVar("T")
Read = Callable[[int], bytes]
"""Reads exactly so many bytes; fewer at the end."""


class SplitJob(NamedTuple):
    """Make an extent file of closed segments of one log."""

    root: str
    """The data directory."""
    directory: str
    """Of the log, in it."""
    unfinished: str
    """The file to be written, in the data directory too."""
    cluster_id: bytes
    """16 bytes."""
    replica_set_id: int
    reserve_bytes: int
    """To be left free on the disk."""
    batch_bytes: int
    """What is to be written, about."""
    bases: tuple[int, ...]
    """The positions of the segments, oldest first."""
    wanted: tuple[tuple[TopicPartition, int], ...]
    """From which offset on (inclusive) each partition is copied."""


class CleanJob(NamedTuple):
    """Clean one partition of the second level of one log."""

    root: str
    """The data directory."""
    directory: str
    """Of the log, in it."""
    unfinished: str
    """The file to be written, in the data directory too."""
    cluster_id: bytes
    """16 bytes."""
    replica_set_id: int
    reserve_bytes: int
    """To be left free on the disk."""
    order: CleaningOrder


class ShrinkJob(NamedTuple):
    """Write one extent file of one log anew, with what is kept of it."""

    root: str
    """The data directory."""
    directory: str
    """Of the log, in it."""
    unfinished: str
    """The file to be written, in the data directory too."""
    cluster_id: bytes
    """16 bytes."""
    replica_set_id: int
    reserve_bytes: int
    """To be left free on the disk."""
    file_number: int
    batch_bytes: int
    """What is to be written, about."""
    kept: Kept


Job = SplitJob | CleanJob | ShrinkJob


class Made(NamedTuple):
    """A job was done, and its file is durable; no file if there are no extents."""

    extents: int
    batch_bytes: int


class Failed(NamedTuple):
    """A job was not done, and has left no file."""

    reason: str
    damage_position: int = -1
    """Where the log is damaged; -1 if that is not why."""
    damaged_file: int = -1
    """Number of the extent file that is damaged; -1 if that is not why."""


Answer = Made | Cleaned | Failed


def encode_job(number: int, job: Job) -> bytes:
    """Return a job as a frame."""
    if isinstance(job, CleanJob):
        return _frame(HEAD.pack(KIND_CLEAN, number) + _encode_clean(job))
    if isinstance(job, ShrinkJob):
        return _frame(HEAD.pack(KIND_SHRINK, number) + _encode_shrink(job))
    return _frame(HEAD.pack(KIND_SPLIT, number) + _encode_split(job))


def decode_job(body: bytes) -> tuple[int, Job]:
    """Return number and job. Raises BadMessage."""
    reader = _Reader(body)
    kind, number = reader.unpack(HEAD)
    decode = _JOBS.get(kind)
    if decode is None:
        raise BadMessage(f"a job of kind {kind}")
    job = decode(reader)
    reader.end()
    return number, job


def encode_rate(bytes_per_second: int) -> bytes:
    """Return the rate from now on as a frame; 0 is no bound."""
    return _frame(HEAD.pack(KIND_RATE, bytes_per_second))


def decode_rate(body: bytes) -> int | None:
    """Return the rate that a message tells; None if it is a job. Raises BadMessage."""
    reader = _Reader(body)
    kind, bytes_per_second = reader.unpack(HEAD)
    if kind != KIND_RATE:
        return None
    reader.end()
    return int(bytes_per_second)


def _encode_split(job: SplitJob) -> bytes:
    counts = len(job.bases), len(job.wanted)
    fixed = job.cluster_id, job.replica_set_id, job.reserve_bytes, job.batch_bytes
    return b"".join(
        (
            *(_text(text) for text in (job.root, job.directory, job.unfinished)),
            SPLIT.pack(*fixed, *counts),
            *(BASE.pack(base) for base in job.bases),
            *(WANTED.pack(*key, start) for key, start in job.wanted),
        )
    )


def _decode_place(reader: "_Reader") -> tuple[str, str, str]:
    root, directory, unfinished = reader.text(), reader.text(), reader.text()
    is_inside = unfinished.startswith(f"{directory}/") and ".." not in unfinished
    if not (is_inside and unfinished.endswith(UNFINISHED)):
        raise BadMessage(f"{unfinished} is no unfinished file of {directory}")
    return root, directory, unfinished


def _decode_split(reader: "_Reader") -> SplitJob:
    place = _decode_place(reader)
    cluster_id, set_id, reserve, batch_bytes, base_count, wanted_count = reader.unpack(SPLIT)
    bases = tuple(base for (base,) in reader.several(BASE, base_count))
    wanted = tuple(
        (TopicPartition(TopicId(topic_id), partition), start)
        for topic_id, partition, start in reader.several(WANTED, wanted_count)
    )
    return SplitJob(*place, cluster_id, set_id, reserve, batch_bytes, bases, wanted)


def _encode_clean(job: CleanJob) -> bytes:
    order = job.order
    rules = order.now_ms, order.newest_ms, order.delete_retention_ms, order.memory_bytes
    made = order.extent_bytes, order.extent_ms, order.salt, len(order.extents)
    fixed = job.cluster_id, job.replica_set_id, job.reserve_bytes
    return b"".join(
        (
            *(_text(text) for text in (job.root, job.directory, job.unfinished)),
            CLEAN.pack(*fixed, *order.topic_partition, *rules, *made),
            *(_encode_extent(extent) for extent in order.extents),
        )
    )


def _encode_extent(extent: Extent) -> bytes:
    place = extent.file_number, extent.first_offset, extent.end_offset
    return EXTENT.pack(*place) + ENTRY.pack(*extent.entry)


def _decode_clean(reader: "_Reader") -> CleanJob:
    place = _decode_place(reader)
    cluster_id, set_id, reserve, *fixed = reader.unpack(CLEAN)
    topic_id, partition, *rules, extent_bytes, extent_ms, salt, count = fixed
    extents = tuple(reader.pairs(EXTENT, ENTRY, count, _decode_extent))
    if not extents:
        raise BadMessage("nothing is to be cleaned")
    key = TopicPartition(TopicId(topic_id), partition)
    now, newest, delete, memory = rules
    sizes = extent_bytes, extent_ms
    order = CleaningOrder(key, extents, now, newest, delete, memory, salt, *sizes)
    return CleanJob(*place, cluster_id, set_id, reserve, order)


def _decode_extent(place: tuple[Any, ...], entry: tuple[Any, ...]) -> Extent:
    file_number, first_offset, end_offset = place
    return Extent(file_number, Entry(*entry), first_offset, end_offset)


def _encode_shrink(job: ShrinkJob) -> bytes:
    fixed = job.cluster_id, job.replica_set_id, job.reserve_bytes
    sizes = job.file_number, job.batch_bytes, len(job.kept.numbers)
    texts = (_text(text) for text in (job.root, job.directory, job.unfinished))
    kept = pack_columns(KEPT_COLUMNS, job.kept)
    return b"".join((*texts, SHRINK.pack(*fixed, *sizes), kept))


def _decode_shrink(reader: "_Reader") -> ShrinkJob:
    place = _decode_place(reader)
    cluster_id, set_id, reserve, file_number, batch_bytes, count = reader.unpack(SHRINK)
    if not count:
        raise BadMessage("nothing is to be kept")
    columns = unpack_columns(KEPT_COLUMNS, count, memoryview(reader.take(KEPT_BYTES * count)))
    kept = Kept(*columns)
    return ShrinkJob(*place, cluster_id, set_id, reserve, file_number, batch_bytes, kept)


_JOBS: dict[int, Callable[["_Reader"], Job]] = {
    KIND_SPLIT: _decode_split,
    KIND_CLEAN: _decode_clean,
    KIND_SHRINK: _decode_shrink,
}


def encode_answer(number: int, answer: Answer) -> bytes:
    """Return an answer as a frame."""
    if isinstance(answer, Made):
        return _frame(HEAD.pack(KIND_MADE, number) + MADE.pack(*answer))
    if isinstance(answer, Cleaned):
        return _frame(HEAD.pack(KIND_CLEANED, number) + CLEANED.pack(*answer))
    reason = _text(answer.reason[:REASON_CHARACTERS_MAX])
    return _frame(HEAD.pack(KIND_FAILED, number) + FAILED.pack(*answer[1:]) + reason)


def decode_answer(body: bytes) -> tuple[int, Answer]:
    """Return the job's number and the answer. Raises BadMessage."""
    reader = _Reader(body)
    kind, number = reader.unpack(HEAD)
    answer: Answer
    if kind == KIND_MADE:
        answer = Made(*reader.unpack(MADE))
    elif kind == KIND_CLEANED:
        answer = Cleaned(*reader.unpack(CLEANED))
    elif kind == KIND_FAILED:
        position, damaged_file = reader.unpack(FAILED)
        answer = Failed(reader.text(), position, damaged_file)
    else:
        raise BadMessage(f"an answer of kind {kind}")
    reader.end()
    return number, answer


def read_head(head: Buffer) -> tuple[int, int]:
    """Return length and checksum of the body that follows. Raises BadMessage."""
    length, crc = FRAME.unpack(head)
    if not HEAD.size <= length <= BODY_BYTES_MAX:
        raise BadMessage(f"a message of {length} bytes")
    return length, crc


def check_body(body: bytes, length: int, crc: int) -> bytes:
    """Return the body. Raises BadMessage unless it is whole and what was sent."""
    if len(body) != length or crc32c(body) != crc:
        raise BadMessage(f"{len(body)} of {length} bytes, or a checksum that does not agree")
    return body


def read_frame(read: Read) -> bytes | None:
    """Return the next body; None at the end of the pipe. Waits; raises BadMessage."""
    head = read(FRAME.size)
    if not head:
        return None
    if len(head) != FRAME.size:
        raise BadMessage("the pipe ends within a message")
    length, crc = read_head(head)
    return check_body(read(length), length, crc)


def _frame(body: bytes) -> bytes:
    if len(body) > BODY_BYTES_MAX:
        raise BadMessage(f"a message of {len(body)} bytes, at most {BODY_BYTES_MAX}")
    return FRAME.pack(len(body), crc32c(body)) + body


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    if len(data) > 0xFFFF:
        raise BadMessage(f"a text of {len(data)} bytes")
    return TEXT.pack(len(data)) + data


class _Reader:
    """Takes fields from a body; what is missing or left over is BadMessage."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def unpack(self, fields: Struct) -> tuple[Any, ...]:
        try:
            values = fields.unpack_from(self._body, self._at)
        except error as short:
            raise BadMessage(f"a message of {len(self._body)} bytes is too short") from short
        self._at += fields.size
        return values

    def several(self, fields: Struct, count: int) -> list[tuple[Any, ...]]:
        if count * fields.size > len(self._body) - self._at:
            raise BadMessage(f"{count} entries in {len(self._body)} bytes")
        return [self.unpack(fields) for _ in range(count)]

    def pairs(self, one: Struct, other: Struct, count: int, make: Callable[..., T]) -> list[T]:
        if count * (one.size + other.size) > len(self._body) - self._at:
            raise BadMessage(f"{count} entries in {len(self._body)} bytes")
        return [make(self.unpack(one), self.unpack(other)) for _ in range(count)]

    def take(self, size: int) -> bytes:
        if size > len(self._body) - self._at:
            raise BadMessage(f"{size} bytes in {len(self._body)}")
        self._at += size
        return self._body[self._at - size : self._at]

    def text(self) -> str:
        (length,) = self.unpack(TEXT)
        data = self._body[self._at : self._at + length]
        self._at += length
        try:
            return data.decode()
        except UnicodeDecodeError as wrong:
            raise BadMessage("a text that is no UTF-8") from wrong

    def end(self) -> None:
        if self._at != len(self._body):
            raise BadMessage(f"{len(self._body)} bytes, of which {self._at} were expected")
