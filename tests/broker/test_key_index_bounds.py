"""Every bound of an index of messages, at it and on both sides of it."""

import pytest

from penstock.broker.finding import key_index
from tests.broker.bounded_index import Bounded, Log, piece, stored

# Where an index goes on


@pytest.mark.parametrize(("start", "first", "epoch"), [(99, 100, 3), (100, 100, 3), (101, 101, -1)])
def test_a_start_goes_on_behind_the_last_table_unless_the_log_begins_behind_it(
    start: int, first: int, epoch: int
) -> None:
    log = Log(start, 150)
    stored(log, piece(0, 100))
    index = Bounded(log).opened().index
    assert index.newest is not None
    assert (index.newest.first, index.newest.epoch) == (first, epoch)


@pytest.mark.parametrize(("confirmed", "first"), [(699, 100), (700, 100), (701, 701)])
def test_a_log_longer_than_a_span_is_read_behind_what_comes(
    monkeypatch: pytest.MonkeyPatch, confirmed: int, first: int
) -> None:
    monkeypatch.setattr(key_index, "SPAN_BYTES", 600)
    index = Bounded(Log(100, confirmed)).opened().index
    assert index.newest is not None
    assert index.newest.first == first


@pytest.mark.parametrize(("log_end", "kept"), [(99, 0), (100, 1), (101, 1)])
def test_a_table_up_to_the_end_of_the_log_is_kept(log_end: int, kept: int) -> None:
    log = Log(0, log_end)
    stored(log, piece(0, 100))
    assert len(Bounded(log).opened().index.tables) == kept


@pytest.mark.parametrize(("begins_at", "kept"), [(99, 0), (100, 1), (101, 1)])
def test_a_table_up_to_where_a_mastership_begins_is_of_the_one_before(
    begins_at: int, kept: int
) -> None:
    log = Log(0, 150)
    log.epochs.append((4, begins_at))
    stored(log, piece(0, 100))
    assert len(Bounded(log).opened().index.tables) == kept


