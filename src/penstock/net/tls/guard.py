"""What looks at a connection's frames while its client has to say who it is."""

from typing import Protocol


class Guard(Protocol):
    """Watches a connection whose client has not said who it is, or has to say it again."""

    @property
    def takes_tokens(self) -> bool:
        """Whether the next frame is a bare token, which may be short."""

    @property
    def frame_bytes_max(self) -> int:
        """Largest frame, as long as the client is unknown."""

    def lets(self, frame: memoryview) -> bool:
        """Whether the frame is to be handled as usual; else it has been dealt with."""

    def is_late(self) -> bool:
        """Whether a client that is known should have said by now again who it is.

        Asked once a second. Those who were never known are ended by `net.unproven_seconds_max`.
        """
