"""The judge of client metrics: what rows may say of pushes, and what they may lack."""

from collections.abc import Sequence

from penstock.audit.row import Who
from penstock.telemetry.points import Point
from penstock.telemetry.row import Source, Writer
from simulator.history.pushes import PushBook, Pushed, Verdict, judge, missing

NODE, BEGAN = 1, 1_000


def pushed(
    *metrics: str, verdict: Verdict = Verdict.TAKEN, connection: int = 1, node: int = NODE
) -> Pushed:
    return Pushed(
        instance="i",
        client_id="c",
        principal="User:u",
        node=node,
        connection=("c", connection),
        began_s=0.0,
        points=dict.fromkeys(metrics, 1.0),
        verdict=verdict,
    )


def book_of(rows: Sequence[tuple[int, str]], *, node: int = NODE, client: str = "c") -> PushBook:
    """Return a book with (number, metric) of one process."""
    book = PushBook()
    writer = Writer(Source(node, 5, "i", Who("User:u", client, "", "", "h")))
    for number, metric in rows:
        book.add(f"{node}:{BEGAN}:{number}".encode(), writer.row(point_of(metric)))
    return book


def point_of(metric: str) -> Point:
    return Point(metric, "gauge", "", "", False, {}, 0, 0, value=1.0)


def test_what_is_taken_and_there_once_is_right():
    assert list(judge(book_of([(0, "a"), (1, "b")]), [pushed("a", "b")])) == []


def test_a_row_that_was_written_twice_under_its_name_counts_once():
    book = book_of([(0, "a"), (0, "a")])
    assert book.twice == 1
    assert list(judge(book, [pushed("a")])) == []


def test_a_point_in_two_rows_is_named():
    (found,) = judge(book_of([(0, "a"), (1, "a")]), [pushed("a")])
    assert found.startswith("a is there 2 times")


def test_what_is_refused_and_there_is_named():
    (found,) = judge(book_of([(0, "a")]), [pushed("a", verdict=Verdict.REFUSED)])
    assert found == "a was refused, and is there"


def test_what_has_no_answer_may_be_there_or_not():
    unknown = pushed("a", verdict=Verdict.UNKNOWN)
    assert list(judge(book_of([(0, "a")]), [unknown])) == []
    assert list(judge(book_of([]), [unknown])) == []
    assert missing(book_of([]), unknown) == ""


def test_what_was_never_pushed_is_named():
    (found,) = judge(book_of([(0, "x")]), [])
    assert found == "x was never pushed"


def test_somebody_elses_row_and_one_of_another_node_are_named():
    (found,) = judge(book_of([(0, "a")], client="d"), [pushed("a")])
    assert "and was pushed as" in found
    (found,) = judge(book_of([(0, "a")], node=2), [pushed("a")])
    assert "and was pushed as" in found


def test_a_gap_in_the_rows_of_a_process_is_named():
    found = [*judge(book_of([(0, "a"), (2, "c")]), [pushed("a"), pushed("c", connection=2)])]
    assert [one.partition(" of ")[0] for one in found] == ["row 1"]


def test_the_last_of_a_connection_may_be_missing_and_nothing_before_it():
    first, second = pushed("a"), pushed("b")
    assert list(judge(book_of([(0, "a")]), [first, second])) == []
    (found,) = judge(book_of([(0, "b")]), [first, second])
    assert found == "a is missing, and b that was pushed later is there"
    assert missing(book_of([(0, "a")]), second) == "b of c, taken by 1"


def test_rows_of_a_connection_rise():
    (found,) = judge(book_of([(1, "a"), (0, "b")]), [pushed("a"), pushed("b")])
    assert found.startswith("b is row ")


def test_rows_of_two_connections_have_no_order():
    pushes = [pushed("a", connection=1), pushed("b", connection=2)]
    assert list(judge(book_of([(1, "a"), (0, "b")]), pushes)) == []
