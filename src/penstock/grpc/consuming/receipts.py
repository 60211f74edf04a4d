"""Receipts of messages that gRPC clients have received: texts that they give back as they are.

    | version | partition | offset | number |     base64 for URLs
        1 B        4 B       8 B       4 B

The number is that of the hand-out, mixed with group, topic and partition as in receipts of the
remoting protocol (remoting/pop/receipts.py). So a receipt of elsewhere is none here, and whoever
leads the partition can take it: it names no node.

Source: ours; RocketMQ's `ReceiptHandle` names files and a proxy.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from penstock.remoting.errors import BadReceipt

_LAYOUT: Final = Struct(">BIQi")
_VERSION: Final = 1
_INT64_MAX: Final = (1 << 63) - 1


class Receipt(NamedTuple):
    """What a receipt says."""

    partition: int
    offset: int
    number: int


def write_receipt(partition: int, offset: int, number: int) -> bytes:
    """Return the text of a receipt, in ASCII."""
    return urlsafe_b64encode(_LAYOUT.pack(_VERSION, partition, offset, number))


def read_receipt(text: str) -> Receipt:
    """Return what a receipt says. Raises BadReceipt."""
    try:
        version, partition, offset, number = _LAYOUT.unpack(urlsafe_b64decode(text))
    except (ValueError, StructError) as error:
        raise BadReceipt("it is no text that was told here") from error
    if version != _VERSION or offset > _INT64_MAX:
        raise BadReceipt("it is of no message")
    return Receipt(partition, offset, number)
