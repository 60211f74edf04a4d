"""What clients say of popped messages, told to the coordinator of shares.

    acknowledge      never delivered again; told once that is confirmed
    change           held for so long from now on, under another number; 0: free at once
    give up          a dead letter from now on

Where the shares of a queue that is led here are being loaded, that is waited for. A number is that
of one hand-out of one message: where that is over it changes nothing.

Source: RocketMQ 5.3.3 `AckMessageProcessor`, `ChangeInvisibleTimeProcessor`; docs/adr/0134, 0144.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.broker.shares.moving import latest
from penstock.broker.shares.waiting import ready
from penstock.remoting.errors import BadReceipt, PopUnavailable
from penstock.shares.answers import Claim, Say, Verdict
from penstock.shares.messages import Answer, Unavailable

if TYPE_CHECKING:
    from penstock.base.errors import PlatformError
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition
    from penstock.shares.state import ShareKey

_LOADS: Final = frozenset({Unavailable.LOADING, Unavailable.NOT_HERE})
"""Of a queue that is led here: its shares are being loaded."""
OVER: Final = "the message is with another client, or its time is over"


class Said(NamedTuple):
    """What a client says of messages of one queue."""

    hosted: HostedPartition
    key: ShareKey
    receipts: Sequence[tuple[int, int]]
    """Offsets, with the numbers of their hand-outs."""
    done: Callable[[Answer], None]
    what: Say = Say.ACCEPT
    during_ms: int | None = None
    """How long to renew."""


Later = Callable[[Coroutine[Any, Any, None]], None]
"""Runs work that goes on after this turn."""


def change(invisible_ms: int) -> Say:
    """Return what a client says that changes how long a message is invisible."""
    return Say.RENEW if invisible_ms else Say.RELEASE


def tell_shares(broker: Broker, said: Said, later: Later) -> None:
    """Say it; `said.done` is called once, unless the work that `later` gets fails."""
    hosted = said.hosted
    end = hosted.member.high_watermark(hosted.log)
    if end is None:
        later(_say_later(broker, said))
        return

    def answered(answer: Answer) -> None:
        if answer.why_not in _LOADS:
            later(_say_later(broker, said))
        else:
            said.done(answer)

    _tell(broker, said, end, answered)


async def _say_later(broker: Broker, said: Said) -> None:
    why_not = await ready(broker, said.key)
    if why_not is not None:
        said.done(Answer(why_not))
        return
    _tell(broker, said, await latest(said.hosted), said.done)


def _tell(broker: Broker, said: Said, end: int, done: Callable[[Answer], None]) -> None:
    shares, key = broker.shares, said.key
    if said.what is Say.ACCEPT:
        shares.accept(key, said.receipts, end, done)
        return
    claims = [Claim(offset, offset + 1, nonce) for offset, nonce in said.receipts]
    shares.say(key, said.what, claims, _NOBODY, done, said.during_ms)


_NOBODY: Final = ""
"""Claims name the number of the hand-out, so their member is not looked at."""


def refusal(answer: Answer) -> PlatformError | None:
    """Return why what was said does not hold."""
    if answer.why_not is Unavailable.NOT_STARTED:
        return BadReceipt("the group has popped nothing of this queue")
    if answer.why_not is not None:
        return PopUnavailable(str(answer.why_not.value))
    return BadReceipt(OVER) if Verdict.LAPSED in answer.verdicts else None
