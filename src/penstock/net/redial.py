"""The pause before a peer is dialled again.

    attempt failed, or the link ended at once ─► the pause doubles, up to its limit
    the link lasted longer than the limit     ─► the shortest pause

So a peer that completes the handshake and then refuses what it is sent, as one of another release
does, is not dialled many times a second.
"""


class RedialPause:
    """The pauses for one peer."""

    __slots__ = ("_max_ms", "_min_ms", "_next_ms")

    def __init__(self, min_ms: int, max_ms: int) -> None:
        self._min_ms = self._next_ms = min_ms
        self._max_ms = max_ms

    def after(self, lasted_ms: int) -> int:
        """Return the pause in ms after a link that lasted so long; 0 if there was none."""
        if lasted_ms > self._max_ms:
            self._next_ms = self._min_ms
        pause_ms, self._next_ms = self._next_ms, min(2 * self._next_ms, self._max_ms)
        return pause_ms
