"""Compares what lies in a store with what the metadata knows: what is too much, what is missing.

An object has a row before it is put, and its row goes after its last delete. So an object of a list
that has no row in the metadata as it is after the list was made is an orphan, if it is still there.
One that is live before and after, and is not there, is lost.

Source: docs/adr/0117. Kafka had to be given such a comparison from outside (KAFKA-16511).
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import NamedTuple

from penstock.tier.copies.transfer import size_of
from penstock.tier.metadata.objects import ObjectRow, State
from penstock.tier.names import ObjectName, parse_name, prefix_of
from penstock.tier.port import ObjectStore, Stat

Rows = Callable[[], Awaitable[Mapping[ObjectName, ObjectRow]]]
"""Asks the metadata of all sets for its rows, after everything that was answered before."""


class Differences(NamedTuple):
    """What does not agree."""

    orphans: dict[ObjectName, Stat]
    """Objects that no row names; whether they may go is another question (repair.py)."""
    strangers: list[str]
    """Names that are none of ours: left alone."""
    lost: list[ObjectName]
    """Live objects that are not in the store."""
    wrong_size: list[ObjectName]
    """Live objects that are longer or shorter than they were."""


async def scrub(store: ObjectStore, cluster_id: bytes, rows: Rows) -> Differences:
    """Return how store and metadata differ; changes nothing. Raises StoreError."""
    before = await rows()
    stats: dict[str, Stat] = {}
    async for page in store.pages(prefix_of(cluster_id)):
        stats.update({stat.name: stat for stat in page})
    after = await rows()
    found = Differences({}, [], [], [])
    for text, stat in stats.items():
        name = parse_name(text)
        if name is None or name.cluster_id != cluster_id:
            found.strangers.append(text)
        elif name not in after and await size_of(store, name) is not None:
            found.orphans[name] = stat
    for row in _live_in_both(before, after):
        listed = stats.get(str(row.name))
        size = None if listed is None else listed.size_bytes
        if size is None:
            size = await size_of(store, row.name)  # it may have come while the list was made
        if size is None:
            found.lost.append(row.name)
        elif size != row.object_bytes:
            found.wrong_size.append(row.name)
    return found


def _live_in_both(
    before: Mapping[ObjectName, ObjectRow], after: Mapping[ObjectName, ObjectRow]
) -> Iterator[ObjectRow]:
    for name, row in before.items():
        later = after.get(name)
        if row.state is State.LIVE and later is not None and later.state is State.LIVE:
            yield row
