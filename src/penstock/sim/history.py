"""The judge of a log: given what clients did and saw, name every promise that was broken.

A history is a list of sends and a list of polls. Every value is sent once and unique in its
partition, so each record can be followed from the send to the offsets at which it was read. As
acknowledgements carry offsets no search is needed: every check is sorting and look-ups.

    sends, polls -> _Facts (offset -> values, value -> offsets, highest offset read)
                 -> one small function per anomaly -> Report

Outcome of a send: ACKED (the broker said so), FAILED (it definitely did not happen), UNKNOWN (a
time-out: it may or may not be in the log; neither is an anomaly, but twice or out of order is).

Source: the anomaly names of the Jepsen Kafka workload (jepsen-io/jepsen, tests/kafka.clj), own
definitions; `phantom`, `realtime-order`, `vanished` and `stale-read` are added. Departure: order
of one producer is checked over every record that was seen in the log, acknowledged or not.

Deliberately not here: transactions (aborted and precommitted reads), consumer group positions.
"""

import bisect
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from typing import NamedTuple

Partition = str | int
Value = str | int | bytes


class Outcome(Enum):
    """What the client knows of a send when the history ends."""

    ACKED = "acked"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Send(NamedTuple):
    """One record handed to one producer. Times are nanoseconds of one monotonic clock."""

    producer: str
    partition: Partition
    value: Value
    start_ns: int
    end_ns: int | None
    outcome: Outcome
    offset: int | None
    """Where the broker said it stands; None when it said nothing."""


class Poll(NamedTuple):
    """Records that one consumer got at once, in the order in which it got them."""

    consumer: str
    partition: Partition
    records: Sequence[tuple[int, Value]]
    """(offset, value), in the order of delivery."""
    start_ns: int
    end_ns: int
    is_fresh: bool = False
    """The consumer was placed anew (seek, assignment): going back or jumping is no anomaly."""
    end_offset: int | None = None
    """Where the log ends (exclusive), as the broker that answered said; None when unknown."""


class Anomaly(Enum):
    """A broken promise; the text is the name used in reports."""

    INCONSISTENT_OFFSETS = "inconsistent-offsets"  # two values were seen at one offset
    DUPLICATE = "duplicate"  # one value stands at two offsets
    LOST_WRITE = "lost-write"  # acknowledged, readers are past it, nobody read it
    UNSEEN = "unseen"  # acknowledged, beyond what anybody read by the end
    ABORTED_READ = "aborted-read"  # a send that definitely failed was read
    PHANTOM = "phantom"  # nobody sent what was read
    NONMONOTONIC_SEND = "nonmonotonic-send"  # a producer's later record stands before its earlier
    REALTIME_ORDER = "realtime-order"  # acknowledged before another was sent, but stands after it
    NONMONOTONIC_POLL = "nonmonotonic-poll"  # a consumer went back or repeated
    POLL_SKIP = "poll-skip"  # a consumer jumped over records that exist
    VANISHED = "vanished"  # somebody read it, and in the end it is not there
    STALE_READ = "stale-read"  # the log was said to end before what was acknowledged long before


class Finding(NamedTuple):
    """One occurrence of an anomaly."""

    anomaly: Anomaly
    partition: Partition
    detail: str


class Report(NamedTuple):
    """What was checked and what was wrong."""

    sent: int
    acked: int
    read: int
    findings: tuple[Finding, ...]

    def count(self, *anomalies: Anomaly) -> int:
        """Return how often one of `anomalies` was found."""
        return sum(1 for finding in self.findings if finding.anomaly in anomalies)

    @property
    def lost(self) -> int:
        """Acknowledged records that nobody could read."""
        return self.count(Anomaly.LOST_WRITE, Anomaly.UNSEEN)

    @property
    def doubled(self) -> int:
        """Values that stand at more than one offset."""
        return self.count(Anomaly.DUPLICATE)

    @property
    def disordered(self) -> int:
        """Breaches of any order: of a producer, of real time, of a consumer."""
        return self.count(
            Anomaly.NONMONOTONIC_SEND,
            Anomaly.REALTIME_ORDER,
            Anomaly.NONMONOTONIC_POLL,
            Anomaly.POLL_SKIP,
        )

    def is_clean(self, allowed: Collection[Anomaly] = ()) -> bool:
        """Say whether nothing was found besides `allowed` anomalies."""
        return all(finding.anomaly in allowed for finding in self.findings)


