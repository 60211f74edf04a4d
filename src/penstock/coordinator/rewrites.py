"""When a partition of the internal topic is due for a rewrite.

The internal topic is not compacted. Instead its owner now and then appends every live record once
more, and then raises the log start to where it began:

    old records ... | rewrite: every live record | commits since
                    ▲ log start goes here once the rewrite is durable

A rewrite costs the size of the live records, so it waits until at least as much was appended since
the last one (write amplification at most two), and never runs below a threshold. It goes group by
group. Each group's records are read at the moment they are appended, so that a commit between two
groups lies before or behind them as in the log.

Source: the log-structured cleaning argument (Rosenblum and Ousterhout 1992, section 3.4); Kafka
compacts instead (LogCleaner).
"""

FRUITLESS_MAX = 6
"""After rewrites that could not cut the log, at most 2^6 due ones are skipped."""


class RewriteTracker:
    """Bytes appended per partition since its last rewrite."""

    __slots__ = ("_appended", "_fruitless", "_held", "_live", "_threshold_bytes", "_wait")

    def __init__(self, threshold_bytes: int) -> None:
        self._threshold_bytes = threshold_bytes
        self._held: set[int] = set()
        self._fruitless: dict[int, int] = {}
        self._wait: dict[int, int] = {}
        self._appended: dict[int, int] = {}
        self._live: dict[int, int] = {}

    def appended(self, partition: int, size_bytes: int) -> None:
        """Note bytes appended, or read while loading."""
        self._appended[partition] = self._appended.get(partition, 0) + size_bytes

    def rewritten(self, partition: int, live_bytes: int) -> None:
        """Note that a rewrite of that size is complete and durable."""
        self._live[partition] = live_bytes
        self._appended[partition] = 0
        self._fruitless.pop(partition, None)
        self._wait.pop(partition, None)

    def failed(self, partition: int) -> None:
        """Note a rewrite that cut nothing off: the next one waits twice as long."""
        fruitless = self._fruitless.get(partition, 0)
        self._fruitless[partition] = min(fruitless + 1, FRUITLESS_MAX)
        self._wait[partition] = 2**fruitless

    def live_bytes(self, partition: int) -> int:
        """Return an upper bound for the bytes of a rewrite of the partition."""
        appended = self._appended.get(partition, 0)
        return self._live.get(partition, 0) + appended

    def forget(self, partition: int) -> None:
        """Note that the partition is no longer this coordinator's."""
        self._appended.pop(partition, None)
        self._live.pop(partition, None)
        self._fruitless.pop(partition, None)
        self._wait.pop(partition, None)
        self._held.discard(partition)

    def hold(self, partition: int) -> None:
        """Note that a rewrite would lose records of the partition: it is not rewritten."""
        self._held.add(partition)

    @property
    def held(self) -> tuple[int, ...]:
        """The partitions that are never rewritten while they are owned, in ascending order."""
        return tuple(sorted(self._held))

    def due(self) -> tuple[int, ...]:
        """Return the partitions to rewrite, in ascending order. Each call counts down waits."""
        grown = [
            partition
            for partition, appended in sorted(self._appended.items())
            if partition not in self._held
            and appended >= max(self._threshold_bytes, self._live.get(partition, 0))
        ]
        due = [partition for partition in grown if not self._wait.get(partition)]
        for partition, wait in self._wait.items():
            self._wait[partition] = max(wait - 1, 0)
        return tuple(due)
