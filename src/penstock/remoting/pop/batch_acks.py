"""The body of BATCH_ACK_MESSAGE: receipts of many messages, gathered by hand-out.

    {"brokerName": …, "acks": [{"c": group, "t": topic, "r": "0", "q": queue, "so": start,
     "rq": number, "pt": pop ms, "it": invisible ms, "b": base64 of bits, from the start on}]}

Bit 8 a + b of the set is bit b of byte a, so offset `so` + 8 a + b was processed.

Source: RocketMQ 5.3.3 `BatchAckMessageRequestBody`, `BatchAck`; Java's `BitSet.toByteArray`.
"""

from base64 import b64decode
from collections.abc import Iterator
from re import DOTALL
from re import compile as compiled
from typing import Final

import msgspec

from penstock.base.ports import Buffer
from penstock.remoting.errors import MalformedBody

ACKS_MAX: Final = 200
"""Hand-outs of one request: each is looked up, 20 us."""
OFFSETS_MAX: Final = 2_000
"""Messages of one request: 2 ms."""
BASE64_MAX: Final = 256 << 10
"""Of all sets together; one of a hand-out that spans records.SPAN_MAX offsets has 171 KiB."""


class BatchAck(msgspec.Struct, frozen=True):
    """What was processed of one hand-out."""

    group: str = msgspec.field(name="c")
    topic: str = msgspec.field(name="t")
    queue_id: int = msgspec.field(name="q")
    start: int = msgspec.field(name="so")
    number: int = msgspec.field(name="rq")
    bits: str = msgspec.field(name="b")
    retry: str = msgspec.field(name="r", default="0")

    @property
    def offsets(self) -> list[int]:
        """The offsets, ascending."""
        return [self.start + bit for bit in _bits(self.bits)]


class BatchAcks(msgspec.Struct, frozen=True, rename="camel"):
    """All that was processed at one broker."""

    broker_name: str
    acks: tuple[BatchAck, ...]


_SOME: Final = compiled(rb"[^\0]", DOTALL)
_decode: Final = msgspec.json.Decoder(BatchAcks).decode


def read_batch(body: Buffer) -> BatchAcks:
    """Return what a client has processed. Raises MalformedBody."""
    try:
        batch = _decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedBody("a body that is not the JSON of acknowledgements") from error
    if len(batch.acks) > ACKS_MAX:
        raise MalformedBody(f"{len(batch.acks)} hand-outs are acknowledged, at most {ACKS_MAX}")
    size = sum(len(one.bits) for one in batch.acks)
    if size > BASE64_MAX:
        raise MalformedBody(f"sets of acknowledged messages of {size} bytes, at most {BASE64_MAX}")
    count = sum(int.from_bytes(_raw(one.bits)).bit_count() for one in batch.acks)
    if count > OFFSETS_MAX:
        raise MalformedBody(f"{count} messages are acknowledged at once, at most {OFFSETS_MAX}")
    return batch


def _raw(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise MalformedBody("a set of acknowledged messages that is no base64") from error


def _bits(text: str) -> Iterator[int]:
    for found in _SOME.finditer(_raw(text)):
        at, byte = found.start(), found[0][0]
        yield from (8 * at + bit for bit in range(8) if byte >> bit & 1)
