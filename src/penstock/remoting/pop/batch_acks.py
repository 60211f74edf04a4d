"""The body of BATCH_ACK_MESSAGE: receipts of many messages, gathered by hand-out.

    {"brokerName": …, "acks": [{"c": group, "t": topic, "r": "0", "q": queue, "so": start,
     "rq": number, "pt": pop ms, "it": invisible ms, "b": base64 of bits, from the start on}]}

Bit 8 a + b of the set is bit b of byte a, so offset `so` + 8 a + b was processed.

Source: RocketMQ 5.3.3 `BatchAckMessageRequestBody`, `BatchAck`; Java's `BitSet.toByteArray`.
"""

from base64 import b64decode
from collections.abc import Iterator
from typing import Final

import msgspec

from penstock.base.ports import Buffer
from penstock.remoting.errors import MalformedBody
from penstock.shares.answers import CLAIM_MAX

ACKS_MAX: Final = 1_000
"""Hand-outs of one request: each is looked up, 10 us."""
BITS_MAX: Final = CLAIM_MAX
"""Offsets of one hand-out, from its first to its last."""
BASE64_MAX: Final = -(-BITS_MAX // 8 // 3) * 4 + 4


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


_decode: Final = msgspec.json.Decoder(BatchAcks).decode


def read_batch(body: Buffer) -> BatchAcks:
    """Return what a client has processed. Raises MalformedBody."""
    try:
        batch = _decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedBody("a body that is not the JSON of acknowledgements") from error
    if len(batch.acks) > ACKS_MAX:
        raise MalformedBody(f"{len(batch.acks)} hand-outs are acknowledged, at most {ACKS_MAX}")
    if sum(len(one.bits) for one in batch.acks) > BASE64_MAX:
        raise MalformedBody(f"more than {BITS_MAX} messages are acknowledged at once")
    return batch


def _bits(text: str) -> Iterator[int]:
    try:
        raw = b64decode(text, validate=True)
    except ValueError as error:
        raise MalformedBody("a set of acknowledged messages that is no base64") from error
    for at, byte in enumerate(raw):
        for bit in range(8) if byte else ():
            if byte >> bit & 1:
                yield 8 * at + bit
