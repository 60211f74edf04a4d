"""ACK_MESSAGE, BATCH_ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME: what becomes of popped messages.

    acknowledge      never delivered again; told once that is confirmed
    change           invisible for so long from now on, under another receipt; 0: visible at once

A receipt is of one hand-out of one message. One that is none, is of another message, or whose
hand-out is over, is NO_MESSAGE, and changes nothing. To acknowledge what is over already is no
error. After a failover what was not confirmed yet may be acknowledged with its old receipt, as long
as nobody else has got it.

Source: RocketMQ 5.3.3 `AckMessageProcessor`, `ChangeInvisibleTimeProcessor`. Departure: RocketMQ
answers SUCCESS to a batch whatever is in it.
"""

from functools import partial
from typing import Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.remoting.errors import BadReceipt, PopUnavailable
from penstock.remoting.fields import number, text
from penstock.remoting.pop.batch_acks import read_batch
from penstock.remoting.pop.receipts import Receipt, nonce_of, number_of, read_receipt
from penstock.remoting.pop.saying import OVER, Said, change, refusal, tell_shares
from penstock.remoting.pop.serving import Popped, serve, share_of
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command
from penstock.shares.answers import Verdict
from penstock.shares.messages import Answer

CODES: Final = (
    RequestCode.ACK_MESSAGE,
    RequestCode.BATCH_ACK_MESSAGE,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
)


class Changed(NamedTuple):
    """How long a message is to be invisible."""

    group: str
    popped: Popped
    invisible_ms: int


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Do what is said. Raises what is told to the client."""
    match command.code:
        case RequestCode.BATCH_ACK_MESSAGE:
            _Batch(context, command, reply).begin()
        case RequestCode.ACK_MESSAGE:
            group, popped, receipt = _read(context, command)
            done = partial(_acknowledged, context, group, reply)
            _say(context, Said(*popped, [receipt], done), reply)
        case _:
            group, popped, receipt = _read(context, command)
            most = context.broker.shares.config.lock_max_ms
            invisible_ms = min(max(number(command, "invisibleTime"), 0), most)
            changed = Changed(group, popped, invisible_ms)
            done = partial(_changed, context, changed, reply)
            said = Said(*popped, [receipt], done, change(invisible_ms), invisible_ms)
            _say(context, said, reply)


def _read(context: RemotingContext, command: Command) -> tuple[str, Popped, tuple[int, int]]:
    """Return who speaks of which message. Raises what is told to the client."""
    group, receipt = text(command, "consumerGroup"), read_receipt(text(command, "extraInfo"))
    queue_id, offset = number(command, "queueId"), number(command, "offset")
    if (receipt.queue_id, receipt.offset) != (queue_id, offset):
        raise BadReceipt("it is of another message")
    popped = share_of(context, group, text(command, "topic"), receipt.broker_name, queue_id)
    return group, popped, _claimed(popped, receipt)


def _claimed(popped: Popped, receipt: Receipt) -> tuple[int, int]:
    if receipt.offset < 0:
        raise BadReceipt("it is of no message")
    return receipt.offset, nonce_of(popped.key, receipt.number)


def _say(context: RemotingContext, said: Said, reply: Reply) -> None:
    tell_shares(context.broker, said, partial(serve, context, "receipts", reply))


def _acknowledged(context: RemotingContext, group: str, reply: Reply, answer: Answer) -> None:
    refused = refusal(answer)
    if refused is not None:
        context.front.desk.pops.note(group, "refused")
        reply.fail(refused)
        return
    context.front.desk.pops.note(group, "acknowledged")
    reply()


def _changed(context: RemotingContext, changed: Changed, reply: Reply, answer: Answer) -> None:
    group, popped, invisible_ms = changed
    refused = refusal(answer)
    if refused is not None:
        context.front.desk.pops.note(group, "refused")
        reply.fail(refused)
        return
    context.front.desk.pops.note(group, "renewed")
    fields = {
        "popTime": str(context.broker.clock.wall_ms()),
        "invisibleTime": str(invisible_ms),
        "reviveQid": str(number_of(popped.key, answer.nonce)),
    }
    reply(fields)


class _Batch:
    """Messages of several hand-outs that are acknowledged at once; answered when all are."""

    def __init__(self, context: RemotingContext, command: Command, reply: Reply) -> None:
        """Raises what is told to the client, before anything is done."""
        self._context = context
        self._reply = reply
        self._refusals: list[PlatformError] = []
        self._refused = self._total = 0
        self._says: list[Said] = []
        batch = read_batch(command.body)
        for one in batch.acks:
            popped = share_of(context, one.group, one.topic, batch.broker_name, one.queue_id)
            if one.retry != "0" or one.start < 0:
                raise BadReceipt("it is of no message that is popped here")
            nonce = nonce_of(popped.key, one.number)
            receipts = [(offset, nonce) for offset in one.offsets]
            self._total += len(receipts)
            if receipts:
                done = partial(self._answered, one.group)
                self._says.append(Said(*popped, receipts, done))
        self._open = len(self._says)

    def begin(self) -> None:
        """Acknowledge."""
        if not self._says:
            raise BadReceipt("nothing is acknowledged")
        for said in self._says:
            _say(self._context, said, self._reply)

    def _answered(self, group: str, answer: Answer) -> None:
        refused = refusal(answer)
        lapsed = sum(one is Verdict.LAPSED for one in answer.verdicts)
        taken = len(answer.verdicts) - lapsed
        self._context.front.desk.pops.note(group, "acknowledged", taken)
        if refused is not None:
            self._context.front.desk.pops.note(group, "refused", max(lapsed, 1))
            self._refusals.append(refused)
            self._refused += lapsed
        self._open -= 1
        if not self._open:
            self._end()

    def _end(self) -> None:
        unavailable = [one for one in self._refusals if isinstance(one, PopUnavailable)]
        if unavailable:
            self._reply.fail(unavailable[0])
        elif self._refusals:
            self._reply.fail(BadReceipt(f"{self._refused} of {self._total}: {OVER}"))
        else:
            self._reply()
