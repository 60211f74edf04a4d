"""Receipts of messages that were popped, in the form that stock clients take apart and give back.

    start pop-ms invisible-ms number kind broker queue offset      eight parts, blanks between

    start         the first offset that was handed out with it; of a changed one, its own
    number        that of the hand-out (penstock.shares), mixed with the share's place: an int32
    kind          0; clients know 1 and 2 for retry topics, which are not used here

Clients put a receipt together from an answer's fields and the message's own place, and again after
its invisible time was changed. So all that tells hand-outs apart is in the number, which both kinds
of answers have: RocketMQ has the queue of its revive topic there. Mixed with the place, a receipt
of another group, topic or queue is none of this one.

Source: RocketMQ 5.3.3 `ExtraInfoUtil`, `MQClientAPIImpl.processPopResponse`,
`ChangeInvisibleTimeResponseHeader`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple
from zlib import crc32

from penstock.remoting.errors import BadReceipt
from penstock.shares.state import NONCE_HALF, NONCE_MASK, ShareKey

_PARTS: Final = 8
_KIND: Final = "0"
_DIGITS_MAX: Final = 20
_INT64_MAX: Final = (1 << 63) - 1


class Receipt(NamedTuple):
    """What a receipt says."""

    start: int
    pop_ms: int
    invisible_ms: int
    number: int
    broker_name: str
    queue_id: int
    offset: int


def number_of(key: ShareKey, nonce: int) -> int:
    """Return the number that clients are told for a hand-out, an int32."""
    mixed = nonce ^ _salt(key)
    return mixed - NONCE_MASK - 1 if mixed >= NONCE_HALF else mixed


def nonce_of(key: ShareKey, number: int) -> int:
    """Return the number of the hand-out that clients mean. Raises BadReceipt."""
    if not -NONCE_HALF <= number < NONCE_HALF:
        raise BadReceipt(f"it has no number of a hand-out: {number}")
    return (number & NONCE_MASK) ^ _salt(key)


def _salt(key: ShareKey) -> int:
    return crc32(b"%b\0%b%d" % (key.group.encode(), key.topic_id, key.partition))


def write_receipt(receipt: Receipt) -> str:
    """Return the text that clients have for a receipt."""
    start, pop_ms, invisible_ms, number, broker_name, queue_id, offset = receipt
    return f"{start} {pop_ms} {invisible_ms} {number} {_KIND} {broker_name} {queue_id} {offset}"


def read_receipt(text: str) -> Receipt:
    """Return what a receipt says. Raises BadReceipt."""
    parts = text.split(" ", _PARTS)
    if len(parts) != _PARTS:
        raise BadReceipt(f"it has {min(len(parts), _PARTS + 1)} parts, not {_PARTS}")
    *numbers, kind, broker_name, queue_id, offset = parts
    if kind != _KIND:
        raise BadReceipt("it is of a retry topic, and none is popped here")
    if not broker_name:
        raise BadReceipt("it names no broker")
    start, pop_ms, invisible_ms, number = map(_number, numbers)
    return Receipt(
        start, pop_ms, invisible_ms, number, broker_name, _number(queue_id), _number(offset)
    )


def _number(text: str) -> int:
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) < _DIGITS_MAX
    number = int(text) if is_number else _INT64_MAX + 1
    if abs(number) > _INT64_MAX:
        raise BadReceipt("a part of it is no number")
    return number


def start_info(queue_id: int, offset: int) -> str:
    """Return the field startOffsetInfo of an answer about one queue."""
    return f"{_KIND} {queue_id} {offset}"


def offsets_info(queue_id: int, offsets: Sequence[int]) -> str:
    """Return the field msgOffsetInfo of an answer about one queue; the offsets ascend."""
    return f"{_KIND} {queue_id} {','.join(map(str, offsets))}"
