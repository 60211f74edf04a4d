"""The judge of the trace of messages: what rows may say, and what members have to have seen."""

from uuid import UUID

import pytest

from penstock.finding.traces import Row, encode_row, limit_of, names_of, sampled
from simulator.history.shares import Handed, Kind, LostAnswer, Settled, ShareNotes
from simulator.history.traces import Shared, TraceBook, is_sampled, judge, missing

TOPIC_ID = UUID(int=77)
PLACE = (0, 5)


def shared(notes: ShareNotes, percent: float = 100.0) -> Shared:
    notes.topic_id = TOPIC_ID
    written = {(0, offset): "v" for offset in range(10)}
    return Shared("t", "g", notes, written, 5, percent)


def book_of(*events: str, group: str = "g", client: str = "m", offset: int = 5) -> TraceBook:
    """Return the rows of one process, in this order."""
    book = TraceBook()
    for number, event in enumerate(events):
        who = client if event == "delivered" else ""
        row = Row(1, 9, event, "t", 0, [(offset, offset + 1)], group, who)
        book.add(names_of(row) + f" 1:1000:{number}".encode(), encode_row(row))
    return book


def seen(*kinds: Kind, handed: int = 1, is_taken: bool = True) -> ShareNotes:
    return ShareNotes(
        handed=[Handed("m", PLACE, "v", at + 1, at, at) for at in range(handed)],
        settled=[Settled("m", PLACE, kind, 1, 2, is_taken, 1) for kind in kinds],
    )


@pytest.mark.parametrize(
    ("events", "notes"),
    [
        (("delivered", "done"), seen(Kind.ACCEPT)),
        (("delivered", "given_up"), seen(Kind.REJECT)),
        (("delivered", "released"), seen(Kind.RELEASE)),
        (("delivered", "renewed", "done"), seen(Kind.RENEW, Kind.ACCEPT)),
        (("delivered", "released", "delivered", "done"), seen(Kind.ACCEPT, handed=2)),
        (("delivered", "given_up"), seen(handed=5)),
        (("delivered",), ShareNotes(lost=[LostAnswer(0, 1, "m")])),
        ((), seen(Kind.ACCEPT)),
    ],
)
def test_what_happened_is_right(events: tuple[str, ...], notes: ShareNotes) -> None:
    assert list(judge(book_of(*events), shared(notes))) == []


@pytest.mark.parametrize(
    ("events", "notes", "what"),
    [
        (("delivered",), seen(handed=0), "was delivered to m 1 times, who has seen 0"),
        (("delivered", "delivered"), seen(), "was delivered to m 2 times, who has seen 1"),
        (("done",), seen(Kind.REJECT), "is done by "),
        (("done",), seen(Kind.ACCEPT, is_taken=False), "is done by "),
        (("given_up",), seen(Kind.ACCEPT, handed=4), "is given_up by "),
        (("renewed",), seen(Kind.ACCEPT), "is renewed by "),
        (("released",), seen(handed=0), "is released by "),
        (("dead_letter",), seen(), "is dead_letter by "),
        (("done", "delivered"), seen(Kind.ACCEPT), "after row 0, done"),
        (("done", "done"), seen(Kind.ACCEPT), "after row 0, done"),
    ],
)
def test_what_did_not_happen_is_named(
    events: tuple[str, ...], notes: ShareNotes, what: str
) -> None:
    found = list(judge(book_of(*events), shared(notes)))
    assert len(found) == 1
    assert what in found[0]


def test_a_delivery_to_another_member_is_named() -> None:
    (found,) = judge(book_of("delivered", client="n"), shared(seen()))
    assert "was delivered to n 1 times" in found


def test_a_group_that_has_no_members_is_named() -> None:
    (found,) = judge(book_of("released", group="h"), shared(seen()))
    assert "is of a group that has no members" in found


def test_of_a_message_that_nobody_knows_only_deliveries_are_judged() -> None:
    assert list(judge(book_of("done", offset=50), shared(ShareNotes()))) == []


def test_the_sample_is_that_of_the_nodes() -> None:
    places = [(partition, offset) for partition in range(3) for offset in range(300)]
    for percent in (0.0, 20.0, 60.0, 100.0):
        for partition, offset in places:
            runs = [(offset, offset + 1)]
            theirs = sampled(TOPIC_ID.bytes, partition, runs, limit_of(percent))
            assert is_sampled(TOPIC_ID, (partition, offset), percent) is bool(theirs)


def test_a_message_that_is_not_of_the_sample_is_named() -> None:
    (found,) = judge(book_of("passed_over", offset=100), shared(seen(), 0.0))
    assert "is not among those that are traced" in found


def test_a_row_with_the_names_of_other_messages_is_named() -> None:
    book = TraceBook()
    row = Row(1, 9, "released", "t", 0, [(5, 6)], "g", "")
    book.add(b"t/0/6 1:1000:0", encode_row(row))
    book.add(b"t/0/5 2:1000:0", encode_row(row))
    assert len(book.wrong) == 2


def test_what_was_accepted_once_is_missed_and_what_was_said_twice_is_not() -> None:
    ((why, word),) = missing(book_of(), shared(seen(Kind.ACCEPT)))
    assert (why, word.leader) == ("(0, 5) was accepted, and no row says so", 1)
    assert list(missing(book_of("done"), shared(seen(Kind.ACCEPT)))) == []
    assert list(missing(book_of(), shared(seen(Kind.ACCEPT, Kind.ACCEPT)))) == []
    assert list(missing(book_of(), shared(seen(Kind.ACCEPT, is_taken=False)))) == []
    assert list(missing(book_of(), shared(seen(Kind.ACCEPT), 0.0))) == []
