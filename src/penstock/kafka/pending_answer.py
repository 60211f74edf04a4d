"""An answer with several partitions, some of which take a while; sent when the last is done."""

from collections.abc import Mapping

from penstock.kafka.request import Reply


class PendingAnswer:
    """Counts the parts in progress; the request itself is one until `end` is called for it."""

    __slots__ = ("_fields", "_open_count", "_reply")

    def __init__(self, reply: Reply, fields: Mapping[str, object]) -> None:
        """`fields` are sent as they are when everything has ended."""
        self._reply = reply
        self._fields = fields
        self._open_count = 1

    def begin(self) -> None:
        """Count a look-up that begins."""
        self._open_count += 1

    def end(self) -> None:
        """Count a look-up, or the request itself, that has filled in its part of the answer."""
        self._open_count -= 1
        if self._open_count == 0:
            self._reply(self._fields)
