"""Steps of an index of which a second one may fail, come late, or find another log."""

import pytest

from penstock.broker.finding import key_index, search
from penstock.broker.finding.indexing import Indexing
from penstock.broker.finding.key_index import KeyIndex
from penstock.remoting.finding.naming import NAMING
from tests.broker.indexed_cluster import BYTES_MAX, Indexed, all_found, fill, names


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are tables after a few hundred bytes of log."""
    monkeypatch.setattr(key_index, "SPAN_BYTES", 600)
    monkeypatch.setattr(key_index, "RUN_BYTES", 200)


def table_files(indexed: Indexed, node: int = 0) -> set[str]:
    listed = indexed.cluster.nodes[node].disk.list("set-0/keys")
    return {one for one in listed if one.endswith(".keys")}


def overtaken(indexed: Indexed, count: int = 12) -> None:
    """What node 0 alone has is cut off, and node 1 writes other messages there."""
    indexed.cluster.lead(1)
    indexed.cluster.align()
    for number in range(count):
        indexed.put(f"won-{number}", node=1, size=60)
    indexed.cluster.replicate()


def alone(indexed: Indexed, count: int = 12) -> None:
    indexed.cluster.lead(0, members=(0,))
    for number in range(count):
        indexed.put(f"lost-{number}", size=60)


def test_tables_that_have_all_are_told_to_who_waits_for_a_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_index, "SPAN_BYTES", 1)  # each run is a table
    indexed = Indexed()
    fill(indexed, names(5))
    position = indexed.index().tables[-1].end
    indexed.restart()
    index, told = indexed.index(), list[bool]()
    index.when_reached(position, 1 << 62, lambda: told.append(True))
    assert not told, "the tables were not read yet"
    assert index.begin(lambda: None)
    indexed.cluster.world.run()
    assert told == [True]
    assert not index.has_waiters


def test_nothing_is_reached_in_a_log_that_was_cut_and_is_not_looked_at_yet() -> None:
    indexed = Indexed()
    fill(indexed, names(4))
    alone(indexed)
    indexed.settle()
    index, told = indexed.index(), list[bool]()
    overtaken(indexed, 4)
    position = index.member.confirm_position
    assert index.newest is not None
    assert position < index.newest.end, "of what was cut off"
    index.when_reached(position, 1 << 62, lambda: told.append(True))
    assert not told
    assert index.lacks(position) == position - index.member.log.start_position
    indexed.settle()
    assert told == [True]
    assert index.lacks(position) == 0
    assert indexed.found("won-3") == [(0, 7)]


@pytest.mark.usefixtures("small")
def test_tables_that_were_cut_off_leave_the_disk() -> None:
    indexed = Indexed()
    fill(indexed, names(4))
    alone(indexed)
    indexed.settle()
    before = table_files(indexed)
    overtaken(indexed)
    indexed.settle()
    kept = {table.name for table in indexed.index().tables}
    assert before - kept, "some were of what was cut off"
    assert table_files(indexed) == kept


@pytest.mark.usefixtures("small")
def test_tables_that_were_cut_off_before_a_start_leave_the_disk() -> None:
    indexed = Indexed()
    fill(indexed, names(4))
    alone(indexed)
    indexed.settle()
    before = table_files(indexed)
    indexing = indexed.indexings.pop(0)
    indexed.cluster.nodes[0].broker.on_expire.remove(indexing._expire)
    overtaken(indexed)
    indexed.indexings[0] = Indexing(indexed.cluster.nodes[0].broker, NAMING, BYTES_MAX)
    indexed.settle()
    kept = {table.name for table in indexed.index().tables}
    assert before - kept, "some were of what was cut off"
    assert table_files(indexed) == kept
    assert [indexed.found(f"won-{one}") for one in range(12)] == [
        [(0, 4 + one)] for one in range(12)
    ]


def test_an_older_piece_of_what_was_cut_off_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The newest piece, of which nothing is read, knows of no epoch that has changed."""
    monkeypatch.setattr(key_index, "SPAN_BYTES", 600)
    monkeypatch.setattr(key_index, "RUN_BYTES", 200)
    indexed = Indexed()
    indexing = indexed.indexings.pop(0)
    indexed.cluster.nodes[0].broker.on_expire.remove(indexing._expire)
    fill(indexed, names(4))
    alone(indexed)
    indexed.indexings[0] = Indexing(indexed.cluster.nodes[0].broker, NAMING, BYTES_MAX)
    index = indexed.index()
    step(indexed, index)
    monkeypatch.setattr(key_index, "SPAN_BYTES", 1 << 30)  # nothing is sealed
    cut_at = indexed.cluster.nodes[1].member.log.end_position
    while index.older is None or index.older.end < cut_at + 400:
        step(indexed, index)
    assert index.newest is not None
    assert (index.newest.count, index.newest.epoch) == (0, -1)
    overtaken(indexed, 14)
    assert index.newest.end < index.member.log.end_position
    indexed.settle()
    assert [indexed.found(f"won-{one}") for one in range(14)] == [
        [(0, 4 + one)] for one in range(14)
    ]


