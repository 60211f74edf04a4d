"""Checks of freshness: log ends in answers, consumers that stay behind.

Source: `realtime-lag` of the Jepsen Kafka workload (jepsen-io/jepsen, tests/kafka.clj): how long
the position of a poll was superseded. Departure: the time begins with the consumer's own first poll
after it was placed, and anew with each poll that gets records: who reads a long backlog at its own
pace, a few records at a time, waits for nothing.
"""

import bisect
import itertools
from collections.abc import Iterable, Sequence

from simulator.history.events import Deletion, Poll
from simulator.history.facts import Facts
from simulator.history.report import Anomaly, Finding


def stale_reads(facts: Facts) -> Iterable[Finding]:
    """An answered log end must not be below records acknowledged before the request."""
    if all(poll.end_offset is None for poll in facts.polls):
        return
    acked = sorted((end_ns, offset) for offset, _, end_ns, _ in facts.acked)
    highest = list(itertools.accumulate((offset for _, offset in acked), max))
    for poll in facts.polls:
        if poll.end_offset is None or _may_be_old(facts, poll):
            continue
        known = bisect.bisect_left(acked, (poll.start_ns - facts.rules.stale_ns_max, -1))
        if known and highest[known - 1] >= poll.end_offset:
            detail = f"{poll.consumer}: told {poll.end_offset} with {highest[known - 1]} in the log"
            yield Finding(Anomaly.STALE_READ, facts.partition, detail)


def high_watermark_regressions(facts: Facts) -> Iterable[Finding]:
    """An answered log end must not be below an earlier answer."""
    told = sorted(
        (poll.end_ns, poll.end_offset) for poll in facts.polls if poll.end_offset is not None
    )
    highest = list(itertools.accumulate((offset for _, offset in told), max))
    for poll in facts.polls:
        if poll.end_offset is None or _may_be_old(facts, poll):
            continue
        known = bisect.bisect_left(told, (poll.start_ns - facts.rules.stale_ns_max, -1))
        if known and highest[known - 1] > poll.end_offset:
            detail = f"{poll.consumer}: told {poll.end_offset} after {highest[known - 1]} was told"
            yield Finding(Anomaly.HIGH_WATERMARK_REGRESSION, facts.partition, detail)


def start_regressions(facts: Facts, deletions: Sequence[Deletion]) -> Iterable[Finding]:
    """What a client deleted stays deleted, whoever leads afterwards.

    Retention promises no such thing: each member applies it by itself.
    """
    done = sorted((deletion.end_ns, deletion.before_offset) for deletion in deletions)
    highest = list(itertools.accumulate((low for _, low in done), max))
    for poll in facts.polls:
        if poll.start_offset is None or not done or _may_be_old(facts, poll):
            continue
        known = bisect.bisect_left(done, (poll.start_ns - facts.rules.stale_ns_max, -1))
        if known and highest[known - 1] > poll.start_offset:
            deleted = highest[known - 1]
            detail = f"{poll.consumer}: told {poll.start_offset}, deleted up to {deleted}"
            yield Finding(Anomaly.START_REGRESSION, facts.partition, detail)


def _may_be_old(facts: Facts, poll: Poll) -> bool:
    return facts.rules.may_be_old(poll.told_by, poll.start_ns, poll.end_ns)


def lags(facts: Facts) -> list[tuple[int, str, int]]:
    """Return the longest lag of each consumer: (ns, consumer, the offset it was waiting at)."""
    offsets = [one[0] for one in facts.acked]
    # The time from which on there was something at or above each offset.
    there_from = list(itertools.accumulate((one[2] for one in reversed(facts.acked)), min))
    there_from.reverse()
    worst: dict[str, tuple[int, int]] = {}
    placed: dict[str, tuple[int, int]] = {}  # the next offset, and since when it waits
    for poll in facts.polls:
        if poll.consumer == facts.rules.final_reader:
            continue
        if poll.is_fresh:
            placed.pop(poll.consumer, None)
        if poll.consumer in placed and not poll.is_elsewhere:
            position, since_ns = placed[poll.consumer]
            at = bisect.bisect_left(offsets, position)
            if at < len(offsets):
                since_ns = max(since_ns, facts.rules.lag_from_ns)
                lag_ns = poll.end_ns - max(there_from[at], since_ns)
                if lag_ns > worst.get(poll.consumer, (0, 0))[0]:
                    worst[poll.consumer] = (lag_ns, position)
        _place(placed, poll)
    return [(lag_ns, consumer, position) for consumer, (lag_ns, position) in worst.items()]


def _place(placed: dict[str, tuple[int, int]], poll: Poll) -> None:
    if poll.is_elsewhere and poll.consumer in placed:
        placed[poll.consumer] = (placed[poll.consumer][0], poll.end_ns)
    elif poll.records:
        placed[poll.consumer] = (poll.records[-1][0] + 1, poll.end_ns)


def realtime_lags(facts: Facts, found: list[tuple[int, str, int]]) -> Iterable[Finding]:
    """A consumer that polls gets what is there within the time that was promised."""
    rules = facts.rules
    if rules.lag_ns_max is None:
        return
    members = {one for _, consumers in rules.readers for one in consumers}
    for lag_ns, consumer, position in found:
        if lag_ns > rules.lag_ns_max + (rules.rejoin_ns_max if consumer in members else 0):
            detail = f"{consumer} was behind for {lag_ns / 1e9:.3f} s at offset {position}"
            yield Finding(Anomaly.REALTIME_LAG, facts.partition, detail)
