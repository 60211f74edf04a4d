"""What of a store belongs to nobody, and whether it may be deleted; what is missing there.

    no row                the book of its set   ─┐
    its mastership over   tenure, next id       ─┤
    old enough            the store's clock     ─┼─► may go
    copied elsewhere      runs, or no topic     ─┘

An object has a row from before it is put until its last delete, so one without may come from a
sweep that a late put followed, or from metadata that was lost. In the second case it may be the
only copy of what it has: so it goes only if the tier has these offsets elsewhere, or has had them,
or if their topic is gone. Nobody can give a row to its name any more: ids are not used again within
an epoch, and a mastership of an older epoch is fenced.

Source: docs/adr/0131; Redpanda's anomalies of a scrub, Kafka's KAFKA-16511.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from penstock.base.ids import TopicId
from penstock.tier.errors import LyingObject, ObjectNotFound
from penstock.tier.metadata.objects import ObjectRow
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.names import ObjectName, is_probe, probes_of
from penstock.tier.port import DELETE_NAMES_MAX, ObjectStore, Stat
from penstock.tier.read.describe import describe_object
from penstock.tier.read.scrub import scrub

Book = Mapping[int, TierMetadata]
"""The metadata of each replica set, by its id."""
RANGES_TOLD = 3
"""Of a lost object."""


class Kind(StrEnum):
    """What is wrong with a name."""

    ORPHAN = "orphan"
    PROBE = "probe"
    STRANGER = "stranger"
    LOST = "lost"
    WRONG_SIZE = "wrong size"


class Finding(NamedTuple):
    """One name, and what is to be known of it."""

    kind: Kind
    name: str
    size_bytes: int | None
    age_ms: int | None
    """By the store's clock."""
    text: str
    may_go: bool = False


class Judge(NamedTuple):
    """By what it is decided whether something may go."""

    is_gone: Callable[[TopicId], bool]
    """Whether a topic was deleted; False where that is not certain."""
    now_ms: int
    """By the store's clock."""
    grace_ms: int
    """Longer than any upload, and whatever of it may still be under way."""


async def examine(
    store: ObjectStore, cluster_id: bytes, books: Callable[[], Awaitable[Book]], judge: Judge
) -> list[Finding]:
    """Return all that store and metadata do not agree in; changes nothing. Raises StoreError.

    `books` reads the metadata anew; a set that it lacks is not judged.
    """
    newest: Book = {}

    async def rows() -> Mapping[ObjectName, ObjectRow]:
        nonlocal newest
        newest = await books()
        return {
            row.name: row for book in newest.values() for row in list(book.objects.rows.values())
        }

    found = await scrub(store, cluster_id, rows)
    findings = [
        await _orphan(store, name, stat, newest.get(name.replica_set_id), judge)
        for name, stat in sorted(found.orphans.items())
    ]
    findings += await _probes(store, cluster_id, judge)
    findings += [
        Finding(Kind.STRANGER, name, None, None, "is no name of ours: left alone")
        for name in found.strangers
    ]
    findings += [_missing(Kind.LOST, name, newest) for name in found.lost]
    findings += [_missing(Kind.WRONG_SIZE, name, newest) for name in found.wrong_size]
    return findings


async def delete(store: ObjectStore, findings: Sequence[Finding]) -> int:
    """Delete what may go; return how many objects that were. Raises StoreError."""
    names = [one.name for one in findings if one.may_go]
    for at in range(0, len(names), DELETE_NAMES_MAX):
        await store.delete(names[at : at + DELETE_NAMES_MAX])
    return len(names)


async def store_clock(store: ObjectStore, name: str) -> int:
    """Return the time of the store, ms, by a probe of that name. Raises StoreError."""
    await store.put(name, [b"clock"])
    told = (await store.look(name)).modified_ms
    await store.delete([name])
    return told


async def _orphan(
    store: ObjectStore, name: ObjectName, stat: Stat, book: TierMetadata | None, judge: Judge
) -> Finding:
    age_ms = judge.now_ms - stat.modified_ms
    reason = _reason_of_book(name, book)
    if reason is None and age_ms < judge.grace_ms:
        reason = "is younger than the grace: left alone"
    if reason is None:
        assert book is not None
        reason = await _reason_of_content(store, name, book, judge.is_gone)
    text = "nobody needs it" if reason is None else reason
    return Finding(Kind.ORPHAN, str(name), stat.size_bytes, age_ms, text, reason is None)


def _reason_of_book(name: ObjectName, book: TierMetadata | None) -> str | None:
    """Return why a mastership may still come to name an object; None: none can."""
    held = None if book is None else book.tenures.get(name.replica_set_id)
    if book is None or held is None:
        return f"nothing is known of replica set {name.replica_set_id}: left alone"
    newest = held.tenure.leader_epoch
    is_over = name.leader_epoch < newest
    was_given = name.leader_epoch == newest and name.object_id < book.objects.next_id
    return None if is_over or was_given else "its mastership may be at work: left alone"


async def _reason_of_content(
    store: ObjectStore, name: ObjectName, book: TierMetadata, is_gone: Callable[[TopicId], bool]
) -> str | None:
    """Return why an object may be the only one that has something; None: it is not."""
    try:
        described = await describe_object(store, str(name))
    except LyingObject as error:
        return f"nobody can say what it has: damaged at byte {error.at}: {error.reason}"
    except ObjectNotFound:
        return "it went just now"
    for entry in described.directory.entries:
        key = entry.topic_partition
        if entry.end_offset > book.manifest(key).end_offset and not is_gone(key.topic_id):
            return (
                f"the tier has offsets {entry.first_offset} to {entry.end_offset - 1} of partition"
                f" {key.partition} of topic {key.topic_id.hex()} nowhere else: left alone"
            )
    return None


async def _probes(store: ObjectStore, cluster_id: bytes, judge: Judge) -> list[Finding]:
    found: list[Finding] = []
    async for page in store.pages(probes_of(cluster_id)):
        for stat in page:
            age_ms = judge.now_ms - stat.modified_ms
            may_go = age_ms >= judge.grace_ms and is_probe(stat.name)
            text = "a node had tried the store" if may_go else "is in use, or no probe: left alone"
            found.append(Finding(Kind.PROBE, stat.name, stat.size_bytes, age_ms, text, may_go))
    return found


def _missing(kind: Kind, name: ObjectName, newest: Book) -> Finding:
    """Tell which offsets only a missing object had."""
    book = newest[name.replica_set_id]
    runs = [run for key in book.partitions() for run in book.manifest(key).runs if run.name == name]
    told = [
        f"offsets {run.first_offset} to {run.end_offset - 1} of partition"
        f" {run.entry.partition} of topic {run.entry.topic_id.hex()}"
        for run in runs[:RANGES_TOLD]
    ]
    more = f" and {len(runs) - RANGES_TOLD} more" if len(runs) > RANGES_TOLD else ""
    size = book.objects.rows[name.object_id].object_bytes
    return Finding(kind, str(name), size, None, f"should have {', '.join(told)}{more}")
