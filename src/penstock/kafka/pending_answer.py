"""An answer of several partitions of which some take a while; it leaves when none is left."""

from collections.abc import Mapping

from penstock.kafka.request import Reply


class PendingAnswer:
    """Counts what is under way; the request itself is one until `end` is called for it."""

    __slots__ = ("_fields", "_open_count", "_reply")

    def __init__(self, reply: Reply, fields: Mapping[str, object]) -> None:
        """`fields` are sent as they are when everything has ended."""
        self._reply = reply
        self._fields = fields
        self._open_count = 1

    def begin(self) -> None:
        """A look-up begins."""
        self._open_count += 1

    def end(self) -> None:
        """A look-up, or the request itself, has put its part into the answer."""
        self._open_count -= 1
        if self._open_count == 0:
            self._reply(self._fields)