def step(indexed: Indexed, index: KeyIndex) -> None:
    assert index.begin(lambda: None)
    indexed.cluster.world.run()


@pytest.mark.parametrize("span_bytes", [600, 1 << 30], ids=["tables", "one piece"])
def test_of_a_key_that_all_messages_have_the_newest_places_are_found(
    monkeypatch: pytest.MonkeyPatch, span_bytes: int
) -> None:
    monkeypatch.setattr(key_index, "SPAN_BYTES", span_bytes)
    monkeypatch.setattr(key_index, "RUN_BYTES", 200)
    monkeypatch.setattr(search, "PLACES_MAX", 30)
    indexed = Indexed()
    fill(indexed, ["same"] * 80)
    assert indexed.found("same") == [(0, offset) for offset in range(79, 49, -1)]


@pytest.mark.usefixtures("small")
def test_a_table_that_can_not_be_read_just_now_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    indexed = Indexed()
    fill(indexed, names(20))
    index, disk = indexed.index(), indexed.cluster.nodes[0].disk
    before, opened = list(index.tables), disk.open

    def refuse(path: str) -> object:
        if path.endswith(".keys"):
            raise OSError(24, "too many open files")
        return opened(path)

    monkeypatch.setattr(disk, "open", refuse)
    indexed.cluster.world.advance(key_index.RETENTION_MS)
    indexed.settle()
    monkeypatch.setattr(disk, "open", opened)
    assert index.tables == before
    assert index.damaged == 0
    indexed.settle()
    assert all_found(indexed, 20)


@pytest.mark.usefixtures("small")
def test_an_index_waits_until_what_does_not_count_is_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a late removal might take a table that was written meanwhile."""
    indexed = Indexed()
    fill(indexed, names(4))
    alone(indexed)
    indexed.settle()
    index, disk = indexed.index(), indexed.cluster.nodes[0].disk
    overtaken(indexed)
    removed, remove = list[str](), disk.remove

    def fail(path: str) -> None:
        removed.append(path)
        raise OSError(5, "no")

    monkeypatch.setattr(disk, "remove", fail)
    assert index.begin(lambda: None)
    assert not index.begin(lambda: None), "one step at a time"
    indexed.cluster.world.run()
    assert removed
    assert not index.begin(lambda: None), "it pauses"
    monkeypatch.setattr(disk, "remove", remove)
    indexed.cluster.world.advance(key_index.PAUSE_MS)
    indexed.settle()
    assert index.behind_bytes == 0


def test_places_are_searched_for_while_a_waiter_is_told() -> None:
    """Who waits again when told, or when the time is over, is not forgotten."""
    indexed = Indexed(1)
    index, told = indexed.index(), list[str]()

    def again() -> None:
        told.append("first")
        index.when_reached(1 << 60, 1 << 62, lambda: told.append("second"))

    index.when_reached(1 << 60, 5, again)
    index.expire(4)
    assert told == []
    index.expire(5)
    assert told == ["first"]
    assert index.has_waiters
    indexed.settle()
    indexed.put("a")
    index.when_reached(index.member.confirm_position, 1 << 62, again)
    indexed.settle()
    assert told == ["first", "first"]
    index.close()
    assert told == ["first", "first", "second", "second"]
