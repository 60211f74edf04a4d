"""Messages in the hands of consumers that want them kept: renewed before their time ends.

    handed out for 60 s ─► after 40 s, its consumer was heard lately ─► 60 s more, a new number
                                       it was not, or after 3 h ─► nothing: its time ends
    acknowledged with the first number ─► the number that it has by now

Clients keep the receipt that they got, so what they say is said with the number that the messages
have by now; while that is on its way, what is said waits for it. All of this is in memory: after a
failover a receipt that was renewed is over, and its message comes again.

One entry is of one hand-out, up to 32 messages; all of them are due in the order of their coming.

Source: RocketMQ's proxy `ReceiptHandleManager` (60 s, renewed 10 s before; 3 h at most).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.base.errors import PlatformError
from penstock.broker.coordinators.share_policies import popping_group
from penstock.remoting.pop.saying import Said, tell_shares
from penstock.shares.answers import Say, Verdict
from penstock.shares.messages import Answer, Unavailable

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedPartition
    from penstock.grpc.consuming.consumers import Consumers
    from penstock.remoting.pop.desk import PopDesk
    from penstock.remoting.pop.popping import Popped
    from penstock.shares.state import ShareKey

RENEWED_MS: Final = 60_000
AFTER_MS: Final = 40_000
"""20 s before the end."""
MOST_MS: Final = 3 * 3_600_000
HANDED_MAX: Final = 20_000
"""Hand-outs of all consumers, 1 KiB each; what is beyond is not renewed."""
A_LOOK: Final = 100
"""Hand-outs that are renewed in one turn, ten times a second."""

Use = Callable[[int], None]


class Handed:
    """Messages of one hand-out that their consumer still has."""

    __slots__ = (
        "client_id",
        "due_ms",
        "hosted",
        "key",
        "nonce",
        "offsets",
        "place",
        "until_ms",
        "waiting",
    )

    def __init__(
        self, client_id: str, hosted: HostedPartition, key: ShareKey, nonce: int, now_ms: int
    ) -> None:
        self.client_id = client_id
        self.hosted = hosted
        self.key = key
        self.place = key, nonce
        self.nonce = nonce
        """That of now."""
        self.offsets: set[int] = set()
        self.due_ms = now_ms + AFTER_MS
        self.until_ms = now_ms + MOST_MS
        self.waiting: list[Use] | None = None
        """What is said while a renewal is on its way; None: none is."""


class Renewals:
    """See the module; one for each node. Times are monotonic."""

    def __init__(self, desk: PopDesk, consumers: Consumers) -> None:
        self._desk = desk
        self._consumers = consumers
        self._handed: OrderedDict[tuple[ShareKey, int], Handed] = OrderedDict()
        """By share and the first number, what is due first first; and what is on its way."""
        self.left_out = 0
        """Hand-outs that are not renewed, since there are too many."""

    def __len__(self) -> int:
        return len(self._handed)

    def add(self, client_id: str, popped: Popped) -> None:
        """Keep what was popped for its consumer."""
        if len(self._handed) >= HANDED_MAX:
            self.left_out += 1
            return
        part, nonce = popped.part, popped.nonce
        handed = Handed(client_id, part.hosted, part.key, nonce, self._now_ms())
        handed.offsets.update(popped.offsets)
        self._handed[handed.place] = handed

    def use(self, key: ShareKey, offset: int, nonce: int, use: Use) -> None:
        """Call `use`, now or later, with the number that a message has by now.

        From here on the message is renewed no more: its consumer has said what becomes of it.
        """
        handed = self._handed.get((key, nonce))
        if handed is None or offset not in handed.offsets:
            use(nonce)
            return
        handed.offsets.discard(offset)
        if handed.waiting is not None:
            handed.waiting.append(use)
            return
        if not handed.offsets:
            del self._handed[handed.place]
        use(handed.nonce)

    def number_now(self, key: ShareKey, offsets: Sequence[int], nonce: int) -> int | None:
        """Return the number that all these messages have by now, as `use` tells it for each.

        None, and nothing is changed, where it has to be asked for each: a renewal is on its way, or
        some of them are not of the hand-out, or were said before.
        """
        handed = self._handed.get((key, nonce))
        if handed is None:
            return nonce
        said = set(offsets)
        if handed.waiting is not None or not said <= handed.offsets or len(said) < len(offsets):
            return None
        handed.offsets -= said
        if not handed.offsets:
            del self._handed[handed.place]
        return handed.nonce

    def look(self) -> None:
        """Renew what is due."""
        now_ms = self._now_ms()
        for _ in range(A_LOOK):
            handed = next(iter(self._handed.values()), None)
            if handed is None or handed.due_ms > now_ms:
                break
            is_there = self._consumers.is_there(handed.client_id, now_ms)
            if not is_there or now_ms >= handed.until_ms:
                del self._handed[handed.place]
                continue
            handed.due_ms = now_ms + AFTER_MS
            self._handed.move_to_end(handed.place)
            if handed.waiting is None:
                self._renew(handed)

    def release(self, client_id: str) -> None:
        """Give back what a consumer has that ends: others get it at once."""
        for handed in [one for one in self._handed.values() if one.client_id == client_id]:
            if handed.waiting is None:
                del self._handed[handed.place]
                self._say(handed, Say.RELEASE, None, _ignore)

    def _renew(self, handed: Handed) -> None:
        handed.waiting = []
        self._say(handed, Say.RENEW, RENEWED_MS, partial(self._renewed, handed))

    def _renewed(self, handed: Handed, offsets: Sequence[int], answer: Answer) -> None:
        """Take the new number of what was renewed; what was not is with nobody here any more."""
        waiting, handed.waiting = handed.waiting or (), None
        taken = {
            offset
            for offset, verdict in zip(offsets, answer.verdicts, strict=False)
            if verdict is Verdict.TAKEN
        }
        if taken:
            handed.nonce = answer.nonce
            group = popping_group(handed.key.group) or ""
            self._desk.pops.note(group, "renewed", len(taken))
        handed.offsets &= taken
        if not handed.offsets:
            self._handed.pop(handed.place, None)
        for use in waiting:
            use(handed.nonce)

    def _say(
        self,
        handed: Handed,
        what: Say,
        during_ms: int | None,
        told: Callable[[Sequence[int], Answer], None],
    ) -> None:
        offsets = sorted(handed.offsets)
        receipts = [(offset, handed.nonce) for offset in offsets]
        done = partial(told, offsets)
        said = Said(handed.hosted, handed.key, receipts, done, what, during_ms)

        def later(work: Coroutine[Any, Any, None]) -> None:
            self._desk.spawn("renewals", _told_anyway(work, done))

        tell_shares(self._desk.broker, said, later)

    def _now_ms(self) -> int:
        return self._desk.broker.clock.monotonic_ms()


async def _told_anyway(work: Coroutine[Any, Any, None], done: Callable[[Answer], None]) -> None:
    try:
        await work
    except PlatformError:
        done(Answer(Unavailable.NOT_HERE))


def _ignore(offsets: Sequence[int], answer: Answer) -> None:
    """Nobody waits for it."""
