"""The frame: the unit that a commit log consists of.

    at  bytes  field
     0      4  crc32c        of bytes 4 to 47 and of the covered payload, see below
     4      2  magic         0x5053
     6      1  version       1
     7      1  kind          1 batch, 2 log start offset, 3 epoch start, 4 end of segment
     8      4  frame_bytes   header and payload
    12      4  leader_epoch  of the replica set when the frame was appended
    16      8  position      the frame's own position in the log
    24      4  unflushed     position - flushed position at append; 2^32-1 when it was more
    28      4  partition     -1 where the frame concerns the whole set
    32     16  topic_id      zeros where the frame concerns the whole set
    48         payload

All integers are big-endian. The checksum comes first so that it covers one contiguous range:
for a batch the rest of the header and the batch's first 21 bytes (base offset, length, leader
epoch, magic and the batch's own CRC, which are exactly what the batch's own CRC leaves out); for
the other kinds the rest of the header and the whole payload. No byte is covered by two checksums.

`position` identifies an old frame that is left in a recycled file: it names another place.
`unflushed` lets recovery tell a torn tail from bit rot. If a whole frame behind a bad one claims
that the bad one's bytes had been synced before it was appended, durable data was lost.

Source: RocketMQ's commit log (one log for all topics); Kafka KIP-98 for the batch inside.
This module does no I/O.
"""

from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ids import TopicPartition
from penstock.base.ports import Buffer
from penstock.frames.errors import CorruptFrame

FRAME_HEADER_BYTES = 48
FRAME_MAGIC = 0x5053
FRAME_VERSION = 1
BATCH_COVERED_BYTES = 21
BATCH_HEADER_BYTES = 61
UNFLUSHED_MAX = 0xFFFFFFFF

KIND_BATCH = 1
KIND_LOG_START = 2
KIND_EPOCH = 3
KIND_END = 4
KIND_NAMES = {1: "batch", 2: "log-start-offset", 3: "epoch-start", 4: "end-of-segment"}

WHOLE_SET = b"\xff\xff\xff\xff" + bytes(16)
"""The key (partition, topic id) of frames that concern the whole set."""

MAGIC_PREFIX = Struct(">HB").pack(FRAME_MAGIC, FRAME_VERSION)
BATCH_WORD = FRAME_MAGIC << 16 | FRAME_VERSION << 8 | KIND_BATCH

HEADER = Struct(">IHBBIiQIi16s")
CRC = Struct(">I")
KEY = Struct(">i16s")
AFTER_CRC = Struct(">HBBIiQI20s")
BATCH_AFTER_CRC = Struct(">IIiQI20sqii")
"""Everything behind the checksum up to and with the batch's base offset, length and epoch."""
LOG_START_PAYLOAD = Struct(">q")
EPOCH_PAYLOAD = Struct(">iq")

_pack_batch = BATCH_AFTER_CRC.pack_into
_pack_crc = CRC.pack_into

assert HEADER.size == FRAME_HEADER_BYTES
assert AFTER_CRC.size + CRC.size == FRAME_HEADER_BYTES
assert BATCH_AFTER_CRC.size + CRC.size == FRAME_HEADER_BYTES + 16


class FrameHeader(NamedTuple):
    """The ten fields of a frame header, in their order on disk."""

    crc: int
    magic: int
    version: int
    kind: int
    frame_bytes: int
    leader_epoch: int
    position: int
    unflushed: int
    partition: int
    topic_id: bytes

    @property
    def flushed_before(self) -> int:
        """Position below which everything was synced at append; 0 where that is not known."""
        return 0 if self.unflushed == UNFLUSHED_MAX else self.position - self.unflushed


def begun_epoch(header: FrameHeader, payload: Buffer) -> tuple[int, int]:
    """Return (leader epoch, start position) of the mastership that the frame may begin.

    The frame is an epoch frame or an end marker. An end marker begins its epoch at its own position
    if no earlier frame did.
    """
    if header.kind == KIND_END:
        return header.leader_epoch, header.position
    epoch, start = EPOCH_PAYLOAD.unpack(payload)
    return epoch, start


def frame_key(topic_partition: TopicPartition) -> bytes:
    """Return the 20 bytes (partition, topic id) that every frame of a partition carries."""
    return KEY.pack(topic_partition.partition, topic_partition.topic_id)


def build_frame(
    kind: int, key: bytes, payload: bytes, *, leader_epoch: int, position: int, unflushed: int
) -> bytes:
    """Return a whole frame of a kind other than batch."""
    assert kind != KIND_BATCH
    frame_bytes = FRAME_HEADER_BYTES + len(payload)
    rest = AFTER_CRC.pack(
        FRAME_MAGIC,
        FRAME_VERSION,
        kind,
        frame_bytes,
        leader_epoch,
        position,
        min(unflushed, UNFLUSHED_MAX),
        key,
    )
    return b"".join((CRC.pack(crc32c(payload, crc32c(rest))), rest, payload))


