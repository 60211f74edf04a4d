"""Bytes of a Raft snapshot, which covers the entries up to one index.

    magic u32 │ version u16 │ zero u16 │ index u64 │ term u64 │ configuration length u32 │
    state length u32 │ configuration crc u32 │ state crc u32 │ header crc u32 │
    configuration │ state

All numbers are big-endian, all checksums CRC32C. The file is replaced atomically, so it is never
partly written. Index 0 is the snapshot of an empty log: no state, and the first configuration.

Source: docs/formats/raft-log.md; Raft paper 7 (a snapshot carries the last configuration). The
configuration's bytes are those of a configuration entry; the state is opaque here.
No I/O here.
"""

import struct

from crc32c import crc32c

from penstock.base.ports import Buffer
from penstock.controller.errors import CorruptMetadata, UnsupportedMetadata
from penstock.raft.configuration import Configuration
from penstock.raft.errors import InvalidMessage
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.ready import Snapshot

MAGIC = 0x50_53_52_53  # "PSRS"
FILE_VERSION = 1

_HEADER = struct.Struct(">IHHQQIIII")
_CRC = struct.Struct(">I")
HEADER_BYTES = _HEADER.size + _CRC.size


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return the bytes of the whole file."""
    configuration, state = snapshot.configuration.encode(), snapshot.data
    head = _HEADER.pack(
        MAGIC, FILE_VERSION, 0, snapshot.index, snapshot.term, len(configuration), len(state),
        crc32c(configuration), crc32c(state),
    )  # fmt: skip
    return b"".join((head, _CRC.pack(crc32c(head)), configuration, state))


def read_snapshot(data: Buffer) -> Snapshot:
    """Read a whole file.

    Raises:
        CorruptMetadata: the header, a checksum or the configuration is not valid.
        UnsupportedMetadata: a newer release wrote it.
    """
    view = memoryview(data)
    if len(view) < HEADER_BYTES:
        raise CorruptMetadata(f"{len(view)} bytes are no Raft snapshot")
    index: RaftIndex
    term: Term
    magic, version, _, index, term, members_bytes, state_bytes, members_crc, state_crc = (
        _HEADER.unpack_from(view)
    )
    if magic != MAGIC:
        raise CorruptMetadata("it does not begin like a Raft snapshot")
    if version != FILE_VERSION:
        raise UnsupportedMetadata(
            f"Raft snapshot of version {version}; this release reads {FILE_VERSION}: start the"
            " release that wrote it"
        )
    (header_crc,) = _CRC.unpack_from(view, _HEADER.size)
    if crc32c(view[: _HEADER.size]) != header_crc:
        raise CorruptMetadata("the header is damaged")
    state_at = HEADER_BYTES + members_bytes
    configuration, state = bytes(view[HEADER_BYTES:state_at]), bytes(view[state_at:])
    if len(configuration) != members_bytes or crc32c(configuration) != members_crc:
        raise CorruptMetadata("the configuration is damaged")
    if len(state) != state_bytes or crc32c(state) != state_crc:
        raise CorruptMetadata("the state is damaged")
    return Snapshot(index=index, term=term, configuration=_members(configuration), data=state)


def _members(payload: bytes) -> Configuration:
    try:
        return Configuration.decode(payload)
    except InvalidMessage as error:
        raise CorruptMetadata(
            f"the configuration has a matching checksum and is not valid: {error}"
        ) from error
