"""What one process takes on: every bound of this room that is not a protocol's own.

Source: ours. The largest message that a topic takes by default has 1 MiB, hence the body's bound.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from penstock.http.pacing import Pace

HEAD_BYTES_MAX: Final = 16 << 10
"""Of a request line with its headers."""
PATH_PART_CHARS_MAX: Final = 255
BODY_BYTES_MAX: Final = 4 << 20
HELD_BYTES_MAX: Final = 96 << 20
"""Of bodies of requests and of answers together, while they are worked on or sent."""
MESSAGES_MAX: Final = 1_000
"""Of one request that produces."""
RECEIPTS_MAX: Final = 100
"""Of one request that says what becomes of messages."""
POP_MAX: Final = 32
"""Messages of one answer, as many as a node hands out at a time."""
WAIT_S_MAX: Final = 30
INVISIBLE_S_MAX: Final = 12 * 3_600
"""As long as a node lets a message be invisible."""
IN_FLIGHT_MAX: Final = 256
"""Messages that one stream has sent and nobody has settled."""
RETRY_S: Final = 15.0
"""How long a request is tried again while a master is elected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds that an operator, or a test, may set."""

    connections_max: int = 1_000
    waits_max: int = 100
    """Receives and streams of one token that are open at a time."""
    head_s: float = 10.0
    """Within which a request's head has to be there."""
    body_s: float = 30.0
    """Within which its body has to be there."""
    idle_s: int = 60
    """How long a connection may be silent between two requests."""
    write_s: float = 30.0
    """How long a client may read nothing while an answer is sent."""
    stop_s: int = 20
    """How long open requests have once the process is to end."""
    keep_alive_s: float = 15.0
    """After which a stream without messages sends a comment."""


class Held:
    """Counts bytes that requests hold; those of one token leave a quarter to others.

    `pace` is how fast more of them are read.
    """

    def __init__(self, bytes_max: int = HELD_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.bytes_now = 0
        self.pace = Pace()
        self._of: Counter[str] = Counter()

    def take(self, size: int, token: str) -> bool:
        """Count bytes; False, and nothing is counted, if that were too many."""
        if self.bytes_now + size > self.bytes_max:
            return False
        if self._of[token] + size > self.bytes_max * 3 // 4:
            return False
        self.bytes_now += size
        self._of[token] += size
        return True

    def give_back(self, size: int, token: str) -> None:
        """Count them no more."""
        self.bytes_now -= size
        self._of[token] -= size
        assert self._of[token] >= 0, self._of
        if not self._of[token]:
            del self._of[token]
