"""What was read from the tier for clients, as metrics tell it.

Source: docs/adr/0124; Kafka's RemoteFetchBytesPerSec, RemoteFetchErrorsPerSec.
"""


class ReadCounters:
    """Of one node, since it started."""

    __slots__ = ("freed", "read_bytes", "read_failures", "reads", "reads_refused")

    def __init__(self) -> None:
        self.reads = 0
        """That gave records."""
        self.read_bytes = 0
        """Of these records."""
        self.read_failures = 0
        """Tries that the store, or what it gave, let fail."""
        self.reads_refused = 0
        """Put off because a bound was reached."""
        self.freed = 0
        """How often the local start of a partition rose."""
