"""A search tells the places of a name in the order of the log, each once, wherever they are."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.log_world import World
from penstock.base.ids import TopicPartition
from penstock.broker.finding import search
from penstock.broker.finding.files import IndexFiles, Opened
from penstock.broker.finding.search import Times, find_places, wait_until_indexed
from penstock.finding.piece import Gathered, Piece, Place, hash_of
from tests.broker.bounded_index import DIRECTORY, TOPIC, Bounded, Log, piece, stored

ALWAYS = Times(0, 1 << 62)
NAME = hash_of(TOPIC, b"name")
PART = 100
"""Positions of each part of an index."""


def part_of(at: int, count: int, first_ms: int = 0, last_ms: int = 0) -> Piece:
    """Return a piece with so many messages of the name."""
    made = Piece(at * PART, 3)
    gathered = Gathered(made)
    for number in range(count):
        gathered.add(TopicPartition(TOPIC, 0), at * PART + number, [b"name"])
    gathered.saw(first_ms)
    gathered.saw(last_ms)
    made.add(gathered, (at + 1) * PART, 3)
    return made


def searched(bounded: Bounded, most: int, times: Times = ALWAYS) -> list[Place]:
    async def search_it() -> list[Place]:
        task = asyncio.ensure_future(find_places(bounded.index, NAME, times, most))
        while not task.done():
            bounded.log.world.run()
            await asyncio.sleep(0)
        return task.result()

    return asyncio.run(search_it())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    counts=st.lists(st.integers(0, 3), min_size=1, max_size=9),
    older_at=st.integers(0, 9),
    most=st.integers(0, 20),
    places_max=st.integers(1, 20),
)
def test_places_are_told_newest_first_each_once(
    monkeypatch: pytest.MonkeyPatch,
    counts: list[int],
    older_at: int,
    most: int,
    places_max: int,
) -> None:
    monkeypatch.setattr(search, "TABLES", 2)
    monkeypatch.setattr(search, "PLACES_MAX", places_max)
    parts = [part_of(at, count) for at, count in enumerate(counts)]
    log = Log(0, len(parts) * PART)
    stored(log, *(one for at, one in enumerate(parts[:-1]) if at != older_at))
    bounded = Bounded(log).opened()
    bounded.index.newest = parts[-1]
    bounded.index.older = parts[older_at] if older_at < len(parts) - 1 else None
    every = [
        Place(TopicPartition(TOPIC, 0), at * PART + number)
        for at, count in enumerate(counts)
        for number in range(count)
    ][::-1]
    found = searched(bounded, most)
    assert found == every[: len(found)]
    assert min(most, places_max, len(every)) <= len(found) <= places_max


@pytest.mark.parametrize("is_table", [True, False])
@pytest.mark.parametrize(
    ("first_ms", "last_ms", "count"),
    [(0, 9, 0), (0, 10, 1), (15, 16, 1), (20, 30, 1), (21, 30, 0)],
)
def test_parts_of_the_index_are_looked_into_whose_times_meet_those_wanted(
    is_table: bool, first_ms: int, last_ms: int, count: int
) -> None:
    log = Log(0, PART)
    one = part_of(0, 1, first_ms=10, last_ms=20)
    if is_table:
        stored(log, one)
    bounded = Bounded(log).opened()
    if not is_table:
        bounded.index.newest = one
    assert len(searched(bounded, 10, Times(first_ms, last_ms))) == count


@pytest.mark.parametrize("what", ["damaged", "gone"])
def test_tables_behind_one_that_is_damaged_or_gone_are_looked_into(what: str) -> None:
    log = Log(0, 3 * PART)
    tables = stored(log, *(part_of(at, 1) for at in range(3)))
    bounded = Bounded(log).opened()
    path = f"{DIRECTORY}/keys/{tables[1].name}"
    if what == "gone":
        log.place.disk.remove(path)
    else:
        log.place.disk.open(path).write(tables[1].size - 10, [b"\xff" * 10])
    assert [one.offset for one in searched(bounded, 10)] == [2 * PART, 0]
    assert bounded.index.damaged == (what == "damaged")


def test_what_is_confirmed_while_a_search_waits_is_not_waited_for() -> None:
    bounded = Bounded(Log(0, PART))
    bounded.member.confirm_position = PART

    class Indexing:
        def look(self) -> None:
            bounded.log.end_position = bounded.member.confirm_position = 3 * PART
            bounded.step()  # the tables
            bounded.step()  # the first run

    lacks = asyncio.run(wait_until_indexed(Indexing(), bounded.index, 1 << 62))  # type: ignore[arg-type]
    assert lacks == 0
    assert bounded.index.behind_bytes == 2 * PART


def opened(files: IndexFiles, world: World) -> Opened:
    told: list[Opened | None] = []
    files.open(lambda found, _: told.append(found))
    world.run()
    assert told[0] is not None
    return told[0]


def test_a_start_counts_each_damaged_table_and_removes_it() -> None:
    log = Log()
    tables = stored(log, *(piece(at * PART, (at + 1) * PART) for at in range(3)))
    disk = log.place.disk
    for table in tables[:2]:
        disk.open(f"{DIRECTORY}/keys/{table.name}").write(0, [b"damage"])
    found = opened(IndexFiles(disk, DIRECTORY, log.world), log.world)
    assert found == Opened([tables[2]], 0, 2)
    assert disk.list(f"{DIRECTORY}/keys") == [tables[2].name]


@pytest.mark.parametrize("failing", ["replace", "remove"])
def test_what_was_let_go_stays_away_whichever_step_failed(
    monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """A table may come back, and be let go again; what is below the floor is not made anew."""
    log = Log()
    (table,) = stored(log, piece(0, PART))
    disk, errors = log.place.disk, list[BaseException | None]()
    files = IndexFiles(disk, DIRECTORY, log.world)

    def refuse(*_: object) -> None:
        raise OSError(5, "no")

    with monkeypatch.context() as patched:
        patched.setattr(disk, failing, refuse)
        files.drop(table.name, PART, lambda _, error: errors.append(error))
        log.world.run()
    assert [type(one) for one in errors] == [OSError]
    found = opened(files, log.world)
    assert found.tables == [table]
    assert found.floor == (0 if failing == "replace" else PART)
