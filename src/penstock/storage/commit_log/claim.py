"""What the frames of a log claim: up to where it was flushed when they were appended.

    flushed here   ----------------------►|
    confirmed      ---------------►|            by the set; a log alone has no such limit
    claim          ---------------►|            the lower one

Recovery takes a claim for proof, so it must be true on every replica that writes the frame, and a
slave stops until it is (run_check.py). A claim that is higher than it has to be thus costs every
write the slave's sync, and one that is lower says a little less about damage in the newest bytes:

- What the set has confirmed, slaves in step have as durable as their policy says. Under `sync`
  that is flushed, and so they never stop.
- Under `async` every member syncs at its own times, which may take long on a busy disk. The claim
  then is what the log had flushed several syncs ago.

Source: ours; docs/formats/commit-log.md, "The claim". No I/O.
"""

from collections import deque

ASYNC_SYNCS = 8
"""Under `async`: how many syncs the claim lags behind. More than a second at the default interval,
which is as much as slaves in step may differ without having to stop."""
EVERYWHERE = 1 << 63
"""Above every position."""


class Claim:
    """Keeps what may be claimed: `position`, exclusive."""

    __slots__ = ("_limit", "_reached", "position")

    def __init__(self, *, is_sync_policy: bool) -> None:
        self._reached = deque([0], maxlen=1 if is_sync_policy else ASYNC_SYNCS + 1)
        self._limit = EVERYWHERE
        self.position = 0

    def start(self, position: int) -> None:
        """Begin with a log that is flushed up to `position`."""
        self._reached.clear()
        self.flushed(position)

    def flushed(self, position: int) -> None:
        """Take note of a sync that has reached `position`."""
        self._reached.append(position)
        self.position = min(self._reached[0], self._limit)

    def limit_to(self, position: int) -> None:
        """Claim no more than `position`: what the set has confirmed, EVERYWHERE alone."""
        self._limit = position
        self.position = min(self._reached[0], position)
