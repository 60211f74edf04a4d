"""The judges of remoting clients: what they find, and what they let pass."""

from typing import Any

import pytest

from simulator.history.events import Rules
from simulator.history.remoting.events import (
    Clock,
    Decision,
    HalfSent,
    Read,
    Returned,
    Sent,
    Told,
    Updated,
)
from simulator.history.remoting.halves import judge_halves, undecided
from simulator.history.remoting.pops import judge_pops, not_over
from simulator.history.remoting.pulls import PullNotes, judge_pulls, not_pulled
from simulator.history.remoting.returns import judge_returns, not_back
from simulator.history.remoting.sends import judge_sends, not_there, places_of
from simulator.history.shares import Handed, Kind, Settled, ShareNotes

MS = 1_000_000
START_MS = 5_000
CLOCK = Clock(START_MS)
APART = Clock(START_MS, apart_ms=10)
RULES = Rules(woken=[("b1", 50, 70)])


def read(value: str = "a", at: int = 0, *, ms: int = 0, seen: int = 100, **headers: str) -> Read:
    """A record that was written `ms` after the beginning, and read."""
    told = {"origin": value} | {name.replace("_", "."): text for name, text in headers.items()}
    return Read((0, at), START_MS + ms, value, told, seen)


def by_place(*reads: Read) -> dict[tuple[int, int], Read]:
    return {one.place: one for one in reads}


def by_value(*reads: Read) -> dict[str, list[Read]]:
    return places_of(reads)


def is_found(found: list[str], told: str) -> bool:
    return (len(found) == 1 and told in found[0]) if told else not found


# --- producers -----------------------------------------------------------------------------------

TAKEN = Sent("a", 0, is_taken=True, place=(0, 0))
LATER = Sent("a", 20 * MS, 1_000, is_taken=True)
ASKED_BACK = LATER._replace(may_be_recalled=True)
RECALLED = ASKED_BACK._replace(is_recalled=True)


@pytest.mark.parametrize(
    ("sends", "reads", "clock", "told"),
    [
        ([TAKEN], [read()], CLOCK, ""),
        ([TAKEN], [], CLOCK, ""),  # before all is read
        ([TAKEN, Sent("b", 0)], [read("b"), read(at=1)], CLOCK, "at (0, 0), where b is"),
        ([Sent("a", 0)], [read(), read(at=1)], CLOCK, "sent once"),
        ([TAKEN], [read(origin="b")], CLOCK, "lost its property"),
        ([], [read()], CLOCK, "by nobody"),
        ([], [read("k")], CLOCK, ""),  # of a Kafka producer
        ([LATER], [read(ms=1_020)], CLOCK, ""),
        ([LATER], [read(ms=1_019)], CLOCK, "1 ms early"),
        ([LATER], [read(ms=1_010)], APART, ""),
        ([LATER], [read(ms=1_009)], APART, "1 ms early"),
        ([LATER], [read(ms=1_020), read(at=1, ms=1_200)], CLOCK, ""),
        ([LATER], [read(ms=1_020), read(at=1, ms=19)], CLOCK, "early"),
        ([RECALLED], [], CLOCK, ""),
        ([RECALLED], [read(ms=1_020)], CLOCK, "was recalled, and is there"),
        ([ASKED_BACK], [read(ms=1_020)], CLOCK, ""),
    ],
)
def test_what_producers_may_not_see_is_found(
    sends: list[Sent], reads: list[Read], clock: Clock, told: str
) -> None:
    assert is_found(judge_sends(sends, by_place(*reads), {"k"}, clock), told)


def test_what_was_acknowledged_has_to_be_there_in_the_end() -> None:
    sends = [TAKEN, LATER._replace(value="b"), Sent("c", 0)]
    assert not_there(sends, {"a", "b"}) == []
    assert [one.split()[0] for one in not_there(sends, set())] == ["a", "b"]
    assert not_there([RECALLED, ASKED_BACK], set()) == []


# --- transactions --------------------------------------------------------------------------------

HALF = HalfSent("a", 0, is_taken=True)
COMMIT, ROLLBACK = Decision("a", True, 50), Decision("a", False, 50)
COMMITTED, ROLLED_BACK = COMMIT._replace(is_taken=True), ROLLBACK._replace(is_taken=True)


