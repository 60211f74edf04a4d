"""Plain counters of the request path, read by the metrics page at scrape time.

Times are split by stage: `local` is handling on the loop, `remote` is waiting for acknowledgement,
disk or data until the answer is made. Requests sent behind an unanswered one are counted and not
timed. A histogram has one bucket per power of two of microseconds: the index is the bit length of
the value, so observing costs one list increment.

Everything here is touched by the event loop alone.
"""

import logging

LONG_TURN_US = 100_000
"""A handler that holds the loop for so long is told in the log."""

BUCKET_COUNT = 27
"""Up to 2^26 us = 67 s; what takes longer is counted in the last bucket."""


log = logging.getLogger(__name__)


class Histogram:
    """Microseconds in buckets by power of two: bucket b holds values below 2^b."""

    __slots__ = ("buckets", "total_us")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKET_COUNT
        self.total_us = 0

    def observe(self, value_us: int) -> None:
        """Count one duration, taken from a clock that never goes back."""
        slot = value_us.bit_length()
        self.buckets[slot if slot < BUCKET_COUNT else -1] += 1
        self.total_us += value_us

    @property
    def count(self) -> int:
        """How many values were observed."""
        return sum(self.buckets)


class LongestTurn:
    """For how long one API held the loop at most, in this window of time and in the last one."""

    __slots__ = ("_before_us", "_is_loaded", "_name", "longest_us")

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_loaded = False
        """Its first turn has the schemas of its messages read in: one of a kind, and no news."""
        self._before_us = 0
        self.longest_us = 0

    def note(self, microseconds: int) -> None:
        """Take one turn into account; says so when it was a long one, save for the first."""
        self.longest_us = max(self.longest_us, microseconds)
        is_loaded, self._is_loaded = self._is_loaded, True
        if microseconds >= LONG_TURN_US and is_loaded:
            log.warning("api=%s held the loop for %d ms", self._name, microseconds // 1000)

    def next_window(self) -> None:
        """Forget the window before this one."""
        self._before_us, self.longest_us = self.longest_us, 0

    @property
    def us(self) -> int:
        """The longest of both windows."""
        return max(self.longest_us, self._before_us)


class ApiStats:
    """Counters of one API key."""

    __slots__ = ("errors", "local", "name", "remote", "requests", "turns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests = 0
        self.errors = 0
        self.local = Histogram()
        self.remote = Histogram()
        self.turns = LongestTurn(name)


class BrokerStats:
    """Counters of one broker."""

    __slots__ = (
        "by_api",
        "bytes_fetched",
        "bytes_produced",
        "duplicate_batches",
        "fetch_cold_reads",
        "fetches_parked",
        "loop_delay",
        "produce_timeouts",
        "reads_ahead_dropped",
        "reads_ahead_used",
        "records_produced",
        "refused_batches",
        "request_errors",
    )

    def __init__(self) -> None:
        self.by_api: dict[int, ApiStats] = {}
        self.bytes_produced = 0
        self.records_produced = 0
        self.bytes_fetched = 0
        self.fetch_cold_reads = 0
        self.fetches_parked = 0
        self.reads_ahead_used = 0
        self.reads_ahead_dropped = 0
        self.loop_delay = Histogram()
        self.duplicate_batches = 0
        self.produce_timeouts = 0
        self.refused_batches: dict[str, int] = {}
        self.request_errors: dict[str, int] = {}

    def count_refused(self, reason: str) -> None:
        """Count a batch that was refused; `reason` is an error code's name (bounded set)."""
        self.refused_batches[reason] = self.refused_batches.get(reason, 0) + 1

    def count_request_error(self, reason: str) -> None:
        """Count a request that could not be handled; `reason` is an error class's name."""
        self.request_errors[reason] = self.request_errors.get(reason, 0) + 1
