"""What a call says of one message that its client has received.

    receipt ─► partition, led here ─► the number that the message has by now ─► said to the shares

Source: ours; RocketMQ's proxy `ReceiptHandleProcessor`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.coordinators.share_policies import share_group
from penstock.grpc.consuming.receipts import Receipt, read_receipt
from penstock.grpc.consuming.serving import serve
from penstock.remoting.errors import BadReceipt
from penstock.remoting.pop.receipts import nonce_of
from penstock.remoting.pop.saying import Said, tell_shares
from penstock.replication.errors import NotMaster
from penstock.shares.answers import Say
from penstock.shares.state import ShareKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.broker.partitions import HostedPartition, HostedTopic
    from penstock.grpc.call import Call
    from penstock.shares.messages import Answer


class Claimed(NamedTuple):
    """A message that a client says to have."""

    hosted: HostedPartition
    key: ShareKey
    offset: int
    nonce: int
    """The number that its receipt has."""


def claimed(topic: HostedTopic, group: str, handle: str) -> Claimed:
    """Return the message of a receipt. Raises BadReceipt, NotMaster and errors of partitions."""
    return claim_of(topic, group, read_receipt(handle))


def claim_of(topic: HostedTopic, group: str, receipt: Receipt) -> Claimed:
    """Return the message of a receipt that is read. Raises as `claimed` does."""
    if receipt.partition >= len(topic.placed):
        raise BadReceipt("it is of a partition that the topic has not")
    hosted = topic.find(receipt.partition)
    if hosted is None:
        raise NotMaster(f"partition {receipt.partition} is led by another node by now")
    hosted.check_still_led()
    key = ShareKey(share_group(group), bytes(topic.topic_id), receipt.partition)
    return Claimed(hosted, key, receipt.offset, nonce_of(key, receipt.number))


def say(
    call: Call,
    claim: Claimed,
    what: Say,
    during_ms: int | None,
    done: Callable[[Answer], None],
) -> None:
    """Say what becomes of a message; `done` is called once, unless the call has failed."""

    def use(nonce: int) -> None:
        receipts = [(claim.offset, nonce)]
        said = Said(claim.hosted, claim.key, receipts, done, what, during_ms)
        tell_shares(call.client.broker, said, partial(serve, call, "receipt"))

    call.client.front.attempts.said(claim.key, claim.nonce)
    call.client.front.renewals.use(claim.key, claim.offset, claim.nonce, use)
