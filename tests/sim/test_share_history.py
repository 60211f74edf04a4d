"""The judge of share groups: what it finds, and what it lets pass."""

import pytest

from simulator.clients.shares.member import as_runs
from simulator.history.events import Rules
from simulator.history.shares import (
    Handed,
    Kind,
    LostAnswer,
    Settled,
    ShareNotes,
    judge_shares,
    left_over,
)

WRITTEN = {(0, 0): "a", (0, 1): "b"}
LIMIT = 5
RULES = Rules(woken=[("b1", 50, 70)])


def handed(asked_ns: int, *, member: str = "m", value: str = "a", deliveries: int = 1) -> Handed:
    return Handed(member, (0, 0), value, deliveries, asked_ns, asked_ns + 1)


def settled(
    told_ns: int | None, *, kind: Kind = Kind.ACCEPT, member: str = "m", is_taken: bool = True
) -> Settled:
    return Settled(member, (0, 0), kind, 0, told_ns, is_taken)


@pytest.mark.parametrize(
    ("what", "words", "told"),
    [
        ([handed(1)], [settled(5)], ""),
        ([handed(1), handed(6)], [settled(5)], "comes again"),
        ([handed(1), handed(6)], [settled(5, kind=Kind.REJECT)], "comes again"),
        ([handed(1), handed(4)], [settled(5)], ""),  # asked for before the answer was known
        ([handed(1), handed(6)], [settled(5, kind=Kind.RELEASE)], ""),
        ([handed(1), handed(6)], [settled(None, is_taken=False)], ""),
        ([handed(1), handed(6)], [settled(5, is_taken=False)], ""),
        ([handed(1)], [settled(5), settled(7)], ""),
        ([handed(1)], [settled(5), settled(7, member="n")], ""),
        ([handed(1, value="z")], [], "was written"),
    ],
)
def test_what_may_not_be_is_found(what: list[Handed], words: list[Settled], told: str) -> None:
    found = judge_shares(ShareNotes(handed=what, settled=words), WRITTEN, RULES)
    assert (told in found[0]) if told else not found


def test_what_was_aborted_is_never_handed_out() -> None:
    notes = ShareNotes(handed=[handed(1, value="tx-1")])
    (found,) = judge_shares(notes, {}, RULES, {"tx-1"})
    assert "tx-1 was aborted" in found
    assert judge_shares(notes, {}, RULES, {"tx-2"}) == []


def test_records_of_unknown_fate_may_be_handed_out() -> None:
    stranger = Handed("m", (0, 7), "unknown", 1, 1, 2)
    assert judge_shares(ShareNotes(handed=[stranger]), WRITTEN, RULES) == []


@pytest.mark.parametrize(
    ("told_by", "asked_ns", "is_found"),
    [("b1", 48, True), ("b1", 49, False), ("b1", 70, False), ("b1", 71, True), ("b2", 60, True)],
)
def test_a_broker_that_has_just_woken_may_hand_out_what_is_over(
    told_by: str, asked_ns: int, *, is_found: bool
) -> None:
    old = handed(asked_ns)._replace(told_by=told_by)
    found = judge_shares(ShareNotes(handed=[old], settled=[settled(5)]), WRITTEN, RULES)
    assert ["comes again" in one for one in found] == [True] * is_found


def test_a_broker_that_has_just_woken_hands_out_nothing_that_was_aborted_or_never_written() -> None:
    old = handed(60, value="tx-1")._replace(told_by="b1")
    found = judge_shares(ShareNotes(handed=[old]), WRITTEN, RULES, {"tx-1"})
    assert ["was written" in one or "was aborted" in one for one in found] == [True, True]


@pytest.mark.parametrize(
    ("what", "words", "lost", "is_over"),
    [
        ([], [], [], False),
        ([handed(1)], [settled(5)], [], True),
        ([handed(1)], [settled(5, kind=Kind.REJECT)], [], True),
        ([handed(1)], [settled(5, kind=Kind.RELEASE)], [], False),
        ([handed(1)], [settled(5, is_taken=False)], [], False),
        ([handed(1)], [settled(None, is_taken=False)], [], True),
        ([handed(1, deliveries=LIMIT)], [], [], True),
        ([handed(1, deliveries=LIMIT - 1)], [], [], False),
        ([handed(3, deliveries=LIMIT - 1)], [], [LostAnswer(0, 4)], True),
        ([handed(3, deliveries=LIMIT - 1)], [], [LostAnswer(0, 2)], False),
        ([handed(3, deliveries=LIMIT - 1)], [], [LostAnswer(1, 4)], False),
    ],
)
def test_what_is_not_over_is_named(
    what: list[Handed], words: list[Settled], lost: list[LostAnswer], is_over: bool
) -> None:
    notes = ShareNotes(handed=what, settled=words, lost=lost)
    assert (
        left_over(notes, {(0, 0): "a"}, LIMIT) == []
        if is_over
        else left_over(notes, {(0, 0): "a"}, LIMIT)
    )


def test_words_are_told_as_runs() -> None:
    words = {3: Kind.ACCEPT, 4: Kind.ACCEPT, 5: Kind.RELEASE, 8: Kind.REJECT}
    assert as_runs(words) == [
        {"first_offset": 3, "last_offset": 5, "acknowledge_types": [1, 1, 2]},
        {"first_offset": 8, "last_offset": 8, "acknowledge_types": [3]},
    ]
    assert as_runs({0: Kind.GAP, 1: Kind.GAP})[0]["acknowledge_types"] == [0]
    assert as_runs({}) == []
