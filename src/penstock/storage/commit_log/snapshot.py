"""The snapshot: the state of a log at one position, so that older frames need not be replayed.

    header      64 bytes, big-endian: magic "PSSN", version u16 (1 or 2), flags u16 (1: clean close,
                2: the set had not confirmed the position), position i64, active segment base i64,
                side file number u32, side bytes u64, segment count u32, epoch count u32,
                partition count u32, producer count u32, count u32 of undecided transactions,
                crc32c u32 of everything behind the header, 4 zero
    segments    i64 base of every segment that belonged to the log
    epochs      leader epoch i32, start position i64
    partitions  topic id 16, partition i32, serial u32, log start offset i64, log end offset i64,
                last end position i64, size i64, sized from i64, largest timestamp i64
    producers   serial u32, producer id i64, epoch i16, batch count u8, last heard of i64 (ms),
                in version 2 epoch i32 of the coordinator whose marker was the last one,
                then for each batch base sequence i32, last sequence i32, base offset i64
    undecided   version 2: transactions that are open, or ended by a marker that the set had not
                confirmed: serial u32, producer id i64, first offset i64, position i64 of its frame,
                end position i64 of the marker's frame (-1: open)
    trailer     crc32c u32 of the header

    snapshot/<position, 20 digits>.snap; the newest two are kept

Version 2 is written only if there is something that version 1 can not say.

Written with `replace` after the log and the side file were synced up to the position, so a
snapshot never refers to bytes that a power loss can take away.

Source: Kafka's producer snapshot and checkpoint files; one file here because they must agree.
"""

from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ids import LeaderEpoch, Offset, Position, TopicId, TopicPartition
from penstock.storage.errors import CorruptFile
from penstock.storage.index.producers import NO_COORDINATOR, ProducerKey, ProducerState
from penstock.storage.index.transactions import Undecided

HEADER = Struct(">4sHHqqIQIIIIII4x")
BASE = Struct(">q")
EPOCH = Struct(">iq")
PARTITION = Struct(">16siIqqqqqq")
PRODUCER = {1: Struct(">IqhBq"), 2: Struct(">IqhBqi")}
UNDECIDED = Struct(">Iqqqq")
SPAN = Struct(">iiq")
CRC = Struct(">I")
MAGIC = b"PSSN"
VERSION = 2
PLAIN_VERSION = 1
CLEAN = 1
UNCONFIRMED = 2
PRODUCER_TAIL = tuple(Struct(">" + "iiq" * count) for count in range(6))

assert HEADER.size == 64


class PartitionState(NamedTuple):
    """What a snapshot keeps of a partition; the fields of PartitionLog."""

    topic_id: TopicId
    partition: int
    serial: int
    log_start_offset: Offset
    log_end_offset: Offset
    last_end_position: Position
    size_bytes: int
    sized_from: Position
    max_timestamp: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the state belongs to."""
        return TopicPartition(self.topic_id, self.partition)


class Snapshot(NamedTuple):
    """The state of a log at `position`."""

    position: Position
    is_clean: bool
    """Whether the log was closed at this position, with nothing written behind it."""
    active_base: Position
    side_number: int
    side_bytes: int
    segments: list[Position]
    epochs: list[tuple[LeaderEpoch, Position]]
    partitions: list[PartitionState]
    producers: Mapping[ProducerKey, ProducerState]
    is_confirmed: bool = True
    """Whether the set had confirmed the position; after a rebuild the log may not know."""
    transactions: Sequence[Undecided] = ()
    """In the order in which `LogTransactions.restore` takes them."""


def snapshot_path(directory: str, position: Position) -> str:
    """Return the path of the snapshot at `position`."""
    return f"{directory}/snapshot/{position:020d}.snap"


def encode_snapshot(snapshot: Snapshot, encoded_partitions: Sequence[bytes]) -> bytes:
    """Return the file's bytes. Partitions are given encoded, since most of them are unchanged."""
    parts = [BASE.pack(base) for base in snapshot.segments]
    parts += [EPOCH.pack(*epoch) for epoch in snapshot.epochs]
    parts.extend(encoded_partitions)
    version = _version_of(snapshot)
    producer = PRODUCER[version]
    for (serial, producer_id), state in snapshot.producers.items():
        epoch, last_ms, window, coordinator_epoch = state
        numbers = serial, producer_id, epoch, len(window), last_ms, coordinator_epoch
        parts.append(producer.pack(*(numbers if version == VERSION else numbers[:5])))
        spans = [number for span in window for number in span]
        parts.append(PRODUCER_TAIL[len(window)].pack(*spans))
    parts += [UNDECIDED.pack(*one) for one in snapshot.transactions]
    body = b"".join(parts)
    header = HEADER.pack(
        MAGIC,
        version,
        (CLEAN if snapshot.is_clean else 0) | (0 if snapshot.is_confirmed else UNCONFIRMED),
        snapshot.position,
        snapshot.active_base,
        snapshot.side_number,
        snapshot.side_bytes,
        len(snapshot.segments),
        len(snapshot.epochs),
        len(encoded_partitions),
        len(snapshot.producers),
        len(snapshot.transactions),
        crc32c(body),
    )
    return b"".join((header, body, CRC.pack(crc32c(header))))


