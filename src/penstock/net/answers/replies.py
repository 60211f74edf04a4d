"""The place of one answer in its connection's queue.

The layer above may make its own kind of place, so that a request needs one object and not two.
"""

from typing import Protocol

from penstock.base.ports import Buffer


class AnswerQueue(Protocol):
    """Whoever sends answers in the order of their places: a connection."""

    def answered(
        self,
        place: "ReplyPlace",
        buffers: tuple[Buffer, ...],
        size: int,
        count: int = 1,
    ) -> None:
        """Queue the answer, `size` bytes in all, for its place."""


class ReplyPlace:
    """What the connection needs to know of an answer: its bytes, once it has them, and the next."""

    __slots__ = ("buffers", "connection", "next_place")

    def __init__(self, connection: AnswerQueue) -> None:
        self.connection = connection
        self.buffers: tuple[Buffer, ...] | None = None
        self.next_place: ReplyPlace | None = None


class ReplySlot(ReplyPlace):
    """A place that sends whole answers."""

    __slots__ = ()

    def send(self, *buffers: Buffer) -> None:
        """Answer with these bytes, size field included, once; after a close it does nothing.

        The buffers must not change until they are written; they are kept until then.
        """
        self.connection.answered(self, buffers, sum(map(len, buffers)))

    def skip(self) -> None:
        """There is no answer to this request."""
        self.connection.answered(self, (), 0)
