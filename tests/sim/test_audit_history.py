"""Rows of the audit are compared with what clients did, on both sides."""

from penstock.audit.compiled import Counts
from penstock.audit.row import RowKey, Who, encode_row
from simulator.history.audit import Book, Visit, What, judge, missing

PRODUCE = What("produce", "topic", 0)


def visit(client: str, began_s: float, ended_s: float, *, least: int, most: int) -> Visit:
    made = Visit(client_id=client, node=1, began_s=began_s, ended_s=ended_s)
    made.answered(PRODUCE, {"records": least})
    made.sent(PRODUCE, {"records": most})
    return made


def add(
    book: Book, client: str, number: int, records: int, *, fold: int = 0, node: int = 1
) -> None:
    counts = Counts()
    counts.records = records
    key = RowKey(Who("User:ANONYMOUS", client, "", "", "host"), *PRODUCE)
    row = encode_row(node, fold * 1_000, fold * 1_000 + 1_000, key, counts)
    book.add(f"{node}:0:{number}".encode(), row)


def test_rows_between_what_was_answered_and_what_was_sent_are_in_order() -> None:
    book = Book()
    add(book, "a", 0, 3)
    add(book, "a", 1, 4, fold=1)
    add(book, "a", 1, 4, fold=1)
    here = visit("a", 1, 2, least=6, most=8)
    assert [*judge(book, [here])] == []
    assert missing(book, here) == ""
    assert book.twice == 1


def test_rows_that_are_still_to_come_are_missing_and_not_wrong() -> None:
    book = Book()
    add(book, "a", 0, 3)
    here = visit("a", 1, 2, least=6, most=8)
    assert [*judge(book, [here])] == []
    assert "3 of 6" in missing(book, here)


def test_more_than_was_sent_is_found() -> None:
    book = Book()
    add(book, "a", 0, 9)
    (found,) = judge(book, [visit("a", 1, 2, least=6, most=8)])
    assert "9, and 8 were sent" in found


def test_a_row_of_which_nobody_knows_is_found() -> None:
    book = Book()
    add(book, "a", 0, 1)
    (found,) = judge(book, [Visit(client_id="a", node=1, began_s=1, ended_s=2)])
    assert "1, and 0 were sent" in found


def test_a_gap_in_the_numbers_of_a_writer_is_found() -> None:
    book = Book()
    add(book, "a", 0, 3)
    add(book, "a", 2, 3)
    (found,) = judge(book, [visit("a", 1, 2, least=6, most=8)])
    assert found.startswith("row 1 of")


def test_one_number_with_two_contents_is_found() -> None:
    book = Book()
    add(book, "a", 0, 3)
    add(book, "a", 0, 4)
    (found,) = judge(book, [visit("a", 1, 2, least=3, most=8)])
    assert "two contents" in found


def test_rows_of_a_process_that_was_not_visited_are_found() -> None:
    book = Book()
    add(book, "a", 0, 6, node=2)
    (found,) = judge(book, [visit("a", 1, 2, least=6, most=8)])
    assert "was at 1" in found


def test_what_was_done_before_two_folds_that_are_there_must_be_there() -> None:
    book = Book()
    add(book, "a", 0, 3)
    add(book, "b", 1, 1, fold=1)
    visits = [visit("a", 1, 2, least=6, most=8), visit("b", 3, 5, least=1, most=2)]
    assert [*judge(book, visits)] == []
    add(book, "b", 2, 1, fold=2)
    (found,) = judge(book, visits)
    assert "records of" in found
    assert "3 of 6" in found
