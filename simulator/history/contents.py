"""Checks of the log's contents: no lost, duplicate, unsent or changed records.

Source: `inconsistent-offsets`, `duplicate`, `lost-write`, `unseen` and the aborted read (G1a) are
those of the Jepsen Kafka workload (jepsen-io/jepsen, tests/kafka.clj); the others are our own.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable

from simulator.history.events import Outcome, Poll, Send, Value
from simulator.history.facts import Facts
from simulator.history.report import Anomaly, Finding


def inconsistent_offsets(facts: Facts) -> Iterable[Finding]:
    """Two values were seen at one offset."""
    for offset, values in sorted(facts.clashes.items()):
        detail = f"offset {offset} holds {values!r}"
        yield Finding(Anomaly.INCONSISTENT_OFFSETS, facts.partition, detail)


def duplicates(facts: Facts) -> Iterable[Finding]:
    """One value is at two offsets."""
    for value, offsets in facts.moved.items():
        detail = f"{value!r} stands at {sorted(offsets)}"
        yield Finding(Anomaly.DUPLICATE, facts.partition, detail)


def lost(facts: Facts) -> Iterable[Finding]:
    """An acknowledged value could not be read, though it is not below the log start."""
    for send in facts.sends:
        if send.value in facts.read or send.outcome is not Outcome.ACKED:
            continue
        if send.offset is not None and send.offset < facts.start_offset:
            continue
        is_passed = send.offset is not None and send.offset <= facts.highest_read
        anomaly = Anomaly.LOST_WRITE if is_passed else Anomaly.UNSEEN
        yield Finding(anomaly, facts.partition, f"{send.value!r} acknowledged at {send.offset}")


def never_written(facts: Facts) -> Iterable[Finding]:
    """A value was read that was not sent, or whose send had failed."""
    unknown = set(facts.read)
    for send in facts.sends:
        unknown.discard(send.value)
        if send.outcome is Outcome.FAILED and send.value in facts.read:
            detail = f"{send.value!r} had failed"
            yield Finding(Anomaly.ABORTED_READ, facts.partition, detail)
    for value in sorted(unknown, key=repr):
        yield Finding(Anomaly.PHANTOM, facts.partition, f"{value!r} was never sent")


def vanished(facts: Facts) -> Iterable[Finding]:
    """A value that was read is missing in the final read of the whole log."""
    if facts.rules.final_reader is None:
        return
    there: set[Value] = set()
    for poll in _final_polls(facts):
        there.update([value for _, value in poll.records])
    if there.issuperset(facts.read):
        return
    for poll in facts.polls:
        for offset, value in poll.records:
            if value not in there and offset >= facts.start_offset:
                there.add(value)  # one finding is enough
                detail = f"{poll.consumer} read {value!r} at {offset}, which is not there any more"
                yield Finding(Anomaly.VANISHED, facts.partition, detail)


def retention(facts: Facts) -> Iterable[Finding]:
    """The final reader finds everything from the offset on at which the log says that it starts."""
    told = [
        final_poll.start_offset
        for final_poll in _final_polls(facts)
        if final_poll.start_offset is not None
    ]
    offsets = [offset for poll in _final_polls(facts) for offset, _ in poll.records]
    if not told or not offsets:
        return
    first = min(offsets)
    gone = sorted(offset for offset in facts.value_at if max(told) <= offset < first)
    if gone:
        detail = f"the log starts at {max(told)}, and offset {gone[0]} can not be read any more"
        yield Finding(Anomaly.RETENTION, facts.partition, detail)


def torn_batches(facts: Facts) -> Iterable[Finding]:
    """Records that were written as one stand beside each other, all of them or none."""
    batches: dict[tuple[str, Value], list[Send]] = defaultdict(list)
    for send in facts.sends:
        if send.batch is not None:
            batches[send.producer, send.batch].append(send)
    for (producer, name), batch in batches.items():
        places = [facts.offset_of.get(send.value) for send in batch]
        if (at := _torn_at(facts, places)) is not None:
            detail = f"{producer}: batch {name!r} lacks {batch[at].value!r}; it stands at {places}"
            yield Finding(Anomaly.TORN_BATCH, facts.partition, detail)


def _torn_at(facts: Facts, places: list[int | None]) -> int | None:
    """Return which record of a batch is not where the others say that it should be."""
    base = next((place - at for at, place in enumerate(places) if place is not None), None)
    if base is None:
        return None
    for at, place in enumerate(places):
        is_out_of_sight = not facts.start_offset <= base + at <= facts.highest_read
        if place is None and is_out_of_sight and facts.rules.final_reader is None:
            continue
        if place is None and base + at < facts.start_offset:
            continue
        if place != base + at:
            return at
    return None


def mismatches(facts: Facts) -> Iterable[Finding]:
    """A record was read with another timestamp or other bytes than it was sent with."""
    sent = {send.value: send.content for send in facts.sends if send.content is not None}
    if not sent:
        return
    for poll in facts.polls:
        for (offset, value), content in zip(poll.records, poll.contents, strict=False):
            if (wanted := sent.get(value)) is not None and wanted != content:
                detail = f"{value!r} at {offset}: sent {wanted!r}, {poll.consumer} read {content!r}"
                yield Finding(Anomaly.MISMATCH, facts.partition, detail)


def zombie_writes(facts: Facts) -> Iterable[Finding]:
    """Above the first record of a producer's newer epoch there is none of an older one.

    By offset: a partition fences an epoch when it hears of the newer one, not at some moment.
    """
    written: dict[str, list[tuple[int, int, Value]]] = defaultdict(list)
    for send in facts.sends:
        offset = facts.offset_of.get(send.value)
        if send.producer_epoch is not None and offset is not None:
            written[send.producer].append((offset, send.producer_epoch, send.value))
    for producer, records in written.items():
        records.sort(key=lambda one: one[0])
        newest = itertools.accumulate((record[1] for record in records), max)
        for (offset, epoch, value), fence in zip(records, newest, strict=True):
            if epoch < fence:
                detail = f"{producer}: {value!r} of epoch {epoch} at {offset}, after epoch {fence}"
                yield Finding(Anomaly.ZOMBIE_WRITE, facts.partition, detail)


def _final_polls(facts: Facts) -> Iterable[Poll]:
    return (poll for poll in facts.polls if poll.consumer == facts.rules.final_reader)