def test_a_piece_behind_a_table_that_was_sealed_knows_its_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a log that was cut in front of it would go unnoticed."""
    monkeypatch.setattr(key_index, "SPAN_BYTES", 100)
    bounded = Bounded(Log(0, 100)).opened()
    bounded.settle()
    assert bounded.tables() == [(0, 100)]
    index = bounded.index
    assert index.newest is not None
    assert (index.newest.first, index.newest.epoch) == (100, 3)
    bounded.log.epochs[:] = [(3, 0), (4, 50)]
    bounded.log.end_position = 300
    bounded.reopen()
    bounded.step()
    assert index.newest.first == 0


# When a piece becomes a table


@pytest.mark.parametrize(("end", "is_sealed"), [(599, False), (600, True), (601, True)])
def test_a_piece_of_the_longest_span_becomes_a_table(
    monkeypatch: pytest.MonkeyPatch, end: int, is_sealed: bool
) -> None:
    monkeypatch.setattr(key_index, "SPAN_BYTES", 600)
    bounded = Bounded(Log(0, end)).opened()
    bounded.index.newest = piece(0, end)
    bounded.step()
    assert bounded.tables() == [(0, end)][: int(is_sealed)]


@pytest.mark.parametrize(("names", "is_sealed"), [(9, False), (10, True), (11, True)])
def test_a_piece_with_as_many_entries_as_may_be_becomes_a_table(
    monkeypatch: pytest.MonkeyPatch, names: int, is_sealed: bool
) -> None:
    monkeypatch.setattr(key_index, "ENTRIES_MAX", 10)
    bounded = Bounded(Log(0, 100)).opened()
    bounded.index.newest = piece(0, 100, names=names)
    bounded.step()
    assert len(bounded.index.tables) == is_sealed


@pytest.mark.parametrize(("start", "tables"), [(49, [(49, 50)]), (50, []), (51, [(50, 100)])])
def test_a_piece_of_which_the_log_has_released_a_part_becomes_a_table(
    start: int, tables: list[tuple[int, int]]
) -> None:
    bounded = Bounded(Log(0, 100)).opened()
    bounded.index.newest = piece(50, 100)
    bounded.log.start_position = start
    bounded.settle()
    assert bounded.tables() == tables


# What goes


@pytest.mark.parametrize(("most", "kept"), [(4, 3), (3, 3), (2, 2)])
def test_as_many_tables_stay_as_may_be(
    monkeypatch: pytest.MonkeyPatch, most: int, kept: int
) -> None:
    monkeypatch.setattr(key_index, "TABLES_MAX", most)
    log = Log(0, 300)
    stored(log, piece(0, 100), piece(100, 200), piece(200, 300))
    bounded = Bounded(log).opened()
    bounded.settle()
    assert bounded.tables() == [(0, 100), (100, 200), (200, 300)][3 - kept :]
    assert bounded.index.behind_bytes == 0, "what was let go is not lacking"


@pytest.mark.parametrize(("more", "kept"), [(1, 3), (0, 3), (-1, 2)])
def test_tables_of_as_many_bytes_stay_as_may_be(more: int, kept: int) -> None:
    log = Log(0, 300)
    tables = stored(log, piece(0, 100), piece(100, 200), piece(200, 300))
    bounded = Bounded(log, sum(one.size for one in tables) + more).opened()
    bounded.settle()
    assert len(bounded.index.tables) == kept
    assert bounded.index.behind_bytes == 0, "what was let go is not lacking"


def test_the_floor_does_not_fall() -> None:
    """A range that can not be read is given up, and then a table below it goes."""
    log = Log(0, 300)
    stored(log, piece(0, 100), piece(200, 300))
    log.frames_from = 150
    bounded = Bounded(log).opened()
    bounded.settle()
    assert bounded.tables() == [(0, 100), (200, 300)]
    assert bounded.index.behind_bytes == 0, "what can not be read is given up as a whole"
    bounded.gone.add((0, 0))
    log.world.now_ms += key_index.RETENTION_MS
    log.asked.clear()
    bounded.settle()
    assert bounded.tables() == [(200, 300)]
    assert bounded.index.behind_bytes == 0
    assert log.asked == []


def test_what_retention_took_from_the_log_is_not_lacking() -> None:
    log = Log(0, 300)
    stored(log, piece(0, 100), piece(200, 300))
    bounded = Bounded(log, 1).opened()
    bounded.step()
    log.start_position = 250
    assert bounded.index.lacks(300) == 0


@pytest.mark.parametrize(("early_ms", "is_judged"), [(1, False), (0, True), (-1, True)])
def test_retention_looks_once_its_time_has_come(early_ms: int, is_judged: bool) -> None:
    log = Log(0, 200)
    stored(log, piece(0, 100), piece(100, 200))
    bounded = Bounded(log).opened()
    bounded.gone |= {(0, 0), (0, 100)}
    bounded.settle()
    log.world.now_ms += key_index.RETENTION_MS - early_ms
    bounded.settle()
    assert bounded.tables() == ([] if is_judged else [(0, 100), (100, 200)]), (
        "where one has gone the next is looked at at once"
    )


@pytest.mark.parametrize("kept", [0, 4, 5, 9, 10])
def test_each_row_of_a_table_is_judged(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    monkeypatch.setattr(key_index, "ROWS", 5)
    for rows in (kept + 1, 11):
        log = Log(0, 100)
        stored(log, piece(0, 100, rows=rows))
        bounded = Bounded(log).opened()
        bounded.gone |= {(row, row) for row in range(rows)} - {(kept, kept)}
        log.world.now_ms += key_index.RETENTION_MS
        bounded.settle()
        assert bounded.tables() == [(0, 100)]
        bounded.gone.add((kept, kept))
        log.world.now_ms += key_index.RETENTION_MS
        bounded.settle()
        assert bounded.tables() == []


def test_a_table_that_goes_while_it_is_judged_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_index, "ROWS", 5)
    log = Log(0, 200)
    first, second = stored(log, piece(0, 100, rows=11), piece(100, 200))
    bounded = Bounded(log).opened()
    bounded.gone |= {(row, row) for row in range(11)}
    log.world.now_ms += key_index.RETENTION_MS
    assert bounded.index.begin(lambda: None)
    log.world.work_one()  # its rows were read, and some of them judged
    bounded.index.let_go(first)
    log.world.run()
    assert bounded.index.tables == [second]
    bounded.index.let_go(first)
    assert bounded.index.damaged == 1, "another search has found it, too"


# Who waits, and when


@pytest.mark.parametrize(("reached", "is_told"), [(99, False), (100, True), (101, True)])
def test_who_waits_is_told_when_the_index_is_there(reached: int, is_told: bool) -> None:
    bounded, told = Bounded(Log(0, reached)), list[int]()
    bounded.log.run_bytes = reached
    bounded.index.when_reached(100, 1 << 62, lambda: told.append(1))
    bounded.settle()
    assert told == [1] * is_told
    bounded.index.when_reached(100, 1 << 62, lambda: told.append(2))
    assert told == [1, 2] * is_told


def test_so_many_wait_as_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "WAITING_MAX", 2)
    bounded, told = Bounded(Log(0, 100)), list[int]()
    for number in range(3):
        bounded.index.when_reached(100, 1 << 62, lambda number=number: told.append(number))  # type: ignore[misc]
    assert told == [2]
    bounded.settle()
    assert sorted(told) == [0, 1, 2]


@pytest.mark.parametrize(("early_ms", "is_begun"), [(1, False), (0, True), (-1, True)])
def test_an_index_goes_on_when_its_pause_is_over(early_ms: int, is_begun: bool) -> None:
    bounded = Bounded(Log(0, 100))
    bounded.index._pause(OSError(28, "no space"))
    bounded.log.world.now_ms += key_index.PAUSE_MS - early_ms
    assert bounded.step() is is_begun


# What is lacking


def test_what_an_older_piece_has_to_read_yet_is_lacking_once() -> None:
    log = Log(0, 300)
    stored(log, piece(250, 300))
    bounded = Bounded(log).opened()
    assert bounded.index.lacks(300) == 250
    bounded.step()
    older = bounded.index.older
    assert older is not None
    assert (older.first, older.end) == (0, 100)
    assert bounded.index.lacks(300) == 150
    bounded.step()
    assert bounded.index.lacks(300) == 50
    bounded.settle()
    assert bounded.index.lacks(300) == 0
    assert bounded.tables() == [(0, 250), (250, 300)]


def test_a_run_that_was_read_before_a_log_was_cut_is_not_added() -> None:
    log = Log(0, 200)
    bounded = Bounded(log).opened()
    bounded.step()
    assert bounded.index.newest is not None
    assert bounded.index.newest.end == 100
    assert bounded.index.begin(lambda: None)
    log.epochs[:] = [(3, 0), (4, 100)]
    bounded.reopen()
    log.world.run()
    assert bounded.index.newest.end == 100, "it was of the log before"
    bounded.settle()
    assert (bounded.index.newest.end, bounded.index.newest.epoch) == (200, 4)


@pytest.mark.parametrize(
    ("kept_from", "lacking"), [(None, 0), (400, 0), (399, 1), (101, 299), (100, 300), (0, 300)]
)
def test_what_is_kept_and_was_let_go_before_a_table_had_it_is_lacking(
    kept_from: int | None, lacking: int
) -> None:
    bounded = Bounded(Log(0, 100)).opened()
    bounded.index.newest = piece(0, 100)
    bounded.log.start_position = 1
    bounded.settle()
    assert bounded.tables() == [(0, 100)]
    bounded.log.start_position, bounded.log.kept_from = 400, kept_from
    bounded.index.newest = piece(400, 600)
    assert bounded.index.lacks(600) == lacking
    assert bounded.index.lacks(700) == lacking + 100
    bounded.index.newest = piece(100, 600)
    assert bounded.index.lacks(600) == 0
