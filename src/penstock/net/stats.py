"""Counters of one listener, read by the metrics page; plain attributes, updated on the loop."""

from collections import Counter


class NetStats:
    """Totals since the start, except `connections` and `unfinished_bytes`, which are current."""

    __slots__ = (
        "accepted",
        "bytes_in",
        "bytes_out",
        "closed",
        "connections",
        "frames",
        "reading_pauses",
        "refused",
        "unfinished_bytes",
    )

    def __init__(self) -> None:
        self.connections = 0
        self.unfinished_bytes = 0
        self.accepted = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.frames = 0
        self.reading_pauses = 0
        self.refused: Counter[str] = Counter()
        """By RefuseKind."""
        self.closed: Counter[str] = Counter()
        """Connections closed by this side, by CloseKind, including invalid frames."""
