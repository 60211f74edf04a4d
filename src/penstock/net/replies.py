"""The place of one answer in its connection's queue."""

from typing import TYPE_CHECKING

from penstock.base.ports import Buffer

if TYPE_CHECKING:
    from penstock.net.connection import Connection


class ReplySlot:
    """The place of one answer in its connection's queue."""

    __slots__ = ("buffers", "connection", "next_slot")

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection
        self.buffers: tuple[Buffer, ...] | None = None
        self.next_slot: ReplySlot | None = None

    def send(self, *buffers: Buffer) -> None:
        """Answer with these bytes, size field included, once; after a close it does nothing.

        The buffers must not change until they are written; they are kept until then.
        """
        self.connection.answered(self, buffers)

    def skip(self) -> None:
        """There is no answer to this request."""
        self.connection.answered(self, ())
