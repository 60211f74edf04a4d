"""The facts of a history about one partition, gathered once for all checks.

They are gathered in one pass over the sends and polls. In the usual case, a value read again at the
same offset, a record costs one look-up, since there may be millions of records.
"""

from typing import NamedTuple

from simulator.history.events import Outcome, Partition, Poll, Rules, Send, Value

Acked = tuple[int, int, int, Value]
"""(offset, start_ns, end_ns, value) of an acknowledged record."""


class Facts(NamedTuple):
    """One partition's facts."""

    partition: Partition
    sends: list[Send]
    """In the order in which they were handed over."""
    polls: list[Poll]
    """In the order in which they began."""
    rules: Rules
    value_at: dict[int, Value]
    """Every offset that an acknowledgement or a poll named, with the first value seen there."""
    clashes: dict[int, list[Value]]
    """Offsets with more than one value."""
    offset_of: dict[Value, int]
    """Lowest offset of every value that was seen."""
    moved: dict[Value, list[int]]
    """Values with more than one offset."""
    read: set[Value]
    highest_read: int
    """The highest offset that was read; -1 if none was."""
    start_offset: int
    """The highest start of the log that a broker told: what is below may have been deleted."""
    acked: list[Acked]
    """Acknowledged with an offset and a time, by offset."""


class _Seen:
    """Which value was seen where."""

    __slots__ = ("clashes", "moved", "offset_of", "value_at")

    def __init__(self) -> None:
        self.value_at: dict[int, Value] = {}
        self.clashes: dict[int, list[Value]] = {}
        self.offset_of: dict[Value, int] = {}
        self.moved: dict[Value, list[int]] = {}

    def saw(self, offset: int, value: Value) -> None:
        """Take note; called only where `value_at` does not say just that already."""
        first = self.value_at.setdefault(offset, value)
        if first != value:
            there = self.clashes.setdefault(offset, [first])
            if value in there:
                return
            there.append(value)
        known = self.offset_of.setdefault(value, offset)
        if known != offset:
            places = self.moved.setdefault(value, [known])
            if offset not in places:
                places.append(offset)
            self.offset_of[value] = min(known, offset)


def gather(partition: Partition, sends: list[Send], polls: list[Poll], rules: Rules) -> Facts:
    """Return the facts of one partition."""
    seen = _Seen()
    value_at = seen.value_at
    for send in sends:
        if send.offset is not None:
            seen.saw(send.offset, send.value)
    read: set[Value] = set()
    highest_read = -1
    start_offset = 0
    for poll in polls:
        if poll.start_offset is not None and poll.start_offset > start_offset:
            start_offset = poll.start_offset
        if not poll.records:
            continue
        for offset, value in poll.records:
            if value_at.get(offset) != value:
                seen.saw(offset, value)
        read.update([value for _, value in poll.records])
        highest_here = max([offset for offset, _ in poll.records])
        highest_read = max(highest_read, highest_here)
    return Facts(
        partition=partition,
        sends=sorted(sends, key=_start_of_send),
        polls=sorted(polls, key=_start_of_poll),
        rules=rules,
        value_at=value_at,
        clashes=seen.clashes,
        offset_of=seen.offset_of,
        moved=seen.moved,
        read=read,
        highest_read=highest_read,
        start_offset=start_offset,
        acked=_acked(sends),
    )


def _start_of_send(send: Send) -> int:
    return send.start_ns


def _start_of_poll(poll: Poll) -> int:
    return poll.start_ns


def _acked(sends: list[Send]) -> list[Acked]:
    found = [
        (send.offset, send.start_ns, send.end_ns, send.value)
        for send in sends
        if send.outcome is Outcome.ACKED and send.offset is not None and send.end_ns is not None
    ]
    found.sort(key=_offset_of_acked)
    return found


def _offset_of_acked(acked: Acked) -> int:
    return acked[0]
