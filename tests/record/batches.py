"""Hand-made batches: built here from the byte table alone, not by the code under test."""

import struct

from crc32c import crc32c

FIELDS = [
    "base_offset",
    "batch_length",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
]


def zigzag(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    raw &= (1 << 64) - 1
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def record(delta: int, key: bytes | None, value: bytes | None, timestamp_delta: int = 0) -> bytes:
    body = b"\0" + zigzag(timestamp_delta) + zigzag(delta)
    for part in (key, value):
        body += zigzag(-1) if part is None else zigzag(len(part)) + part
    body += zigzag(0)
    return zigzag(len(body)) + body


def batch(payload: bytes, count: int, **changed: int) -> bytearray:
    """A sealed batch around `payload`; any field can be changed, `crc` too."""
    values = dict.fromkeys(FIELDS, 0) | {
        "batch_length": 49 + len(payload), "leader_epoch": -1, "magic": 2,
        "last_offset_delta": count - 1, "base_timestamp": 1000, "max_timestamp": 1000,
        "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "record_count": count,
    }  # fmt: skip
    values |= {name: value for name, value in changed.items() if name != "crc"}
    out = bytearray(struct.pack(">qiibIhiqqqhii", *(values[name] for name in FIELDS)) + payload)
    struct.pack_into(">I", out, 17, changed.get("crc", crc32c(out[21:])))
    return out


def simple(count: int = 3, **changed: int) -> bytearray:
    payload = b"".join(record(i, b"k%d" % i, b"v%d" % i) for i in range(count))
    return batch(payload, count, **changed)
