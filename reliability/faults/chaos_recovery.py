"""How long clients waited: silences around faults, spans without service, latency over time.

A silence is the time between two acknowledgements that one client had from one partition. Recovery
from a fault is the longest silence between its begin and the moment when all was whole again; where
writes are only promised to come back after the mending, what was silent before does not count.
"""

import bisect
import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from harness.workload import Workload, Writer
from simulator.history import Outcome

SPAN_NS = 500_000_000
"""A partition that acknowledges nothing to anybody for so long was unavailable."""
BIN_NS = 250_000_000


class Window(NamedTuple):
    """From when to when a fault is looked at; silence before `count_from` does not count."""

    begun_ns: int
    ended_ns: int
    count_from: int = 0


class Outage(NamedTuple):
    """A span in which a partition acknowledged nothing to anybody."""

    partition: int
    from_s: float
    seconds: float


class Recoveries:
    """The acknowledgements of a load that has ended, by client and partition."""

    def __init__(self, workload: Workload) -> None:
        self._partitions = workload.load.partitions
        self._writers = {writer.kind: writer for writer in workload.writers}
        self._acks = {
            (kind, partition): [at for at, _ in writer.acks_of(partition)]
            for kind, writer in self._writers.items()
            for partition in range(self._partitions)
        }

    @property
    def clients(self) -> tuple[str, ...]:
        """The kinds of clients."""
        return tuple(self._writers)

    def of_fault(self, window: Window) -> dict[str, float]:
        """Return the longest silence of every client, seconds."""
        return {
            kind: round(
                max(
                    longest_silence(self._acks[kind, partition], window)
                    for partition in range(self._partitions)
                ),
                4,
            )
            for kind in self._writers
        }

    def outages(self, zero_ns: int) -> list[Outage]:
        """Return every span without service, in order of time; seconds count from `zero_ns`."""
        found = []
        for partition in range(self._partitions):
            merged = sorted(
                itertools.chain.from_iterable(self._acks[kind, partition] for kind in self._writers)
            )
            found += [
                Outage(partition, round((a - zero_ns) / 1e9, 3), round((b - a) / 1e9, 3))
                for a, b in itertools.pairwise(merged)
                if b - a >= SPAN_NS
            ]
        return sorted(found, key=lambda one: one.from_s)

    def latencies(self, zero_ns: int) -> dict[str, list[tuple[float, float]]]:
        """Return (sent at, slowest) of every client: s and ms, for each quarter of a second."""
        return {kind: _slowest(writer, zero_ns) for kind, writer in self._writers.items()}

    def quantiles_ms(self) -> dict[str, dict[str, float]]:
        """Return what acknowledgements took over the whole run, faults included."""
        found = {}
        for kind, writer in self._writers.items():
            taken = sorted(end - start for end, start in _acked(writer))
            found[kind] = {
                name: round(taken[min(len(taken) - 1, int(share * len(taken)))] / 1e6, 2)
                for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
                if taken
            }
        return found


def longest_silence(acks: Sequence[int], window: Window) -> float:
    """Return the longest silence that touches the window, seconds; `acks` in order of time."""
    first = max(0, bisect.bisect_right(acks, window.begun_ns) - 1)
    last = bisect.bisect_right(acks, window.ended_ns) + 1
    around = acks[first:last]
    if not around or around[0] > window.begun_ns:
        around = [window.begun_ns, *around]  # it was silent from the beginning
    silences = (b - max(a, window.count_from) for a, b in itertools.pairwise(around))
    is_open = around[-1] < window.ended_ns
    rest = window.ended_ns - max(around[-1], window.count_from) if is_open else 0
    return max(0, rest, max(silences, default=0)) / 1e9


def _acked(writer: Writer) -> Iterable[tuple[int, int]]:
    return [
        (record.end_ns, record.start_ns)
        for record in writer.records
        if record.outcome is Outcome.ACKED and record.end_ns is not None
    ]


def _slowest(writer: Writer, zero_ns: int) -> list[tuple[float, float]]:
    slowest: dict[int, int] = {}
    for end, start in _acked(writer):
        place = (start - zero_ns) // BIN_NS
        slowest[place] = max(slowest.get(place, 0), end - start)
    return [
        (round(place * BIN_NS / 1e9, 2), round(worst / 1e6, 2))
        for place, worst in sorted(slowest.items())
    ]
