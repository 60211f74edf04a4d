"""Whatever was produced and lost: the records that come back are those that count, each once."""

from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.archive import lost_cluster
from penstock.archive.errors import NotInStore
from penstock.archive.lost_cluster import Lost, StoreSource, look_through
from penstock.extents.layout import Aborted
from penstock.spark.ranges import OffsetRange
from penstock.spark.tier.store import call
from simulator.kernel.object_store import Bucket, ModelledStore
from tests.extents.files import CLUSTER, Part, batch, key
from tests.tier.objects import name, put
from tests.tier.test_settled import data, marker

ONE = key(1, 0)
TOPIC = UUID(bytes=ONE.topic_id)
NO_PRODUCER = -1


class Item(NamedTuple):
    """One batch of a log; its offset is its place."""

    producer_id: int
    is_marker: bool = False
    is_commit: bool = False


class Transaction(NamedTuple):
    """Of a log: where it begins, and where its marker is; None: it is open."""

    producer_id: int
    first: int
    marker: int | None
    is_commit: bool


ITEMS = st.one_of(
    st.just(Item(NO_PRODUCER)),
    st.builds(Item, st.integers(7, 9)),
    st.builds(Item, st.integers(7, 9), st.just(value=True), st.booleans()),
)


def transactions_of(items: list[Item]) -> list[Transaction]:
    found: list[Transaction] = []
    begun: dict[int, int] = {}
    for offset, item in enumerate(items):
        if item.is_marker:
            if item.producer_id in begun:
                first = begun.pop(item.producer_id)
                found.append(Transaction(item.producer_id, first, offset, item.is_commit))
        elif item.producer_id != NO_PRODUCER:
            begun.setdefault(item.producer_id, offset)
    return found + [Transaction(one, first, None, False) for one, first in begun.items()]


def bytes_of(offset: int, item: Item) -> bytes:
    if item.is_marker:
        return marker(offset, item.producer_id, is_commit=item.is_commit)
    return batch(offset) if item.producer_id == NO_PRODUCER else data(offset, item.producer_id)


def part_of(items: list[Item], first: int, end: int, *, knows: bool) -> Part:
    """Return what an object of these offsets has; `knows`: up to where all was decided then."""
    every = transactions_of(items[:end])
    aborted = [
        one for one in every if one.marker is not None and first <= one.marker and not one.is_commit
    ]
    rows = [(one.producer_id, one.first, one.marker or 0, 0) for one in aborted]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    decided = min((one.first for one in every if one.marker is None), default=end)
    own = [bytes_of(offset, items[offset]) for offset in range(first, end)]
    return Part(ONE, own, Aborted(*columns), decided if knows else -1)


def expected(items: list[Item], first: int, end: int) -> tuple[int, list[int]]:
    """Return up to where a piece is decided within itself, and which of its records count."""
    opened: dict[int, int] = {}
    for offset in range(first, end):
        item = items[offset]
        if item.is_marker:
            opened.pop(item.producer_id, None)
        elif item.producer_id != NO_PRODUCER:
            opened.setdefault(item.producer_id, offset)
    decided = min(opened.values(), default=end)
    gone = {
        offset
        for one in transactions_of(items)
        if one.marker is not None and not one.is_commit
        for offset in range(one.first, one.marker)
        if items[offset].producer_id == one.producer_id
    }
    counting = [at for at in range(first, decided) if not items[at].is_marker and at not in gone]
    return decided, counting


@settings(deadline=None, max_examples=120)
@given(
    items=st.lists(ITEMS, min_size=1, max_size=16),
    ends=st.sets(st.integers(1, 15), max_size=6),
    lost=st.sets(st.integers(0, 6), max_size=2),
    knowing=st.sets(st.integers(0, 6)),
)
def test_records_that_come_back_are_those_that_count(
    items: list[Item], ends: set[int], lost: set[int], knowing: set[int]
) -> None:
    bounds = [0, *sorted(end for end in ends if end < len(items)), len(items)]
    spans = [one for at, one in enumerate(pairwise(bounds)) if at not in lost]
    bucket = Bucket()
    pieces: list[tuple[int, int]] = []
    for at, (first, end) in enumerate(spans):
        put(bucket, name(1 + at), [part_of(items, first, end, knows=at in knowing)])
        if pieces and pieces[-1][1] == first:
            pieces[-1] = pieces[-1][0], end
        else:
            pieces.append((first, end))
    if not pieces:
        return
    store = ModelledStore(bucket)
    source = StoreSource(store, call(look_through(store, None)), TOPIC)
    told = {piece: expected(items, *piece) for piece in pieces}
    assert source.spans() == {0: [(first, told[first, end][0]) for first, end in pieces]}
    assert source.undecided() == sum(end - decided for (_, end), (decided, _) in told.items())
    for (first, _), (decided, counting) in told.items():
        for start in {first, (first + decided) // 2}:
            if start < decided:
                wanted = OffsetRange("t", 0, start, decided)
                rows = source.rows(wanted, None)
                found = [at for one in rows for at in one.column("offset").to_pylist()]
                assert found == [at for at in counting if at >= start]


# Which cluster, and which topic


@pytest.mark.parametrize("count", [1, 2, 3])
def test_all_clusters_of_a_store_are_told_whatever_page_they_are_on(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    bucket = Bucket()
    for number in range(count):
        of = name(1)._replace(cluster_id=bytes([number] * 16))
        put(bucket, of, [Part(ONE, [batch(0)])])
    store = ModelledStore(bucket)
    pages = store.pages

    async def one_by_one(prefix: str):
        async for page in pages(prefix):
            for stat in page:
                yield [stat]

    monkeypatch.setattr(store, "pages", one_by_one)
    if count == 1:
        assert call(look_through(store, None)).cluster_id == bytes(16)
    else:
        with pytest.raises(NotInStore, match=f"objects of {count} clusters"):
            call(look_through(store, None))
        assert call(look_through(store, UUID(bytes=bytes([1] * 16)))).cluster_id == bytes([1] * 16)


@pytest.mark.parametrize("count", [19, 20, 21, 22])
def test_a_message_lists_so_many_ids_and_says_how_many_more_there_are(count: int) -> None:
    bucket = Bucket()
    runs = put(bucket, name(1), [Part(ONE, [batch(0)])])
    lost = Lost(CLUSTER, {key(topic, 0): runs for topic in range(2, 2 + count)})
    lost.runs[key(100, 0)] = []
    with pytest.raises(NotInStore) as refused:
        StoreSource(ModelledStore(bucket), lost, TOPIC)
    text = str(refused.value)
    more = max(count - lost_cluster.NAMED_MAX, 0)
    assert text.count("-0000-0000-") == min(count, lost_cluster.NAMED_MAX) + 1, "and the one asked"
    assert (f"and {more} more" in text) is bool(more)
    assert str(UUID(bytes=key(100, 0).topic_id)) not in text, "it has no records"
