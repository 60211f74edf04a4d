"""Markers: the control batches that end a transaction in one partition.

    batch     one record; transactional and control; the producer's id and epoch, sequence -1
    key       version i16 (0), type i16: 0 abort, 1 commit
    value     version i16 (0), coordinator epoch i32
    header    "first-offset": i64, first offset of the transaction in the partition, -1 if none

The header is ours, and clients skip it with the record. It makes the marker complete: what was
aborted follows from the marker alone, so an index can be rebuilt from the segment that has it.

Source: KIP-98 (control messages); Kafka `EndTransactionMarker`, `ControlRecordType`.
"""

from struct import Struct, error
from typing import NamedTuple

from penstock.base.ids import CoordinatorEpoch
from penstock.record.batch import BATCH_HEADER_BYTES, CONTROL, TRANSACTIONAL
from penstock.record.build import Record, build_batch
from penstock.record.compiled import check_batch
from penstock.record.errors import CorruptBatch, InvalidRecord, RecordError
from penstock.record.read import iter_records

FIRST_OFFSET = "first-offset"
NOTHING_OPEN = -1

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_OFFSET = Struct(">q")
_ABORT, _COMMIT = 0, 1


_OWN = Struct(">5shhshi15sq")
"""Key, value and header between what is the same in each: the first byte is the record's length."""
_OWN_BYTES = (b"\x4c\0\0\0\x08", b"\x0c", b"\x02\x18first-offset\x10")


class Marker(NamedTuple):
    """How a transaction ended in a partition."""

    is_commit: bool
    coordinator_epoch: CoordinatorEpoch
    first_offset: int
    """Of the transaction's first batch in the partition; NOTHING_OPEN if it had none."""


def build_marker(
    marker: Marker, *, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> bytes:
    """Return the sealed batch of a marker."""
    record = Record(
        key=_KEY.pack(0, _COMMIT if marker.is_commit else _ABORT),
        value=_VALUE.pack(0, marker.coordinator_epoch),
        headers=((FIRST_OFFSET, _OFFSET.pack(marker.first_offset)),),
        timestamp_ms=timestamp_ms,
    )
    return build_batch(
        [record],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=TRANSACTIONAL | CONTROL,
    )


def read_marker(batch: memoryview) -> Marker | None:
    """Return the marker in a control batch; None for a control record of another type.

    Raises RecordError kinds: the record is not one that a broker writes.
    """
    plain = _read_own(batch)
    return _read_any(batch) if plain is None else plain


def _read_own(batch: memoryview) -> Marker | None:
    """Return a marker as `build_marker` writes it; None for any other batch.

    Thousands of markers may come to the log at once: this takes 2 us, and going by the format 50.
    """
    if len(batch) != BATCH_HEADER_BYTES + _OWN.size:
        return None
    try:
        header = check_batch(batch, 0, len(batch))
    except RecordError:
        return None
    if header.size_bytes != len(batch) or header.codec or header.record_count != 1:
        return None
    lead, version, kind, between, _, epoch, name, first = _OWN.unpack_from(
        batch, BATCH_HEADER_BYTES
    )
    if version or (lead, between, name) != _OWN_BYTES or kind not in {_ABORT, _COMMIT}:
        return None
    return Marker(kind == _COMMIT, epoch, first)


def _read_any(batch: memoryview) -> Marker | None:
    record = next(iter_records(batch), None)
    if record is None or record.key is None:
        raise InvalidRecord("a control batch without a typed record")
    try:
        _, kind = _KEY.unpack_from(record.key)
        if kind not in {_ABORT, _COMMIT}:
            return None
        _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
        found = dict(record.headers).get(FIRST_OFFSET)
        first_offset = NOTHING_OPEN if found is None else _OFFSET.unpack(found)[0]
    except error as short:
        raise CorruptBatch(f"control record: {short}") from short
    return Marker(kind == _COMMIT, coordinator_epoch, first_offset)
