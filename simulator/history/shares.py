"""The judge of share groups: what was handed out, how it was settled, and what may not be.

    accepted, rejected   never handed out again to a request that was sent after the answer, but by
                         a broker that does not know yet that it stood still (ADR 0026)
    handed out           only what was written, and not more often than the limit says
    aborted              never handed out by a group that reads what is committed
    in the end           every record was accepted or rejected, or handed out up to the limit

Nothing is said of order: there is none. Two members may both be told that they have accepted a
record: one whose lock is over may speak of what is done already, which is success, as in Kafka. A
request without an answer may have settled a record or not, and may have handed out any; such
hand-outs count in the records' favour only as far as they can have used the limit up.

Source: KIP-932, "In-flight records" and "Acknowledgements".
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from simulator.history.events import Rules

FINDINGS_MAX = 3
"""Of a kind."""


class Kind(IntEnum):
    """What a member says of a record; the numbers are those of the wire."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


FINAL = (Kind.ACCEPT, Kind.REJECT)
Place = tuple[int, int]
"""Partition, offset."""


class Handed(NamedTuple):
    """A record in an answer. Times are those of the request and of its answer."""

    member: str
    place: Place
    value: str
    deliveries: int
    """The how manieth hand-out it is, from 1."""
    asked_ns: int
    told_ns: int
    told_by: str = ""
    """The host that has handed it out."""


class Settled(NamedTuple):
    """A word of a member on a record."""

    member: str
    place: Place
    kind: Kind
    asked_ns: int
    told_ns: int | None
    """None: there was no answer, and it may have counted."""
    is_taken: bool = False
    """Whether the answer was that of success."""
    leader: int = -1
    """Who was asked."""


class LostAnswer(NamedTuple):
    """A request for records that was never answered, or not read: it may have handed some out."""

    partition: int
    asked_ns: int
    member: str = ""


@dataclass(slots=True)
class ShareNotes:
    """What the members of one group have seen."""

    handed: list[Handed] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    lost: list[LostAnswer] = field(default_factory=list)
    topic_id: UUID | None = None
    """Of the topic that they share."""

    def over(self) -> set[Place]:
        """Return the records that were accepted or rejected, or may have been."""
        return {
            one.place
            for one in self.settled
            if one.kind in FINAL and (one.is_taken or one.told_ns is None)
        }


def judge_shares(
    notes: ShareNotes,
    written: Mapping[Place, str],
    rules: Rules,
    aborted: Collection[str] = (),
) -> list[str]:
    """Return what members were told and must not be.

    `written` is what producers know of; `aborted` are values of transactions that were aborted,
    where the group reads only what is committed.
    """
    found = (
        [*_come_again(notes, rules)],
        [*_never_written(notes, written)],
        [*_aborted(notes, aborted)],
    )
    return [text for some in found for text in some[:FINDINGS_MAX]]


def left_over(notes: ShareNotes, written: Mapping[Place, str], deliveries_max: int) -> list[str]:
    """Return the written records that are not over, in order; empty in the end.

    `deliveries_max` is how often a record is handed out before it is given up.
    """
    over = notes.over()
    handed: dict[Place, Handed] = {}
    for one in notes.handed:
        if one.place not in handed or handed[one.place].deliveries <= one.deliveries:
            handed[one.place] = one
    lost: dict[int, list[int]] = defaultdict(list)
    for each in notes.lost:
        lost[each.partition].append(each.asked_ns)
    found: list[str] = []
    for place in sorted(written):
        if place in over:
            continue
        last = handed.get(place)
        count, since_ns = (last.deliveries, last.asked_ns) if last is not None else (0, 0)
        unseen = sum(at > since_ns for at in lost[place[0]])
        if count + unseen < deliveries_max:
            partition, offset = place
            found.append(
                f"{offset} of partition {partition} was handed out {count} times, not over"
            )
    return found


def _come_again(notes: ShareNotes, rules: Rules) -> Iterator[str]:
    over_ns: dict[Place, Settled] = {}
    for one in notes.settled:
        if one.kind in FINAL and one.is_taken and one.told_ns is not None:
            before = over_ns.get(one.place)
            if before is None or before.told_ns is None or one.told_ns < before.told_ns:
                over_ns[one.place] = one
    for handed in notes.handed:
        first = over_ns.get(handed.place)
        if rules.may_be_old(handed.told_by, handed.asked_ns, handed.told_ns):
            continue
        if first is not None and first.told_ns is not None and handed.asked_ns > first.told_ns:
            partition, offset = handed.place
            yield (
                f"{offset} of partition {partition} comes again to {handed.member}:"
                f" {first.member} was told {first.kind.name} before"
            )


def _never_written(notes: ShareNotes, written: Mapping[Place, str]) -> Iterator[str]:
    for one in notes.handed:
        partition, offset = one.place
        if written.get(one.place, one.value) != one.value:
            yield (
                f"{offset} of partition {partition} is handed out as {one.value},"
                f" and {written[one.place]} was written"
            )


def _aborted(notes: ShareNotes, aborted: Collection[str]) -> Iterator[str]:
    for one in notes.handed:
        if one.value in aborted:
            partition, offset = one.place
            yield (
                f"{offset} of partition {partition} is handed out to {one.member}:"
                f" {one.value} was aborted"
            )
