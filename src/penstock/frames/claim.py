"""The claim of a frame: the position up to which the log was flushed when it was appended.

    flushed here   ----------------------►|
    confirmed      ---------------►|            by the set; a log alone has no such limit
    claim          ---------------►|            the lower one

Recovery treats a claim as proof, so it must be true on every replica that writes the frame: a slave
syncs before it writes a frame whose claim is not true yet (run_check.py). A high claim therefore
costs the slave a sync for each write; a low one only detects less damage in the newest bytes.

- Slaves in step hold confirmed bytes as durably as their flush policy says. Under `sync` these are
  flushed, so a claim up to the confirm position never makes a slave wait.
- Under `async` every member syncs at its own times, which may be long apart on a busy disk. The
  claim is then the position that the log had flushed several syncs ago.

Source: ours; docs/formats/commit-log.md, "The claim". No I/O.
"""

from collections import deque

from penstock.base.ids import Position

ASYNC_SYNCS = 8
"""Under `async`: how many syncs the claim lags behind. At the default interval that is more than a
second; a slave in step that is behind by less never has to sync for a claim."""
EVERYWHERE = Position(1 << 63)
"""Above every position."""


class Claim:
    """Tracks `position` (exclusive), the highest one that a new frame may claim."""

    __slots__ = ("_limit", "_reached", "position")

    def __init__(self, *, is_sync_policy: bool) -> None:
        self._reached = deque([Position(0)], maxlen=1 if is_sync_policy else ASYNC_SYNCS + 1)
        self._limit = EVERYWHERE
        self.position = Position(0)

    def start(self, position: Position) -> None:
        """Begin with a log that is flushed up to `position`."""
        self._reached.clear()
        self.flushed(position)

    def flushed(self, position: Position) -> None:
        """Note that a sync has reached `position`."""
        self._reached.append(position)
        self.position = min(self._reached[0], self._limit)

    def limit_to(self, position: Position) -> None:
        """Claim no more than `position`: the confirm position, or EVERYWHERE for a lone member."""
        self._limit = position
        self.position = min(self._reached[0], position)
