"""A client that pops, in plain frames."""

import json
from typing import Any

from penstock.broker.coordinators import share_policies
from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ConfigOperation,
    ResourceEdits,
)
from penstock.controller.metadata.kinds import ResourceType
from penstock.remoting.pop.receipts import Receipt, write_receipt
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.message import Message, decode_messages
from tests.live_node import LiveNode
from tests.remoting.served import SET, Remote, sent

POP, ACK = RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE
BATCH_ACK = RequestCode.BATCH_ACK_MESSAGE
CHANGE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
LONG_MS, SHORT_MS = 600_000, 300
IN_TIME_MS = 4_000
"""Long enough to say something of a message before its time is over."""


def send(remote: Remote, topic: str, *bodies: str, queue: int = 0, tag: str = "") -> None:
    for body in bodies:
        properties = {"TAGS": tag} if tag else {}
        answer = remote.ask(310, sent(topic, properties, e=queue), body.encode())
        assert answer.code == ResponseCode.SUCCESS, answer.remark


def asked(topic: str, **fields: Any) -> dict[str, Any]:
    """The fields of POP_MESSAGE, with these in place of the usual ones."""
    usual = {"consumerGroup": "g", "topic": topic, "queueId": -1, "maxMsgNums": 32}
    usual |= {"invisibleTime": LONG_MS, "pollTime": 10_000, "bornTime": 0, "initMode": 0}
    return usual | {"order": False, "bname": SET} | fields


class Popped:
    """An answer, as a client takes it apart."""

    def __init__(self, answer: Command) -> None:
        self.code = ResponseCode(answer.code)
        self.fields = answer.fields
        found = self.code is ResponseCode.SUCCESS
        self.messages: list[Message] = decode_messages(memoryview(answer.body)) if found else []

    @property
    def bodies(self) -> list[str]:
        return [bytes(one.body).decode() for one in self.messages]

    @property
    def receipts(self) -> list[Receipt]:
        """One for each message, put together as Java's client does."""
        kind, queue, start = self.fields["startOffsetInfo"].split()
        same = self.fields["msgOffsetInfo"].split()
        assert (kind, queue) == ("0", same[1]), same
        offsets = [int(one) for one in same[2].split(",")]
        assert offsets == [one.queue_offset for one in self.messages]
        numbers = (int(self.fields[one]) for one in ("popTime", "invisibleTime", "reviveQid"))
        pop_ms, invisible_ms, number = numbers
        return [
            Receipt(int(start), pop_ms, invisible_ms, number, SET, int(queue), offset)
            for offset in offsets
        ]


def pop(remote: Remote, topic: str, **fields: Any) -> Popped:
    return Popped(remote.ask_among(POP, asked(topic, **fields)))


def receipt_fields(topic: str, receipt: Receipt, **fields: Any) -> dict[str, Any]:
    usual = {"consumerGroup": "g", "topic": topic, "queueId": receipt.queue_id}
    return usual | {"offset": receipt.offset, "extraInfo": write_receipt(receipt)} | fields


def ack(remote: Remote, topic: str, receipt: Receipt, **fields: Any) -> Command:
    return remote.ask(ACK, receipt_fields(topic, receipt, **fields))


def change(remote: Remote, topic: str, receipt: Receipt, ms: int) -> Command:
    return remote.ask(CHANGE, receipt_fields(topic, receipt, invisibleTime=ms))


def change_of(remote: Remote, group: str, topic: str, receipt: Receipt, ms: int) -> Command:
    fields = receipt_fields(topic, receipt, invisibleTime=ms, consumerGroup=group)
    return remote.ask(CHANGE, fields)


def join(remote: Remote, client_id: str) -> None:
    """Say who the client of this connection is."""
    group = {"groupName": "g", "subscriptionDataSet": []}
    body = {"clientID": client_id, "consumerDataSet": [group]}
    assert remote.ask_among(34, {}, json.dumps(body).encode()).code == ResponseCode.SUCCESS


def forget_policies() -> None:
    share_policies._of_pop.cache_clear()


def set_group(node: LiveNode, group: str, key: str, value: str) -> None:
    edit = ConfigEdit(key=key, operation=ConfigOperation.SET, value=value)
    edits = ResourceEdits(resource_type=ResourceType.GROUP, resource_name=group, edits=(edit,))
    (outcome,) = node.submit(AlterConfigs(resources=(edits,)))
    assert outcome.error is None


def changed_receipt(answer: Command, receipt: Receipt) -> Receipt:
    """The receipt that a client puts together once the invisible time was changed."""
    numbers = (int(answer.fields[one]) for one in ("popTime", "invisibleTime", "reviveQid"))
    pop_ms, invisible_ms, number = numbers
    return Receipt(
        receipt.offset, pop_ms, invisible_ms, number, SET, receipt.queue_id, receipt.offset
    )
