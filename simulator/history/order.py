"""Checks of order: of one producer, of one key, of real time, and within one consumer's polls.

The order of one producer is checked over all its records in the log, acknowledged or not.

Source: `nonmonotonic-send`, `nonmonotonic-poll`, `poll-skip` and their `int-` forms (inside one
poll) of the Jepsen Kafka workload (jepsen-io/jepsen, tests/kafka.clj); `realtime-order` and
`key-order` are our own.
"""

import itertools
from collections.abc import Iterable, Sequence

from simulator.history.events import Partition, Send, Value
from simulator.history.facts import Facts
from simulator.history.report import Anomaly, Finding


def producer_order(facts: Facts) -> Iterable[Finding]:
    """A producer's records stand in the order in which they were handed over."""
    last_of: dict[str, int] = {}
    offset_of = facts.offset_of
    for send in facts.sends:
        offset = offset_of.get(send.value)
        if offset is None:
            continue
        last = last_of.get(send.producer, -1)
        if offset <= last:
            detail = f"{send.producer}: {send.value!r} at {offset} after {last}"
            yield Finding(Anomaly.NONMONOTONIC_SEND, facts.partition, detail)
        else:
            last_of[send.producer] = offset


def realtime_order(facts: Facts) -> Iterable[Finding]:
    """Walk down the offsets: nothing above may have been acknowledged before this was sent."""
    earliest_end_above: int | None = None
    for offset, start_ns, end_ns, value in reversed(facts.acked):
        if earliest_end_above is None:
            earliest_end_above = end_ns
            continue
        if earliest_end_above < start_ns:
            detail = f"{value!r} at {offset} was sent after a later offset was acknowledged"
            yield Finding(Anomaly.REALTIME_ORDER, facts.partition, detail)
        earliest_end_above = min(earliest_end_above, end_ns)


def key_order(sends: Sequence[Send], facts: dict[Partition, Facts]) -> Iterable[Finding]:
    """The records of a key stand in one partition, and one producer's in the order of sending."""
    home: dict[Value, Partition] = {}
    last_of: dict[tuple[Value, str], int] = {}
    keyed = [send for send in sends if send.key is not None]
    for send in sorted(keyed, key=lambda one: one.start_ns):
        offset = facts[send.partition].offset_of.get(send.value)
        if send.key is None or offset is None:
            continue
        first = home.setdefault(send.key, send.partition)
        if first != send.partition:
            detail = f"{send.value!r} of key {send.key!r}, which was written to {first} before"
            yield Finding(Anomaly.KEY_ORDER, send.partition, detail)
            continue
        last = last_of.get((send.key, send.producer), -1)
        if offset <= last:
            detail = f"key {send.key!r}: {send.value!r} at {offset} after {last}"
            yield Finding(Anomaly.KEY_ORDER, send.partition, detail)
        last_of[send.key, send.producer] = max(offset, last)


def consumer_order(facts: Facts) -> Iterable[Finding]:
    """A consumer gets every offset that exists, one after the other."""
    ranks = _Ranks(facts)
    previous_of: dict[str, int] = {}
    for poll in facts.polls:
        if not poll.records:
            if poll.is_fresh:
                previous_of.pop(poll.consumer, None)
            continue
        offsets = [offset for offset, _ in poll.records]
        before = None if poll.is_fresh else previous_of.get(poll.consumer)
        if before is not None and (step := ranks.step(before, offsets[0])) != 1:
            anomaly = Anomaly.NONMONOTONIC_POLL if step < 1 else Anomaly.POLL_SKIP
            detail = f"{poll.consumer}: {offsets[0]} after {before}"
            yield Finding(anomaly, facts.partition, detail)
        for last, offset in _breaks(offsets):
            if (step := ranks.step(last, offset)) != 1:
                anomaly = Anomaly.INT_NONMONOTONIC_POLL if step < 1 else Anomaly.INT_POLL_SKIP
                detail = f"{poll.consumer}: {offset} after {last} in one poll"
                yield Finding(anomaly, facts.partition, detail)
        previous_of[poll.consumer] = offsets[-1]


def _breaks(offsets: list[int]) -> Iterable[tuple[int, int]]:
    """Yield the neighbours that do not simply follow each other; usually there are none."""
    if offsets == list(range(offsets[0], offsets[0] + len(offsets))):
        return ()
    return ((last, offset) for last, offset in itertools.pairwise(offsets) if offset != last + 1)


class _Ranks:
    """How many offsets that are known to exist lie between two; made when first needed."""

    __slots__ = ("_facts", "_rank")

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._rank: dict[int, int] = {}

    def step(self, last: int, offset: int) -> int:
        """Return 1 when `offset` is the next that exists, more for a jump, less for going back."""
        if offset == last + 1:
            return 1
        if not self._rank:
            known = sorted(self._facts.value_at)
            self._rank = {each: number for number, each in enumerate(known)}
        return self._rank[offset] - self._rank[last]