def _version_of(snapshot: Snapshot) -> int:
    has_markers = any(state[3] != NO_COORDINATOR for state in snapshot.producers.values())
    return VERSION if has_markers or snapshot.transactions else PLAIN_VERSION


def encode_partition(state: PartitionState) -> bytes:
    """Return one partition's part of a snapshot."""
    return PARTITION.pack(*state)


def decode_snapshot(path: str, data: memoryview) -> Snapshot:
    """Return the snapshot in `data`. Raises CorruptFile."""
    if len(data) < HEADER.size + CRC.size:
        raise CorruptFile(path, "too short")
    if crc32c(data[: HEADER.size]) != CRC.unpack(data[-4:])[0]:
        raise CorruptFile(path, "header checksum does not agree")
    (
        magic,
        version,
        flags,
        position,
        active_base,
        side_number,
        side_bytes,
        segment_count,
        epoch_count,
        partition_count,
        producer_count,
        undecided_count,
        body_crc,
    ) = HEADER.unpack_from(data)
    if magic != MAGIC or version not in PRODUCER:
        raise CorruptFile(path, f"magic {magic!r}, version {version}")
    body = data[HEADER.size : -CRC.size]
    if crc32c(body) != body_crc:
        raise CorruptFile(path, "checksum does not agree")
    at = [0]
    for size, count in ((BASE.size, segment_count), (EPOCH.size, epoch_count)):
        at.append(at[-1] + size * count)
    at.append(at[-1] + PARTITION.size * partition_count)
    undecided_at = len(body) - UNDECIDED.size * undecided_count
    return Snapshot(
        position=position,
        is_clean=bool(flags & CLEAN),
        active_base=active_base,
        side_number=side_number,
        side_bytes=side_bytes,
        segments=[base for (base,) in BASE.iter_unpack(body[at[0] : at[1]])],
        epochs=[(epoch, start) for epoch, start in EPOCH.iter_unpack(body[at[1] : at[2]])],
        partitions=[
            PartitionState(*fields) for fields in PARTITION.iter_unpack(body[at[2] : at[3]])
        ],
        producers=dict(_producers(body[at[3] :], producer_count, version)),
        is_confirmed=not flags & UNCONFIRMED,
        transactions=[Undecided(*one) for one in UNDECIDED.iter_unpack(body[undecided_at:])],
    )


def _producers(
    data: memoryview, count: int, version: int
) -> Iterator[tuple[ProducerKey, ProducerState]]:
    at = 0
    head = PRODUCER[version]
    for _ in range(count):
        serial, producer_id, epoch, batches, last_ms, *rest = head.unpack_from(data, at)
        at += head.size
        end = at + batches * SPAN.size
        window = tuple(SPAN.iter_unpack(data[at:end]))
        at = end
        coordinator_epoch = rest[0] if rest else NO_COORDINATOR
        yield (serial, producer_id), (epoch, last_ms, window, coordinator_epoch)
