"""Counters of one broker's request path, read by the metrics page at scrape time.

Those of each API are in `api_stats`. All are used on the event loop only.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.broker.api_stats import ApiStats, Histogram, LongestTurn


class BrokerStats:
    """Counters of one broker."""

    __slots__ = (
        "by_api",
        "bytes_fetched",
        "bytes_produced",
        "duplicate_batches",
        "fetch_cold_reads",
        "fetch_wakes",
        "fetches_parked",
        "loop_delay",
        "other_turns",
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
        self.other_turns: dict[str, LongestTurn] = {}
        """Of requests that are not Kafka's; the names begin with those of their protocols."""
        self.fetch_wakes = LongestTurn("FetchWakes")
        """Parked fetches that looked again, in portions (fetch/wakes.py)."""
        self.reads_ahead_used = 0
        self.reads_ahead_dropped = 0
        self.loop_delay = Histogram()
        self.duplicate_batches = 0
        self.produce_timeouts = 0
        self.refused_batches: dict[str, int] = {}
        self.request_errors: dict[str, int] = {}

    def longest_turns(self) -> Iterator[LongestTurn]:
        """What is known of holding the loop: each API, and what no request begins."""
        for api in self.by_api.values():
            yield api.turns
        yield from self.other_turns.values()
        yield self.fetch_wakes

    def turns_of(self, protocol: str, name: str) -> LongestTurn:
        """Return the longest turns of a kind of request that is not Kafka's (bounded sets)."""
        named = f"{protocol}.{name}"
        found = self.other_turns.get(named)
        if found is None:
            found = self.other_turns[named] = LongestTurn(named)
        return found

    def count_refused(self, reason: str) -> None:
        """Count a batch that was refused; `reason` is an error code's name (bounded set)."""
        self.refused_batches[reason] = self.refused_batches.get(reason, 0) + 1

    def count_request_error(self, reason: str) -> None:
        """Count a request that could not be handled; `reason` is an error class's name."""
        self.request_errors[reason] = self.request_errors.get(reason, 0) + 1