class _Facts(NamedTuple):
    """What the history says about one partition, gathered once for all checks."""

    partition: Partition
    sends: list[Send]
    polls: list[Poll]
    at_offset: dict[int, list[Value]]
    """Every offset that an acknowledgement or a poll named, with its values."""
    offsets_of: dict[Value, list[int]]
    read: set[Value]
    highest_read: int
    """The highest offset that anybody read; -1 when nobody read anything."""
    final_reader: str | None
    stale_ns_max: int


def check(
    sends: Iterable[Send],
    polls: Iterable[Poll],
    *,
    final_reader: str | None = None,
    stale_ns_max: int = 0,
) -> Report:
    """Judge a finished history; the last polls should have read every partition to its end.

    `final_reader` names the consumer that did so and saw all that is there; None: not looked for.
    An answer may lack what was acknowledged up to `stale_ns_max` nanoseconds before it was asked
    for: the time after which a cut-off master has to know that it may be none any more.
    """
    sends_of: dict[Partition, list[Send]] = defaultdict(list)
    polls_of: dict[Partition, list[Poll]] = defaultdict(list)
    for send in sends:
        sends_of[send.partition].append(send)
    for poll in polls:
        polls_of[poll.partition].append(poll)
    findings: list[Finding] = []
    read = 0
    for partition in list(sends_of) + [p for p in polls_of if p not in sends_of]:
        facts = _gather(
            partition, sends_of[partition], polls_of[partition], (final_reader, stale_ns_max)
        )
        read += len(facts.read)
        for look in _CHECKS:
            findings.extend(look(facts))
    everything = [send for group in sends_of.values() for send in group]
    acked = sum(send.outcome is Outcome.ACKED for send in everything)
    return Report(len(everything), acked, read, tuple(findings))


def _gather(
    partition: Partition, sends: list[Send], polls: list[Poll], rules: tuple[str | None, int]
) -> _Facts:
    at_offset: dict[int, list[Value]] = {}
    offsets_of: dict[Value, list[int]] = {}
    read: set[Value] = set()
    highest_read = -1

    def saw(offset: int, value: Value) -> None:
        values = at_offset.setdefault(offset, [])
        if value not in values:
            values.append(value)
            offsets_of.setdefault(value, []).append(offset)

    for send in sends:
        if send.offset is not None:
            saw(send.offset, send.value)
    for poll in polls:
        for offset, value in poll.records:
            saw(offset, value)
            read.add(value)
            highest_read = max(highest_read, offset)
    return _Facts(partition, sends, polls, at_offset, offsets_of, read, highest_read, *rules)


def _inconsistent_offsets(facts: _Facts) -> Iterable[Finding]:
    for offset, values in sorted(facts.at_offset.items()):
        if len(values) > 1:
            detail = f"offset {offset} holds {values!r}"
            yield Finding(Anomaly.INCONSISTENT_OFFSETS, facts.partition, detail)


def _duplicates(facts: _Facts) -> Iterable[Finding]:
    for value, offsets in facts.offsets_of.items():
        if len(offsets) > 1:
            detail = f"{value!r} stands at {sorted(offsets)}"
            yield Finding(Anomaly.DUPLICATE, facts.partition, detail)


def _lost(facts: _Facts) -> Iterable[Finding]:
    for send in facts.sends:
        if send.outcome is not Outcome.ACKED or send.value in facts.read:
            continue
        is_passed = send.offset is not None and send.offset <= facts.highest_read
        anomaly = Anomaly.LOST_WRITE if is_passed else Anomaly.UNSEEN
        yield Finding(anomaly, facts.partition, f"{send.value!r} acknowledged at {send.offset}")


def _never_written(facts: _Facts) -> Iterable[Finding]:
    outcomes = {send.value: send.outcome for send in facts.sends}
    for value in sorted(facts.read, key=repr):
        outcome = outcomes.get(value)
        if outcome is None:
            yield Finding(Anomaly.PHANTOM, facts.partition, f"{value!r} was never sent")
        elif outcome is Outcome.FAILED:
            yield Finding(Anomaly.ABORTED_READ, facts.partition, f"{value!r} had failed")


