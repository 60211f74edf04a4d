"""What a node does of popped messages by their receipts, and what it refuses."""

import json
from base64 import b64encode
from collections.abc import Callable

import pytest

from harness.waiting import wait_until
from penstock.remoting.pop.pops import Pops
from penstock.remoting.pop.receipts import Receipt
from penstock.remoting.wire.codes import ResponseCode
from tests.live_node import UNTIL_SECONDS
from tests.remoting.popping import (
    BATCH_ACK,
    IN_TIME_MS,
    LONG_MS,
    POP,
    Popped,
    ack,
    asked,
    change,
    changed_receipt,
    pop,
    send,
)
from tests.remoting.served import SET, Remote


def test_the_longer_a_message_is_kept_the_later_it_comes_again(remote: Remote, topic: str) -> None:
    send(remote, topic, "a")
    first = pop(remote, topic, invisibleTime=IN_TIME_MS).receipts[0]
    longer = change(remote, topic, first, LONG_MS)
    assert longer.code == ResponseCode.SUCCESS
    assert pop(remote, topic, pollTime=IN_TIME_MS + 1_000).messages == [], "kept for longer"
    assert ack(remote, topic, first).code == ResponseCode.NO_MESSAGE, "the receipt is another one"
    assert ack(remote, topic, changed_receipt(longer, first)).code == ResponseCode.SUCCESS


def test_a_message_that_is_given_back_comes_at_once_to_who_waits(
    remote: Remote, other: Remote, topic: str, pops: Pops
) -> None:
    send(remote, topic, "a")
    receipt = pop(remote, topic).receipts[0]
    other.send(POP, asked(topic))
    assert wait_until(lambda: pops.waiting == 1, UNTIL_SECONDS)
    assert change(remote, topic, receipt, 0).code == ResponseCode.SUCCESS
    again = Popped(other.receive_answer())
    assert (again.bodies, [one.reconsume_times for one in again.messages]) == (["a"], [1])


@pytest.mark.parametrize(
    "forge",
    [
        lambda one: one._replace(number=one.number ^ 1),
        lambda one: one._replace(number=one.number ^ 1 << 30),
        lambda one: one._replace(number=0),
        lambda one: one._replace(broker_name="set-9"),
    ],
)
def test_a_forged_receipt_is_refused_and_changes_nothing(
    remote: Remote, topic: str, forge: Callable[[Receipt], Receipt]
) -> None:
    send(remote, topic, "a")
    receipt = pop(remote, topic).receipts[0]
    for answer in (ack(remote, topic, forge(receipt)), change(remote, topic, forge(receipt), 0)):
        assert answer.code != ResponseCode.SUCCESS
        assert answer.remark
    assert pop(remote, topic, pollTime=0).messages == [], "still with its holder"
    assert ack(remote, topic, receipt).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    "fields",
    [
        {"offset": 1},
        {"queueId": 1},
        {"extraInfo": "1 2 3"},
        {"extraInfo": ""},
        {"extraInfo": "0 1 2 3 1 set-1 0 0"},
    ],
)
def test_a_receipt_of_another_message_is_refused_by_name(
    remote: Remote, topic: str, fields: dict[str, object]
) -> None:
    send(remote, topic, "a", "b")
    receipt = pop(remote, topic).receipts[0]
    answer = ack(remote, topic, receipt, **fields)
    assert answer.code == ResponseCode.NO_MESSAGE
    assert (answer.remark or "").startswith("invalid receipt handle: ")


def test_a_receipt_is_of_one_group_and_one_topic(remote: Remote, topic: str) -> None:
    send(remote, topic, "a")
    receipts = {group: pop(remote, topic, consumerGroup=group).receipts[0] for group in ("g", "h")}
    crossed = ack(remote, topic, receipts["g"], consumerGroup="h")
    assert crossed.code == ResponseCode.NO_MESSAGE
    for group, receipt in receipts.items():
        assert ack(remote, topic, receipt, consumerGroup=group).code == ResponseCode.SUCCESS


def batch_of(topic: str, receipts: list[Receipt], **fields: object) -> bytes:
    """Receipts of one hand-out, as Java's client gathers them."""
    first = receipts[0]
    bits = sum(1 << one.offset - first.start for one in receipts)
    usual = {"c": "g", "t": topic, "r": "0", "so": first.start, "q": first.queue_id}
    usual |= {"rq": first.number, "pt": first.pop_ms, "it": first.invisible_ms}
    usual["b"] = b64encode(bits.to_bytes(32, "little")).decode()
    return json.dumps({"brokerName": SET, "acks": [usual | fields]}).encode()


def test_many_are_acknowledged_at_once(remote: Remote, topic: str) -> None:
    send(remote, topic, "a", "b", "c")
    receipts = pop(remote, topic).receipts
    answer = remote.ask(BATCH_ACK, {}, batch_of(topic, [receipts[0], receipts[2]]))
    assert answer.code == ResponseCode.SUCCESS
    codes = [change(remote, topic, one, 0).code for one in receipts]
    over, given_back = ResponseCode.NO_MESSAGE, ResponseCode.SUCCESS
    assert codes == [over, given_back, over]
    again = pop(remote, topic)
    assert again.bodies == ["b"]
    assert pop(remote, topic, pollTime=0).messages == []


def test_a_batch_with_stale_receipts_says_so_and_acknowledges_the_others(
    remote: Remote, topic: str
) -> None:
    send(remote, topic, "a", "b")
    receipts = pop(remote, topic).receipts
    assert change(remote, topic, receipts[0], 0).code == ResponseCode.SUCCESS
    assert pop(remote, topic).bodies == ["a"]
    answer = remote.ask(BATCH_ACK, {}, batch_of(topic, receipts))
    assert (answer.code, (answer.remark or "")[:39]) == (
        ResponseCode.NO_MESSAGE,
        "invalid receipt handle: 1 of 2: the mes",
    )
    assert ack(remote, topic, receipts[1]).code == ResponseCode.SUCCESS, "it is over already"


@pytest.mark.parametrize("fields", [{"r": "1"}, {"so": -1}, {"rq": 1 << 31}, {"b": ""}, {"q": -1}])
def test_a_batch_that_is_none_is_refused(
    remote: Remote, topic: str, fields: dict[str, object]
) -> None:
    send(remote, topic, "a")
    receipts = pop(remote, topic).receipts
    answer = remote.ask(BATCH_ACK, {}, batch_of(topic, receipts, **fields))
    assert answer.code != ResponseCode.SUCCESS
    assert answer.remark
    assert ack(remote, topic, receipts[0]).code == ResponseCode.SUCCESS
