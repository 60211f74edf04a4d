"""Receipts as clients over HTTP have them: one text in which everything is that a node needs.

    base64url of   locator, blank, receipt as stock clients write it (remoting/pop/receipts.py)

So this process keeps nothing of messages that are handed out: any other one takes the receipt.
Whether it is of the group and the topic that are named is checked by the node.

Source: ours, docs/adr/0167.
"""

import base64
import binascii
from typing import Final, NamedTuple

from penstock.remoting.errors import BadReceipt
from penstock.remoting.pop.receipts import Receipt, read_receipt, write_receipt

_INT64_DIGITS_MAX: Final = 19


class Handle(NamedTuple):
    """What a receipt says: which hand-out, and where the message is."""

    receipt: Receipt
    locator: int

    @property
    def place(self) -> tuple[str, int, int]:
        """Which message of a topic it is."""
        return self.receipt.broker_name, self.receipt.queue_id, self.receipt.offset


def write_handle(handle: Handle) -> str:
    """Return the text for clients."""
    text = f"{handle.locator} {write_receipt(handle.receipt)}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_handle(text: str) -> Handle:
    """Return what a text says. Raises BadReceipt."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        locator, _, rest = raw.decode().partition(" ")
    except (binascii.Error, ValueError) as error:
        raise BadReceipt("it is no text that was handed out") from error
    is_number = locator.isascii() and locator.isdecimal() and len(locator) <= _INT64_DIGITS_MAX
    if not is_number:
        raise BadReceipt("it names no place")
    return Handle(read_receipt(rest), int(locator))
