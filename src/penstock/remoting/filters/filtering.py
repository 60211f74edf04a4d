"""Reads that have found nothing in their first slice go on in later turns, a few at a time.

    slice ──► found something, or has come to the end ──► answer
          └─► nothing: a place is free ──► a later turn ──► slice …
                       none is free    ──► answer: nothing here, pull from there

A consumer that wants one message in a thousand would else ask once for each slice. Each place has
the batches of one read in memory. An answer comes after SLICES_MAX slices at the latest, and the
client pulls from there on: no pull is held by what it does not want.

Source: ours; RocketMQ looks at 16,000 messages for one pull (`maxFilterMessageSize`).
"""

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.broker.turns import Turns
from penstock.remoting.filters.verdicts import Verdict

PLACES_MAX: Final = 8
"""Reads that go on; each has at most 256 KiB of batches, or one larger batch."""
SLICES_MAX: Final = 50
"""Of one pull: some 10,000 messages."""


class Messages(NamedTuple):
    """Messages on the wire, and the offset behind the last record that was looked at."""

    encoded: list[bytes]
    next_offset: int
    is_last: bool = True
    """Whether it was all that was read, or all that an answer may have."""


Spawn = Callable[[str, Coroutine[Any, Any, None]], None]
Tell = Callable[[Messages | PlatformError], None]


class Filtering:
    """See the module; one for each front."""

    def __init__(self, turns: Turns, spawn: Spawn) -> None:
        self._turns = turns
        self._spawn = spawn
        self.left_out: Counter[Verdict] = Counter()
        """Messages that were not sent, by what their filters say."""
        self.open = 0
        """Reads that go on."""

    def read(self, begun: int, slices: Iterator[Messages], tell: Tell) -> None:
        """Tell what a read from the offset `begun` has found; once, now or later."""
        try:
            found = next(slices)
            while not found.is_last and found.next_offset == begun:
                found = next(slices)  # it steps over the first part of a batch
        except PlatformError as error:
            tell(error)
            return
        if found.encoded or found.is_last or self.open == PLACES_MAX:
            tell(found)
            return
        self.open += 1
        self._spawn("filter of a pull", self._go_on(slices, tell))

    async def _go_on(self, slices: Iterator[Messages], tell: Tell) -> None:
        told: Messages | PlatformError
        try:
            for _ in range(1, SLICES_MAX):
                await self._turns.next()
                told = next(slices)
                if told.encoded or told.is_last:
                    break
        except PlatformError as error:
            told = error
        finally:
            self.open -= 1
        tell(told)