def _producer_order(facts: _Facts) -> Iterable[Finding]:
    """Compare first offsets in the order of sending, whether or not they were acknowledged."""
    last_of: dict[str, int] = {}
    for send in sorted(facts.sends, key=lambda one: one.start_ns):
        seen = facts.offsets_of.get(send.value)
        if not seen:
            continue
        offset = min(seen)
        if offset <= last_of.get(send.producer, -1):
            detail = f"{send.producer}: {send.value!r} at {offset} after {last_of[send.producer]}"
            yield Finding(Anomaly.NONMONOTONIC_SEND, facts.partition, detail)
        last_of[send.producer] = max(offset, last_of.get(send.producer, -1))


def _realtime_order(facts: _Facts) -> Iterable[Finding]:
    """Walk down the offsets: nothing above may have been acknowledged before this was sent."""
    acked = sorted(
        (send.offset, send.start_ns, send.end_ns, repr(send.value))
        for send in facts.sends
        if send.outcome is Outcome.ACKED and send.offset is not None and send.end_ns is not None
    )
    earliest_end_above: int | None = None
    for offset, start_ns, end_ns, shown in reversed(acked):
        if earliest_end_above is not None and earliest_end_above < start_ns:
            detail = f"{shown} at {offset} was sent after a later offset was acknowledged"
            yield Finding(Anomaly.REALTIME_ORDER, facts.partition, detail)
        earliest_end_above = (
            end_ns if earliest_end_above is None else min(earliest_end_above, end_ns)
        )


def _consumer_order(facts: _Facts) -> Iterable[Finding]:
    rank = {offset: number for number, offset in enumerate(sorted(facts.at_offset))}
    previous_of: dict[str, int] = {}
    for poll in sorted(facts.polls, key=lambda one: one.start_ns):
        previous = None if poll.is_fresh else previous_of.get(poll.consumer)
        for offset, _ in poll.records:
            step = 1 if previous is None else rank[offset] - rank[previous]
            if step != 1:
                anomaly = Anomaly.NONMONOTONIC_POLL if step < 1 else Anomaly.POLL_SKIP
                detail = f"{poll.consumer}: {offset} after {previous}"
                yield Finding(anomaly, facts.partition, detail)
            previous = offset
        if previous is not None:
            previous_of[poll.consumer] = previous


def _vanished(facts: _Facts) -> Iterable[Finding]:
    """Whatever anybody was shown must be there for whoever reads everything in the end."""
    if facts.final_reader is None:
        return
    there: set[Value] = set()
    for poll in facts.polls:
        if poll.consumer == facts.final_reader:
            there.update(value for _, value in poll.records)
    for poll in facts.polls:
        for offset, value in poll.records:
            if value not in there:
                there.add(value)  # one finding is enough
                detail = f"{poll.consumer} read {value!r} at {offset}, which is not there any more"
                yield Finding(Anomaly.VANISHED, facts.partition, detail)


def _stale_reads(facts: _Facts) -> Iterable[Finding]:
    """Nobody may be told that the log ends before what was acknowledged before it was asked."""
    acked = sorted(
        (send.end_ns, send.offset)
        for send in facts.sends
        if send.outcome is Outcome.ACKED and send.offset is not None and send.end_ns is not None
    )
    highest = list(itertools.accumulate((offset for _, offset in acked), max))
    for poll in facts.polls:
        if poll.end_offset is None:
            continue
        known = bisect.bisect_left(acked, (poll.start_ns - facts.stale_ns_max, -1))
        if known and highest[known - 1] >= poll.end_offset:
            detail = f"{poll.consumer}: told {poll.end_offset} with {highest[known - 1]} in the log"
            yield Finding(Anomaly.STALE_READ, facts.partition, detail)


_CHECKS: tuple[Callable[[_Facts], Iterable[Finding]], ...] = (
    _inconsistent_offsets,
    _duplicates,
    _lost,
    _never_written,
    _producer_order,
    _realtime_order,
    _consumer_order,
    _vanished,
    _stale_reads,
)
