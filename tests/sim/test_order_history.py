"""The judges of message groups, and of what consumers forward: what they find, and let pass."""

import pytest

from simulator.history.remoting.events import Clock, Read
from simulator.history.remoting.order import Grouped, judge_handed, judge_order
from simulator.history.remoting.pops import judge_pops, not_forwarded
from simulator.history.remoting.sends import places_of
from simulator.history.shares import Handed, Kind, Settled, ShareNotes

MS = 1_000_000
START_MS = 5_000
CLOCK = Clock(START_MS)
MOST = 5


def read(value: str, at: int, *, partition: int = 0, ms: int = 0) -> Read:
    return Read((partition, at), START_MS + ms, value, {}, 0)


def sent(value: str, asked: int, told: int | None, group: str = "g") -> Grouped:
    return Grouped(value, group, asked * MS, None if told is None else told * MS)


def handed(value: str, at: int, told: int) -> Handed:
    return Handed("one", (0, at), value, 1, (told - 1) * MS, told * MS)


def settled(at: int, asked: int, kind: Kind = Kind.ACCEPT, *, is_taken: bool = True) -> Settled:
    return Settled("one", (0, at), kind, asked * MS, (asked + 1) * MS, is_taken=is_taken)


def by_place(*reads: Read) -> dict[tuple[int, int], Read]:
    return {one.place: one for one in reads}


A, B = sent("a", 1, 2), sent("b", 3, 4)


@pytest.mark.parametrize(
    ("grouped", "reads", "told"),
    [
        ([A, B], [read("a", 0), read("b", 1)], ""),
        ([A, B], [read("b", 0), read("a", 1)], "sent after a in g"),
        ([A, B], [read("b", 0), read("a", 1, partition=1)], ""),  # its master is another node
        ([A, sent("b", 3, 4, "h")], [read("b", 0), read("a", 1)], ""),
        ([sent("a", 1, None), B], [read("b", 0), read("a", 1)], ""),  # it was not acknowledged
        ([A, B], [read("b", 0)], ""),
    ],
)
def test_messages_of_a_group_are_in_the_order_of_their_sends(grouped, reads, told) -> None:
    found = judge_order(grouped, {}, by_place(*reads))
    assert (len(found) == 1 and told in found[0]) if told else not found


def test_an_offset_that_was_told_is_that_of_the_message() -> None:
    reads = by_place(read("a", 4, partition=1))
    assert judge_order([], {"a": 4, "b": 9}, reads) == []
    assert judge_order([], {"a": 5}, reads) == ["a was acknowledged at offset 5, and is at (1, 4)"]


@pytest.mark.parametrize(
    ("settles", "letters", "is_found"),
    [
        ([settled(0, 15)], [], False),
        ([settled(0, 15, Kind.REJECT)], [], False),
        ([settled(0, 25)], [], True),  # asked for afterwards
        ([settled(0, 15, Kind.RELEASE)], [], True),
        ([settled(0, 15, is_taken=False)], [], True),
        ([settled(0, 15, is_taken=False)._replace(told_ns=None)], [], False),  # it may count
        ([settled(1, 15)], [], True),
        ([], [read("a", 0, ms=20)], False),
        ([], [read("a", 0, ms=21)], True),
    ],
)
def test_nothing_is_handed_out_before_all_in_front_of_it_is_over(
    settles, letters, is_found
) -> None:
    notes = ShareNotes(handed=[handed("a", 0, 10), handed("b", 1, 20)], settled=settles)
    reads = by_place(read("a", 0), read("b", 1))
    found = judge_handed(notes, [A, B], reads, places_of(letters), CLOCK)
    assert [("b is handed out" in one, "a before it" in one) for one in found] == (
        [(True, True)] if is_found else []
    )


def test_other_groups_and_messages_without_one_wait_for_nothing() -> None:
    notes = ShareNotes(handed=[handed("b", 1, 20), handed("k", 2, 20)])
    reads = by_place(read("a", 0), read("b", 1), read("k", 2))
    assert judge_handed(notes, [A, sent("b", 3, 4, "h")], reads, {}, CLOCK) == []


def test_what_is_forwarded_is_a_dead_letter_before_or_after_the_answer() -> None:
    notes = ShareNotes(settled=[settled(0, 10, Kind.REJECT)])
    written = {(0, 0): "a"}
    assert not_forwarded(notes, written, {}) == ["a at (0, 0) was forwarded, and is no dead letter"]
    letters = places_of([read("a", 0, ms=500)])
    assert not_forwarded(notes, written, letters) == []
    assert judge_pops(notes, written, letters, MOST, CLOCK) == []


def test_a_refused_forward_and_one_without_an_answer_say_nothing() -> None:
    refused = settled(0, 10, Kind.REJECT, is_taken=False)
    notes = ShareNotes(settled=[refused, refused._replace(told_ns=None)])
    assert not_forwarded(notes, {(0, 0): "a"}, {}) == []
