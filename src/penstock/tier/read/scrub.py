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
from penstock.tier.port import ObjectStore

Rows = Callable[[], Awaitable[Mapping[int, ObjectRow]]]
"""Asks the metadata for its rows, after everything that was answered before."""


class Differences(NamedTuple):
    """What does not agree."""

    orphans: list[ObjectName]
    """Objects that no row names: the metadata is to adopt them, which deletes them."""
    strangers: list[str]
    """Names that are none of ours: left alone."""
    lost: list[ObjectName]
    """Live objects that are not in the store."""
    wrong_size: list[ObjectName]
    """Live objects that are longer or shorter than they were."""


async def scrub(store: ObjectStore, cluster_id: bytes, rows: Rows) -> Differences:
    """Return how store and metadata differ; changes nothing. Raises StoreError."""
    before = await rows()
    sizes = {}
    async for page in store.pages(prefix_of(cluster_id)):
        sizes.update({stat.name: stat.size_bytes for stat in page})
    after = await rows()
    found = Differences([], [], [], [])
    for text in sizes:
        name = parse_name(text)
        if name is None or name.cluster_id != cluster_id:
            found.strangers.append(text)
        elif not _is_known(name, after) and await size_of(store, name) is not None:
            found.orphans.append(name)
    for row in _live_in_both(before, after):
        size = sizes.get(str(row.name))
        if size is None:
            size = await size_of(store, row.name)  # it may have come while the list was made
        if size is None:
            found.lost.append(row.name)
        elif size != row.object_bytes:
            found.wrong_size.append(row.name)
    return found


def _is_known(name: ObjectName, rows: Mapping[int, ObjectRow]) -> bool:
    row = rows.get(name.object_id)
    return row is not None and row.name == name


def _live_in_both(
    before: Mapping[int, ObjectRow], after: Mapping[int, ObjectRow]
) -> Iterator[ObjectRow]:
    for object_id, row in before.items():
        later = after.get(object_id)
        if row.state is State.LIVE and later is not None and later.state is State.LIVE:
            yield row