@pytest.mark.parametrize(
    ("decisions", "seen", "discarded", "told"),
    [
        ([COMMITTED], [read()], [], ""),
        ([COMMIT], [read()], [], ""),
        ([COMMITTED, COMMITTED], [read()], [], ""),
        ([COMMITTED, ROLLBACK], [read()], [], ""),
        ([ROLLED_BACK, COMMIT], [], [], ""),
        ([], [], [read()], ""),
        ([COMMIT, ROLLBACK], [], [read()], ""),  # neither has arrived
        ([COMMITTED, ROLLED_BACK], [], [], "committed and rolled back"),
        ([COMMITTED], [read(), read(at=1)], [], "seen 2 times"),
        ([], [], [read(), read(at=1)], "discarded 2 times"),
        ([], [read()], [], "nobody has committed"),
        ([ROLLBACK], [read()], [], "nobody has committed"),
        ([COMMIT], [read(seen=49)], [], "before its commit"),
        ([ROLLED_BACK, COMMIT], [read()], [], "was rolled back, and is there"),
        ([COMMITTED], [], [read()], "was decided"),
        ([ROLLED_BACK], [], [read()], "was decided"),
        ([COMMIT], [read()], [read()], "discarded, and is there"),
        ([], [], [read("b")], "no half message"),
    ],
)
def test_what_becomes_of_half_messages_is_judged(
    decisions: list[Decision], seen: list[Read], discarded: list[Read], told: str
) -> None:
    found = judge_halves([HALF], decisions, by_value(*seen), by_value(*discarded))
    assert is_found(found, told)


@pytest.mark.parametrize(
    ("half", "decisions", "seen", "discarded", "told"),
    [
        (HALF, [COMMITTED], [read()], [], ""),
        (HALF, [], [], [read()], ""),
        (HALF, [ROLLBACK], [], [], ""),  # it may have counted
        (HALF._replace(is_taken=False), [], [], [], ""),
        (HALF, [], [], [], "neither there nor discarded"),
        (HALF, [COMMIT], [], [], "neither there nor discarded"),
        (HALF, [COMMITTED, ROLLBACK], [], [], "committed, and is not there"),
    ],
)
def test_every_half_message_is_decided_in_the_end(
    half: HalfSent, decisions: list[Decision], seen: list[Read], discarded: list[Read], told: str
) -> None:
    found = undecided([half], decisions, by_value(*seen), by_value(*discarded))
    assert is_found(found, told)


# --- pops ----------------------------------------------------------------------------------------

WRITTEN = {(0, 0): "a"}


def popped(deliveries: int) -> Handed:
    return Handed("m", (0, 0), "a", deliveries, 0, 1)


def settled(told_ms: int | None, *, kind: Kind = Kind.ACCEPT, is_taken: bool = True) -> Settled:
    told_ns = None if told_ms is None else told_ms * MS
    return Settled("m", (0, 0), kind, 0, told_ns, is_taken)


@pytest.mark.parametrize(
    ("handed", "words", "letters", "told"),
    [
        ([popped(4)], [settled(5)], [], ""),
        ([popped(5)], [], [], "5. time"),
        ([], [settled(5)], [read(ms=7)], "had acknowledged it before"),
        ([], [settled(5)], [read(ms=6)], ""),  # in the same ms, perhaps
        ([], [settled(5)], [read(ms=3)], ""),  # it was a dead letter already
        ([], [settled(None, is_taken=False)], [read(ms=7)], ""),
        ([], [settled(5, is_taken=False)], [read(ms=7)], ""),
        ([], [settled(5, kind=Kind.RELEASE)], [read(ms=7)], ""),
        ([], [], [read("z")], "of no message"),
    ],
)
def test_what_is_popped_is_judged(
    handed: list[Handed], words: list[Settled], letters: list[Read], told: str
) -> None:
    notes = ShareNotes(handed=handed, settled=words)
    assert is_found(judge_pops(notes, WRITTEN, by_value(*letters), 4, CLOCK), told)


def test_clocks_that_differ_make_no_dead_letter_late() -> None:
    notes = ShareNotes(settled=[settled(5)])
    assert judge_pops(notes, WRITTEN, by_value(read(ms=16)), 4, APART) == []
    assert judge_pops(notes, WRITTEN, by_value(read(ms=17)), 4, APART) != []


@pytest.mark.parametrize(
    ("words", "letters", "told"),
    [
        ([settled(5)], [], ""),
        ([settled(None, is_taken=False)], [], ""),
        ([], [read()], ""),
        ([], [], "neither acknowledged nor"),
        ([settled(5, is_taken=False)], [], "neither acknowledged nor"),
        ([settled(5, kind=Kind.RELEASE)], [], "neither acknowledged nor"),
    ],
)
def test_everything_popped_is_over_in_the_end(
    words: list[Settled], letters: list[Read], told: str
) -> None:
    found = not_over(ShareNotes(settled=words), WRITTEN, by_value(*letters))
    assert is_found(found, told)


