"""Which consumers were sent to a slave for what only the tier has, and came back unserved.

    asked at an offset ─► sent to a slave ─► asked at the same offset again ─► served here
                                                                               for a while

A slave that can not read the store, or is of an earlier release, sends the consumer back; sent
there again at once it would go to and fro for ever.

Source: docs/adr/0162; KIP-392 leaves it to the replica selector.
"""

from collections import OrderedDict

from penstock.base.ids import TopicPartition
from penstock.base.ports import Clock

KEPT_MS = 60_000
"""For how long who came back is served here."""
CONSUMERS_MAX = 10_000
"""Of which it is known, each with one partition; those that asked last."""


class SentAway:
    """See the module. One for each broker."""

    __slots__ = ("_clock", "_known")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[tuple[int, TopicPartition], tuple[int, int]] = OrderedDict()
        """The offset that a consumer was sent away with, and until when it is not again."""

    def may_send(self, client: object, key: TopicPartition, offset: int) -> bool:
        """Whether a consumer's request for an offset is to be answered with a slave's name.

        Called once for each request, which is answered so if it may be.
        """
        now_ms, place = self._clock.monotonic_ms(), (id(client), key)
        sent_with, kept_until_ms = self._known.pop(place, (-1, 0))
        is_kept = now_ms < kept_until_ms
        if not is_kept and sent_with == offset:
            is_kept, kept_until_ms = True, now_ms + KEPT_MS
        self._known[place] = offset, kept_until_ms
        if len(self._known) > CONSUMERS_MAX:
            self._known.popitem(last=False)
        return not is_kept
