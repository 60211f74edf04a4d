"""Bytes of metadata records: a binary envelope around a compact JSON body.

    kind u16 │ version u16 │ body length u32 │ body (UTF-8 JSON object, keys sorted)

An entry of the log is one or more envelopes back to back. The envelope has no checksum of its own:
the frame of the file, or of the Raft log, has one around the whole entry. Encoding is canonical:
equal records at one metadata level give equal bytes.

What stands in a body is declared at the record's class (declare.py). A reader refuses kinds and
versions that it does not know, since skipping a record would make an image that differs from
everybody else's; kinds that may be carried it keeps as they are (ADR 0067).

Source: KIP-631 gives each record a type and a version of its own; the JSON body is ours, see ADR
0004. It does not check whether a record makes sense: replay does.
"""

import json
import struct
import typing
from collections.abc import Iterable, Iterator
from typing import Any

from penstock.base.invariant import invariant
from penstock.base.ports import Buffer
from penstock.controller.errors import CorruptMetadata, UnsupportedMetadata
from penstock.controller.metadata import records as r
from penstock.controller.metadata.config_records import CONFIGURATION_LEVEL
from penstock.controller.metadata.declare import Shape, read_str
from penstock.controller.metadata.kinds import CARRIED_KIND_MIN
from penstock.controller.metadata.levels import FIRST_LEVEL, METADATA, METADATA_LEVELS

ENTRY_BYTES_MAX = 16 << 20
"""An entry larger than this is refused before it is proposed: 16 MiB, some 1.5 million partitions
in one command, and far below what a Raft message may have to carry at once."""

_ENVELOPE = struct.Struct(">HHI")

SHAPES: dict[type[Any], Shape] = {
    cls: Shape(cls) for cls in typing.get_args(r.MetadataRecord) if cls is not r.CarriedRecord
}
"""What is declared of every class of records; those that are carried have no class."""
_SHAPES_BY_KIND: dict[int, Shape] = {shape.kind: shape for shape in SHAPES.values()}
assert _SHAPES_BY_KIND.keys() == set(r.RecordKind), "each kind is declared once"


def level_of(record: r.MetadataRecord) -> int:
    """Return the lowest metadata level at which a record may be written as it is."""
    if isinstance(record, r.CarriedRecord):
        return CONFIGURATION_LEVEL
    return SHAPES[type(record)].level_of(record)


def encode_records(records: Iterable[r.MetadataRecord], level: int = FIRST_LEVEL) -> bytes:
    """Return the envelopes of `records` back to back: one log entry, or a snapshot's body.

    `level` is the metadata level that stands in front of them; a record among them that changes it
    counts for those behind. A snapshot begins at the first level.

    Raises:
        InvariantViolation: a record that needs a higher level.
    """
    return b"".join(encode_each(records, level))


def encode_each(records: Iterable[r.MetadataRecord], level: int = FIRST_LEVEL) -> Iterator[bytes]:
    """Yield the envelope of each record: what `encode_records` gives, in pieces."""
    for record in records:
        invariant(level_of(record) <= level, "the level allows the record", level=level)
        yield _encode(record, level)
        if isinstance(record, r.FeatureLevelChanged) and record.feature == METADATA:
            level = record.level


def decode_records(entry: Buffer) -> list[r.MetadataRecord]:
    """Return the records of an entry, in order.

    Raises:
        CorruptMetadata: lengths or fields that can not be what was written.
        UnsupportedMetadata: a kind, a version or a level of a newer release.
    """
    return list(decode_each(entry))


def decode_each(entry: Buffer) -> Iterator[r.MetadataRecord]:
    """Yield the same one by one; each may raise what `decode_records` does."""
    view = memoryview(entry)
    at = 0
    while at < len(view):
        if len(view) - at < _ENVELOPE.size:
            raise CorruptMetadata(f"{len(view) - at} bytes are no envelope")
        kind, version, length = _ENVELOPE.unpack_from(view, at)
        at += _ENVELOPE.size
        if length > len(view) - at:
            raise CorruptMetadata(f"a body of {length} bytes in {len(view) - at}")
        yield _decode(kind, version, bytes(view[at : at + length]))
        at += length


def _encode(record: r.MetadataRecord, level: int) -> bytes:
    if isinstance(record, r.CarriedRecord):
        return _ENVELOPE.pack(record.kind, record.version, len(record.body)) + record.body
    shape = SHAPES[type(record)]
    version = shape.version_of(record, level)
    found: dict[str, object] = {}
    for name in shape.versions[version - 1]:
        value = getattr(record, name)
        found[name] = value.hex() if isinstance(value, bytes) else value
    body = json.dumps(found, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()
    return _ENVELOPE.pack(record.KIND, version, len(body)) + body


def _decode(kind: int, version: int, body: bytes) -> r.MetadataRecord:
    shape = _SHAPES_BY_KIND.get(kind)
    is_known = shape is not None and 1 <= version <= len(shape.versions)
    if kind >= CARRIED_KIND_MIN:
        found = _object(kind, body)
        if not is_known or found.keys() == {"key"}:
            return _carried(kind, version, body, found)
    if shape is None or not is_known:
        raise UnsupportedMetadata(
            f"metadata record of kind {kind}, version {version}: a newer release wrote it;"
            " start that release again"
        )
    record: r.MetadataRecord = shape.make(version, _object(kind, body))
    if isinstance(record, r.FeatureLevelChanged) and record.feature == METADATA:
        # Before what follows at that level, which might be unknown.
        check_metadata_level(record.level)
    return record


def check_metadata_level(level: int) -> None:
    """Raise UnsupportedMetadata for a level that this release can not run with."""
    if not METADATA_LEVELS.has(level):
        raise UnsupportedMetadata(
            f"the cluster's metadata is at level {level} and this release reads {METADATA_LEVELS}:"
            " start the release that raised it, or lower the level with it first"
            " (penstock cluster downgrade)"
        )


def _carried(kind: int, version: int, body: bytes, found: dict[str, object]) -> r.CarriedRecord:
    if "key" not in found:
        raise CorruptMetadata(f"record of kind {kind} has no key")
    key = read_str(found["key"])
    return r.CarriedRecord(
        kind=kind, version=version, key=key, body=body, is_removal=len(found) == 1
    )


def _object(kind: int, body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise CorruptMetadata(f"record of kind {kind} is not JSON: {error}") from error
    if type(found) is not dict:
        raise CorruptMetadata(f"record of kind {kind} has the wrong fields")
    return found