# --- what is sent back ---------------------------------------------------------------------------

BACK = Returned("a", 0, 2, 1_000, 20 * MS, is_taken=True)
GIVEN_UP = BACK._replace(times=2)


@pytest.mark.parametrize(
    ("returned", "retries", "letters", "told"),
    [
        ([BACK], [read(ms=1_020, rmq_times="1")], [], ""),
        ([BACK], [read(ms=1_020, rmq_times="1"), read(at=1, ms=1_900, rmq_times="1")], [], ""),
        ([BACK], [read(ms=1_019, rmq_times="1")], [], "1 ms early"),
        ([BACK], [read(ms=1_020, rmq_times="2")], [], "for the 2. time"),
        ([BACK], [read(ms=1_020)], [], "for the 0. time"),
        ([GIVEN_UP], [], [read()], ""),
        ([GIVEN_UP], [read(ms=1_020, rmq_times="3")], [], "nobody asked"),
        ([BACK], [], [read()], "nobody gave it up"),
    ],
)
def test_what_comes_again_is_judged(
    returned: list[Returned], retries: list[Read], letters: list[Read], told: str
) -> None:
    assert is_found(judge_returns(returned, retries, letters, CLOCK), told)


@pytest.mark.parametrize(
    ("returned", "retries", "letters", "told"),
    [
        (BACK, [read(rmq_times="1")], [], ""),
        (GIVEN_UP, [], [read()], ""),
        (BACK._replace(is_taken=False), [], [], ""),
        (BACK, [read(rmq_times="2")], [], "comes no more"),
        (BACK, [], [read()], "comes no more"),
        (GIVEN_UP, [read(rmq_times="3")], [], "no dead letter"),
    ],
)
def test_what_is_sent_back_is_somewhere_in_the_end(
    returned: Returned, retries: list[Read], letters: list[Read], told: str
) -> None:
    assert is_found(not_back([returned], retries, letters), told)


# --- what is pulled ------------------------------------------------------------------------------


def test_what_is_pulled_is_what_kafka_clients_read() -> None:
    notes = PullNotes()
    notes.note((0, 0), "a")
    notes.note((0, 0), "a")
    assert judge_pulls(notes, by_place(read()), RULES) == []
    assert judge_pulls(notes, {}, RULES) == []
    assert is_found(judge_pulls(notes, by_place(read("b")), RULES), "a Kafka client reads b")
    notes.note((0, 0), "c")
    assert is_found(judge_pulls(notes, by_place(read()), RULES), "and then c")
    assert not_pulled(notes, [(0, 0)]) == []
    assert is_found(not_pulled(notes, [(0, 0), (0, 1)]), "(0, 1) was never pulled")


def updated(position: int, asked: int, told: int | None, partition: int = 0) -> Updated:
    return Updated(partition, position, asked, told, told is not None)


@pytest.mark.parametrize(
    ("updates", "position", "told"),
    [
        ([], -1, ""),
        ([updated(5, 1, 2)], 5, ""),
        ([updated(5, 1, 2), updated(7, 3, None)], 7, ""),
        ([updated(5, 1, 2), updated(7, 3, None)], 5, ""),
        ([updated(5, 1, None), updated(7, 3, 4)], 5, ""),  # it may have come late
        ([updated(7, 3, 20)], -1, ""),  # acknowledged after it was asked for
        ([updated(5, 1, 2), updated(7, 3, 4)], 5, "is 5, and was 7"),
        ([updated(5, 1, 2)], -1, "is -1, and was 5"),
        ([updated(5, 1, 2)], 6, "nobody has told position 6"),
        ([updated(6, 11, 12)], 6, "nobody has told position 6"),
        ([updated(9, 1, 2, partition=1)], -1, ""),
    ],
)
def test_positions_do_not_go_back(updates: list[Updated], position: int, told: str) -> None:
    notes: Any = PullNotes(updates=updates, told=[Told(0, position, 10, 11)])
    assert is_found(judge_pulls(notes, {}, RULES), told)


@pytest.mark.parametrize(
    ("asked_ns", "told"),
    [(48, "is 5, and was 7"), (49, ""), (70, ""), (71, "is 5, and was 7")],
)
def test_a_coordinator_that_has_just_woken_may_tell_an_old_position(
    asked_ns: int, told: str
) -> None:
    old = Told(0, 5, asked_ns, asked_ns + 1)
    notes = PullNotes(updates=[updated(5, 1, 2), updated(7, 3, 4)], told=[old])
    assert is_found(judge_pulls(notes, {}, RULES), told)
