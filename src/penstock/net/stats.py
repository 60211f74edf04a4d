"""Counters of one listener, read by the metrics page; plain attributes, updated on the loop."""

from collections import Counter, defaultdict


class NetStats:
    """Totals since the start.

    Current are `connections`, `unfinished_bytes`, `open_at` and `unproven_at`.
    """

    __slots__ = (
        "accepted",
        "bytes_in",
        "bytes_out",
        "closed",
        "connections",
        "frames",
        "gave_way_at",
        "open_at",
        "reading_pauses",
        "refused",
        "refused_at",
        "unfinished_bytes",
        "unproven_at",
        "waited_seconds_at",
        "waits_at",
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
        self.open_at: Counter[str] = Counter()
        """By listener, from being accepted on: those in the middle of TLS count as well."""
        self.unproven_at: Counter[str] = Counter()
        """Of them those whose clients have not proved who they are; counted once a second."""
        self.refused_at: Counter[tuple[str, str]] = Counter()
        """By listener and RefuseKind."""
        self.gave_way_at: Counter[tuple[str, str]] = Counter()
        """By listener, of those that were closed for others, and YieldKind."""
        self.waits_at: Counter[tuple[str, str]] = Counter()
        """By listener and WaitKind: how often it accepted later than it could have."""
        self.waited_seconds_at: defaultdict[str, float] = defaultdict(float)
        """By listener: for how long it accepted nothing though somebody waited."""
