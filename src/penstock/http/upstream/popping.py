"""Messages that are handed out, and what becomes of them, as one identity asks the nodes.

    pop       32 messages of one queue at most, invisible for a time
    accept    never again
    change    invisible for so long from now on, under another receipt; 0: visible at once
    bury      a dead letter of the group, then accepted; it is held meanwhile

Source: RocketMQ 5.3.3 `PopMessageRequestHeader`, `AckMessageRequestHeader`,
`ChangeInvisibleTimeRequestHeader`, `ConsumerSendMsgBackRequestHeader`; docs/adr/0134.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.http.limits import RETRY_S
from penstock.http.upstream.errors import NodeRefused
from penstock.http.upstream.nodes import Asked, Nodes, checked
from penstock.http.upstream.receipts import Handle
from penstock.remoting.errors import RemotingError
from penstock.remoting.pop.receipts import Receipt, write_receipt
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.message import Message, decode_messages

_NONE: Final = frozenset({ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL})
BURY_S: Final = 60
"""For so long a message is kept from others while it becomes a dead letter."""
_DEAD_LETTER_LEVEL: Final = -1
START, END = "0", "1"
"""Where a group begins that is new: `initMode`."""


class Wanted(NamedTuple):
    """What is to be handed out."""

    topic: str
    group: str
    messages_max: int
    invisible_ms: int
    tags: str
    begin: str


class HandedOut(NamedTuple):
    """A message, and its receipt."""

    message: Message
    handle: Handle


async def pop(nodes: Nodes, broker: str, wanted: Wanted) -> list[HandedOut]:
    """Return messages of one replica set, without a wait. Raises UpstreamError."""
    fields = {
        "consumerGroup": wanted.group,
        "topic": wanted.topic,
        "queueId": "-1",
        "maxMsgNums": str(wanted.messages_max),
        "invisibleTime": str(wanted.invisible_ms),
        "pollTime": "0",
        "bornTime": "0",
        "initMode": wanted.begin,
        "expType": "TAG",
        "exp": wanted.tags,
        "order": "false",
        "bname": broker,
    }
    answer = await nodes.ask(wanted.topic, broker, Asked(RequestCode.POP_MESSAGE, fields))
    if answer.code in _NONE:
        return []
    checked(answer)
    try:
        return _handed_out(broker, answer)
    except (KeyError, ValueError, RemotingError) as error:
        reason = f"an answer to a pop that can not be read: {error}"
        raise NodeRefused(ResponseCode.SYSTEM_ERROR, reason) from error


def _handed_out(broker: str, answer: Command) -> list[HandedOut]:
    _, queue_id, start = answer.fields["startOffsetInfo"].split()
    names = "popTime", "invisibleTime", "reviveQid"
    pop_ms, invisible_ms, number = (int(answer.fields[name]) for name in names)
    found = []
    for message in decode_messages(memoryview(answer.body)):
        receipt = Receipt(
            int(start), pop_ms, invisible_ms, number, broker, int(queue_id), message.queue_offset
        )
        found.append(HandedOut(message, Handle(receipt, message.locator)))
    return found


class Desk(NamedTuple):
    """Where a group says what became of messages of a topic."""

    nodes: Nodes
    topic: str
    group: str

    async def accept(self, handle: Handle) -> None:
        """Never hand it out again. Raises UpstreamError."""
        await self._say(RequestCode.ACK_MESSAGE, handle, {})

    async def change(self, handle: Handle, invisible_ms: int) -> Handle:
        """Have it come again after so long; return the receipt that is valid from now on."""
        fields = {"invisibleTime": str(invisible_ms)}
        answer = await self._say(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, handle, fields)
        old, told = handle.receipt, answer.fields
        try:
            receipt = old._replace(
                start=old.offset,
                pop_ms=int(told["popTime"]),
                invisible_ms=int(told["invisibleTime"]),
                number=int(told["reviveQid"]),
            )
        except (KeyError, ValueError) as error:
            reason = f"an answer to a changed time that can not be read: {error}"
            raise NodeRefused(ResponseCode.SYSTEM_ERROR, reason) from error
        return handle._replace(receipt=receipt)

    async def bury(self, handle: Handle) -> None:
        """Make it a dead letter, if the receipt is still valid. Raises UpstreamError."""
        kept = await self.change(handle, BURY_S * 1000)
        fields = {
            "group": self.group,
            "offset": str(kept.locator),
            "delayLevel": str(_DEAD_LETTER_LEVEL),
            "originMsgId": "",
            "originTopic": self.topic,
            "unitMode": "false",
            "maxReconsumeTimes": "0",
        }
        await self._ask(kept.receipt.broker_name, RequestCode.CONSUMER_SEND_MSG_BACK, fields)
        await self.accept(kept)

    async def free(self, handed_out: Sequence[HandedOut]) -> None:
        """Give messages back that nobody gets; where that fails, their time ends."""
        for one in handed_out:
            fields = self._named(one.handle, {"invisibleTime": "0"})
            asked = Asked(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields)
            await self.nodes.ask(self.topic, one.handle.receipt.broker_name, asked)

    async def _say(self, code: RequestCode, handle: Handle, more: dict[str, str]) -> Command:
        return await self._ask(handle.receipt.broker_name, code, self._named(handle, more))

    def _named(self, handle: Handle, more: dict[str, str]) -> dict[str, str]:
        receipt = handle.receipt
        return {
            "consumerGroup": self.group,
            "topic": self.topic,
            "queueId": str(receipt.queue_id),
            "offset": str(receipt.offset),
            "extraInfo": write_receipt(receipt),
            "bname": receipt.broker_name,
            **more,
        }

    async def _ask(self, broker: str, code: RequestCode, fields: dict[str, str]) -> Command:
        """Ask the master, again and again while there is none. To say a thing twice is no error."""

        async def attempt() -> Command:
            return checked(await self.nodes.ask(self.topic, broker, Asked(code, fields)))

        return await self.nodes.retrying(self.topic, RETRY_S, attempt)
