"""A snapshot of a share: its chunks one by one, then its head, while other records go on.

    chunk 7 │ update │ chunk 8 │ update │ update │ head
            each chunk is what the log says up to it; updates behind it apply to it

So a snapshot needs no pause. A replay of the log from its first chunk on gives the share, and so
does a replay of all that was before. A snapshot without its head is none: the records before it are
still there. Where the window begins anew in between, updates say all of the new one.

Source: fuzzy checkpoints (Hagmann 1986; ZooKeeper, section 4.3). Kafka's ShareSnapshot is one
record, as it has 2,000 records in flight at most.
"""

import zlib
from collections.abc import Iterator
from typing import NamedTuple

from penstock.base.ids import CoordinatorEpoch
from penstock.coordinator import wire
from penstock.coordinator.errors import MalformedRecord
from penstock.coordinator.records import JournalRecord
from penstock.shares import reading
from penstock.shares.cells import CELLS, DONE, MASK, SHIFT, STATE_COUNT, Chunk
from penstock.shares.members import MEMBERS_MAX
from penstock.shares.reading import VERSION
from penstock.shares.records import chunk_key, from_little, head_key, little
from penstock.shares.runs import SPAN_MAX
from penstock.shares.share import Share

_LEVEL = 1
"""Of zlib: columns of a few values pack well at any level."""
_PLAIN_BYTES = 1 + 1 + 4 + 4 + 2
"""Of a cell; 4 more for the hash."""


class Cells(NamedTuple):
    """The part of a chunk that is in the window."""

    first: int
    """Its first place in the chunk; `end` is exclusive."""
    end: int
    is_ordered: bool
    plain: bytes


class Head(NamedTuple):
    """Everything else that a snapshot says."""

    base: int
    end: int
    seq: int
    snapshot_seq: int
    epoch: CoordinatorEpoch
    nonce: int
    forgiven_from: int
    is_ordered: bool
    names: list[str]


def snapshot(share: Share) -> Iterator[JournalRecord]:
    """Yield the records of a snapshot; each must be appended before anything else of the share.

    Other updates may be replayed between two of them.
    """
    if not share.has_begun:
        return
    since, number = share.seq, share.base >> SHIFT
    while number << SHIFT < share.end:
        number = max(number, share.base >> SHIFT)
        if number in share.chunks and share.base < share.end:
            yield chunk_key(share.key, number), encode_chunk(share, number)
        number += 1
    share.snapshot_seq = since
    yield head_key(share.key), encode_head(share)


def encode_chunk(share: Share, number: int) -> bytes:
    """Return the value of a chunk: what of it is in the window."""
    chunk, start = share.chunks[number], number << SHIFT
    first, end = max(share.base - start, 0), min(CELLS, share.end - start)
    plain = bytes(chunk.states[first:end]) + bytes(chunk.counts[first:end])
    for column in (chunk.nonces, chunk.dues, chunk.members, chunk.hashes):
        plain += little(column[first:end])
    packed = zlib.compress(plain, _LEVEL)
    out = bytes((VERSION,)) + wire.varint(first) + wire.varint(end)
    return out + bytes((share.is_ordered,)) + wire.varint(len(packed)) + packed


def decode_chunk(value: bytes) -> Cells:
    """Return the cells of a chunk. Raises MalformedRecord, UnknownVersion."""
    reader = wire.Reader(value)
    reading.version(reader)
    first, end = reading.number(reader, CELLS, "place"), reading.number(reader, CELLS, "place")
    is_ordered = reading.flag(reader)
    packed = reader.take(reading.number(reader, len(value), "bytes"))
    reading.end(reader)
    if first >= end:
        raise MalformedRecord(f"cells from {first} to {end}")
    size = (_PLAIN_BYTES + 4 * is_ordered) * (end - first)
    unpacking = zlib.decompressobj()
    try:
        plain = unpacking.decompress(packed, size + 1)
    except zlib.error as error:
        raise MalformedRecord("cells that can not be unpacked") from error
    if len(plain) != size or not unpacking.eof or unpacking.unused_data:
        raise MalformedRecord(f"{len(plain)} bytes of cells instead of {size}")
    if max(plain[: end - first]) >= STATE_COUNT:
        raise MalformedRecord(f"state {max(plain[: end - first])}")
    return Cells(first, end, is_ordered, plain)


def put_chunk(share: Share, number: int, cells: Cells) -> None:
    """Let a chunk of a share that is being loaded be what a snapshot says."""
    first, end, is_ordered, plain = cells
    share.is_ordered = is_ordered
    chunk = share.chunks[number] = Chunk(is_ordered=is_ordered)
    # Below the window all is over, also where this snapshot never came to its head.
    chunk.states[:first] = bytes((DONE,)) * first
    count, at = end - first, 0
    for column, width in ((chunk.states, 1), (chunk.counts, 1)):
        column[first:end] = plain[at : at + width * count]
        at += width * count
    for code, wide in (("I", chunk.nonces), ("I", chunk.dues), ("H", chunk.members)):
        width = wide.itemsize
        wide[first:end] = from_little(code, plain[at : at + width * count])
        at += width * count
    if is_ordered:
        chunk.hashes[first:end] = from_little("I", plain[at:])
    share.end = max(share.end, (number << SHIFT) + end)


def encode_head(share: Share) -> bytes:
    """Return the value of a head."""
    out = bytearray((VERSION,))
    for number in (share.base, share.end, share.seq, share.snapshot_seq, share.epoch + 1):
        out += wire.varint(number)
    out += wire.varint(share.nonce) + wire.varint(share.forgiven_from)
    out.append(share.is_ordered)
    out += wire.varint(len(share.members.names) - 1)
    for name in share.members.names[1:]:
        out += wire.compact_string(name)
    return bytes(out)


def decode_head(value: bytes) -> Head:
    """Return what a head says. Raises MalformedRecord, UnknownVersion."""
    reader = wire.Reader(value)
    reading.version(reader)
    base, end = reading.offset(reader), reading.offset(reader)
    if not base <= end <= base + SPAN_MAX:
        raise MalformedRecord(f"window from {base} to {end}")
    seq, since = reading.long_varint(reader), reading.long_varint(reader)
    epoch = CoordinatorEpoch(reading.number(reader, 0x8000_0000, "epoch") - 1)
    nonce, forgiven_from, is_ordered = (
        reading.nonce(reader),
        reading.nonce(reader),
        reading.flag(reader),
    )
    count = reading.number(reader, MEMBERS_MAX, "members")
    names = [reader.string(compact=True) for _ in range(count)]
    reading.end(reader)
    return Head(base, end, seq, since, epoch, nonce, forgiven_from, is_ordered, names)


def put_head(share: Share, head: Head) -> None:
    """Let a share that is being loaded be as a snapshot says: nothing is outside of its window."""
    share.base, share.end = head.base, head.end
    share.seq, share.snapshot_seq = max(share.seq, head.seq), head.snapshot_seq
    share.epoch, share.nonce = head.epoch, head.nonce
    share.forgiven_from, share.is_ordered = head.forgiven_from, head.is_ordered
    for number, name in enumerate(head.names, 1):
        share.members.put(number, name)
    first, stop = head.base >> SHIFT, -(-head.end // CELLS)
    for number in [number for number in share.chunks if not first <= number < stop]:
        del share.chunks[number]
    if head.end & MASK and stop - 1 in share.chunks:
        share.chunks[stop - 1].clear(head.end & MASK, CELLS)
