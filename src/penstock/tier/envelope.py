"""The envelope: what an upload puts before an extent file to make an object of it.

    at  width
     0    4   magic "PSTE"
     4    2   version
     6    2   bytes of the envelope, these included
     8   16   cluster id
    24    4   replica set id
    28    4   leader epoch of the upload
    32    8   object id
    40    8   bytes of the extent file
    48   12   zero
    60    4   crc32c of the 60 before

The extent file follows. It has no word of who uploaded it, so that members of a set have equal
files; the object has, so that the tier's metadata can be made anew from its objects.

Source: docs/formats/tier.md, docs/adr/0117.
"""

from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ids import LeaderEpoch
from penstock.tier.errors import LyingObject
from penstock.tier.names import ObjectName

MAGIC = b"PSTE"
VERSION = 1
BODY = Struct(">4sHH16siiQQ12x")
CRC = Struct(">I")
ENVELOPE_BYTES = BODY.size + CRC.size

assert ENVELOPE_BYTES == 64


class Envelope(NamedTuple):
    """Where an object comes from, and how long the file in it is."""

    cluster_id: bytes
    replica_set_id: int
    leader_epoch: LeaderEpoch
    object_id: int
    file_bytes: int

    @property
    def name(self) -> ObjectName:
        """The name under which the object belongs."""
        return ObjectName(*self[:4])

    @property
    def object_bytes(self) -> int:
        """Bytes of envelope and file."""
        return ENVELOPE_BYTES + self.file_bytes


def encode_envelope(envelope: Envelope) -> bytes:
    """Return the bytes that stand before the file."""
    cluster_id, set_id, epoch, object_id, file_bytes = envelope
    body = BODY.pack(
        MAGIC, VERSION, ENVELOPE_BYTES, cluster_id, set_id, epoch, object_id, file_bytes
    )
    return body + CRC.pack(crc32c(body))


def decode_envelope(name: str, data: memoryview) -> Envelope:
    """Return the envelope at the beginning of the object `name`.

    Raises LyingObject: it is damaged, of a later release, or that of another object.
    """
    if len(data) < ENVELOPE_BYTES:
        raise LyingObject(name, 0, f"{len(data)} bytes are no envelope")
    if crc32c(data[: BODY.size]) != CRC.unpack_from(data, BODY.size)[0]:
        raise LyingObject(name, 0, "the envelope's checksum does not agree")
    magic, version, size, *fields = BODY.unpack_from(data)
    if magic != MAGIC or version != VERSION or size != ENVELOPE_BYTES:
        raise LyingObject(name, 0, f"magic {magic!r}, version {version}: not of this release")
    envelope = Envelope(*fields)
    if str(envelope.name) != name:
        raise LyingObject(name, 0, f"it says that it is {envelope.name}")
    return envelope