def build_batch_head(  # noqa: PLR0917  the fields, in the order of the header
    batch: memoryview,
    key: bytes,
    leader_epoch: int,
    position: int,
    unflushed: int,
    base_offset: int,
) -> bytearray:
    """Return frame header and stamped first bytes of a batch; `batch[21:]` follows them."""
    size = len(batch)
    head = bytearray(FRAME_HEADER_BYTES + BATCH_COVERED_BYTES)
    head[FRAME_HEADER_BYTES:] = batch[:BATCH_COVERED_BYTES]
    BATCH_AFTER_CRC.pack_into(
        head,
        4,
        BATCH_WORD,
        size + FRAME_HEADER_BYTES,
        leader_epoch,
        position,
        min(unflushed, UNFLUSHED_MAX),
        key,
        base_offset,
        size - 12,
        leader_epoch,
    )
    CRC.pack_into(head, 0, crc32c(memoryview(head)[4:]))
    return head


def put_batch_frame(  # noqa: PLR0913, PLR0917  the fields, in the order of the header
    view: memoryview,
    at: int,
    batch: memoryview,
    key: bytes,
    leader_epoch: int,
    position: int,
    unflushed: int,
    base_offset: int,
) -> None:
    """Write the frame of a batch, which gets its offset and epoch, to byte `at` of `view`.

    Raises ValueError where it does not fit.
    """
    size = len(batch)
    frame_bytes = size + FRAME_HEADER_BYTES
    view[at + FRAME_HEADER_BYTES : at + frame_bytes] = batch
    _pack_batch(
        view,
        at + 4,
        BATCH_WORD,
        frame_bytes,
        leader_epoch,
        position,
        unflushed if unflushed < UNFLUSHED_MAX else UNFLUSHED_MAX,
        key,
        base_offset,
        size - 12,
        leader_epoch,
    )
    _pack_crc(view, at, crc32c(view[at + 4 : at + FRAME_HEADER_BYTES + BATCH_COVERED_BYTES]))


def check_header(buffer: memoryview, at: int, position: int, room: int) -> FrameHeader:
    """Return the header at `at` if its fields are valid for a frame at `position`.

    `room` is the byte count from the frame's start to the end of its segment.

    Raises:
        CorruptFrame: not a frame, a stale frame of a recycled file, or one that does not fit.
    """
    if room < FRAME_HEADER_BYTES or len(buffer) - at < FRAME_HEADER_BYTES:
        raise CorruptFrame(position, "no room for a frame header")
    header = FrameHeader(*HEADER.unpack_from(buffer, at))
    if header.magic != FRAME_MAGIC:
        raise CorruptFrame(position, f"magic is 0x{header.magic:04x}")
    if header.version != FRAME_VERSION:
        raise CorruptFrame(position, f"version {header.version} is not known")
    if header.position != position:
        raise CorruptFrame(position, f"frame belongs to position {header.position}")
    least = FRAME_HEADER_BYTES + (BATCH_HEADER_BYTES if header.kind == KIND_BATCH else 0)
    if not least <= header.frame_bytes <= room:
        raise CorruptFrame(position, f"frame of {header.frame_bytes} bytes does not fit")
    if header.kind not in KIND_NAMES:
        raise CorruptFrame(position, f"kind {header.kind} is not known")
    return header


def check_body(buffer: memoryview, at: int, header: FrameHeader) -> None:
    """Check the checksums of the whole frame at `at`, whose header passed `check_header`.

    Raises:
        CorruptFrame: a checksum or a length does not agree.
    """
    end = at + header.frame_bytes
    payload = at + FRAME_HEADER_BYTES
    is_batch = header.kind == KIND_BATCH
    covered_end = payload + BATCH_COVERED_BYTES if is_batch else end
    if len(buffer) < end:
        raise CorruptFrame(header.position, "frame is cut short")
    if crc32c(buffer[at + 4 : covered_end]) != header.crc:
        raise CorruptFrame(header.position, "frame checksum does not agree")
    if not is_batch:
        return
    length = int.from_bytes(buffer[payload + 8 : payload + 12], "big", signed=True)
    if length + 12 != header.frame_bytes - FRAME_HEADER_BYTES:
        raise CorruptFrame(header.position, f"batch length {length} does not agree")
    if crc32c(buffer[covered_end:end]) != CRC.unpack_from(buffer, payload + 17)[0]:
        raise CorruptFrame(header.position, "batch checksum does not agree")


def newer_header(buffer: memoryview, at: int, position: int, room: int) -> FrameHeader | None:
    """Return the header at `at` if it may be that of a later release's frame; else None.

    Frames of every later version begin with checksum, magic, version, kind and length as these do,
    and hold their position in the same bytes (ADR 0057).
    """
    if len(buffer) - at < FRAME_HEADER_BYTES:
        return None
    header = FrameHeader(*HEADER.unpack_from(buffer, at))
    is_later = header.version > FRAME_VERSION or header.kind not in KIND_NAMES
    is_here = header.magic == FRAME_MAGIC and header.position == position
    fits = FRAME_HEADER_BYTES <= header.frame_bytes <= room
    return header if is_later and is_here and fits else None


def is_whole_newer(buffer: memoryview, at: int, header: FrameHeader) -> bool:
    """Return whether the checksum of such a frame matches; see the module for what it covers."""
    end = at + header.frame_bytes
    batch_end = at + FRAME_HEADER_BYTES + BATCH_COVERED_BYTES
    return len(buffer) >= end and header.crc in {
        crc32c(buffer[at + 4 : end]),
        crc32c(buffer[at + 4 : min(batch_end, end)]),
    }
