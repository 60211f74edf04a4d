"""Rows that are read from several partitions, one after the other, are judged as beginnings."""

from simulator.history.rows import Arrivals, RowBook


def looked(arrivals: Arrivals, book: RowBook, *numbers: int, node: int = 1) -> None:
    """Read these rows in one whole look."""
    arrivals.begin()
    for number in numbers:
        arrivals.note(b"topic/0/7 %d:5:%d" % (node, number), b"row")
    arrivals.end(lambda key, value: book.add_named(key.rpartition(b" ")[2], value) and None)


def numbers_of(book: RowBook) -> list[int]:
    return sorted(number for _, number in book.rows)


def test_what_came_to_a_partition_after_it_was_read_is_no_gap() -> None:
    arrivals, book = Arrivals(), RowBook()
    looked(arrivals, book, 0, 1, 5)
    assert not book.rows, "2 to 4 may have come meanwhile"
    looked(arrivals, book, 2, 3, 4, 8)
    assert numbers_of(book) == [0, 1, 2, 3, 4, 5]
    assert not [*book.gaps()]


def test_what_is_not_there_once_all_was_read_again_is_a_gap() -> None:
    arrivals, book = Arrivals(), RowBook()
    looked(arrivals, book, 0, 1, 5)
    looked(arrivals, book, 2, 4)
    (found,) = book.gaps()
    assert found.startswith("row 3 of")


def test_a_look_that_ends_early_hands_nothing_over() -> None:
    arrivals, book = Arrivals(), RowBook()
    looked(arrivals, book, 0)
    arrivals.begin()
    arrivals.note(b"1:5:1", b"row")
    arrivals.begin()
    assert not book.rows
    looked(arrivals, book)
    assert numbers_of(book) == [0, 1]


def test_each_process_has_numbers_of_its_own() -> None:
    arrivals, book = Arrivals(), RowBook()
    looked(arrivals, book, 0, 1)
    looked(arrivals, book, 0, node=2)
    assert numbers_of(book) == [0, 1]
    looked(arrivals, book)
    assert numbers_of(book) == [0, 0, 1]
