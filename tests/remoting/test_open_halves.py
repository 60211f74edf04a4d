"""Which half messages wait, as a state machine beside a list that does the same slowly."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.record.build import Record
from penstock.remoting.errors import IllegalMessage
from penstock.remoting.halves.producers import Producers
from penstock.remoting.halves.record import (
    OWN_OFFSET,
    Checked,
    Decided,
    Event,
    Half,
    Outcome,
    Settled,
    checked_record,
    copy_of,
    decided_record,
    discarded,
    event_of,
    half_record,
    is_copy,
    message_of,
    settled_record,
)
from penstock.remoting.halves.state import OpenHalves, Verdict
from penstock.remoting.halves.times import KEPT_MS, Times
from penstock.remoting.halves.turns import LOOKED_MAX
from penstock.remoting.heartbeat import Heartbeat, ProducerGroup
from penstock.remoting.members import TooManyMembers

TOPIC = bytes(range(16))
NUMBERS = st.integers(0, 15)
OUTCOMES = st.sampled_from(Outcome)


def half(number: int = OWN_OFFSET, due_ms: int = 0, checks: int = 0, group: str = "g") -> Half:
    return Half(number, due_ms, checks, TOPIC, 3, group)


EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(half, due_ms=st.integers(0, 9_000), group=st.sampled_from("ab")),
    st.builds(half, NUMBERS, st.integers(0, 9_000), st.integers(0, 3), st.just("a")),
    st.builds(Decided, NUMBERS, OUTCOMES, st.sampled_from([b"", TOPIC])),
    st.builds(Checked, NUMBERS, st.integers(1, 5), st.integers(0, 9_000)),
    st.just(Settled()),
)


class Slow:
    """The same in lists."""

    def __init__(self) -> None:
        self.open: list[tuple[int, Half, int]] = []
        self.decided: dict[int, Outcome | None] = {}
        """None where nothing tells the topic."""

    def apply(self, event: Event, offset: int) -> None:
        match event:
            case Half():
                number = offset if event.number == OWN_OFFSET else event.number
                if number in self.decided:
                    return
                self.open = [one for one in self.open if one[0] != number]
                self.open.append((number, event._replace(number=number), offset))
            case Decided():
                is_open = any(one[0] == event.number for one in self.open)
                is_named = event.outcome is not Outcome.DISCARD and event.topic_id
                self.open = [one for one in self.open if one[0] != event.number]
                outcome = event.outcome if is_open or is_named else None
                self.decided.setdefault(event.number, outcome)
            case Checked():
                self.open = [
                    (n, one._replace(checks=event.checks, due_ms=event.due_ms), at)
                    if n == event.number
                    else (n, one, at)
                    for n, one, at in self.open
                ]
            case Settled():
                pass


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENTS, max_size=40), st.integers(0, 10_000))
def test_what_waits_is_what_a_list_says(events: list[Event], now_ms: int) -> None:
    halves, slow = OpenHalves(), Slow()
    for offset, event in enumerate(events):
        halves.apply(event, offset, offset)
        slow.apply(event, offset)
    assert [(one.half.number, one.half, one.at) for one in halves.firsts(99)] == slow.open
    assert len(halves) == len(slow.open)
    assert halves.of_group == Counter((one.group, one.topic_id) for _, one, _ in slow.open)
    assert halves.of_topic == Counter(one.topic_id for _, one, _ in slow.open)
    first = halves.first()
    assert (None if first is None else first.at) == (slow.open[0][2] if slow.open else None)
    for number in range(45):
        for outcome in Outcome:
            assert halves.verdict(number, outcome) is verdict(slow, number, outcome)
    due = set()
    while found := halves.due(now_ms, 3):
        assert len(found) <= 3
        for one in found:
            due.add(one.half.number)
            halves.postpone(one.half.number, 1_000_000)
    assert due == {n for n, one, _ in slow.open if -(-one.due_ms // 1_000) * 1_000 <= now_ms}


def verdict(slow: Slow, number: int, outcome: Outcome) -> Verdict:
    if any(number == one for one, _, _ in slow.open):
        return Verdict.NEW
    decided = slow.decided.get(number)
    if decided is None:
        return Verdict.UNKNOWN
    return Verdict.SAME if decided == outcome else Verdict.CONTRARY


def test_so_many_decisions_are_remembered() -> None:
    halves = OpenHalves(remembered_max=2)
    for number in range(3):
        halves.apply(half(), number, 0)
        halves.apply(Decided(number, Outcome.COMMIT), 10 + number, 0)
    verdicts = [halves.verdict(number, Outcome.COMMIT) for number in range(3)]
    assert verdicts == [Verdict.UNKNOWN, Verdict.SAME, Verdict.SAME]


def test_the_longest_waiting_are_due_first() -> None:
    halves = OpenHalves()
    for offset, due_ms in enumerate((9_000, 2_000, 5_000)):
        halves.apply(half(due_ms=due_ms), offset, 0)
    assert [one.half.due_ms for one in halves.due(10_000, 1)] == [2_000]


def test_the_age_of_one_that_was_moved_is_its_first_one() -> None:
    halves = OpenHalves()
    halves.apply(half(), 0, 100)
    halves.apply(half(), 1, 200)
    halves.apply(half(0), 2, 300)
    assert halves.oldest_ms() == 100
    halves.apply(Decided(0, Outcome.COMMIT), 3, 400)
    assert halves.oldest_ms() == 200


@given(st.builds(Half, NUMBERS, NUMBERS, NUMBERS, st.binary(min_size=16, max_size=16), NUMBERS,
                 st.text(max_size=20)))  # fmt: skip
def test_a_half_message_is_read_as_it_was_written(written: Half) -> None:
    record = Record(b"k", b"v", (("a", b"b"), ("rmq.half", b"forged")), 5)
    stored = half_record(written, record)
    assert event_of(stored) == written
    assert message_of(stored) == record


def test_other_records_are_read_as_they_were_written() -> None:
    for decided in (Decided(7, Outcome.ROLLBACK), Decided(7, Outcome.COMMIT, TOPIC, 2, 9)):
        assert event_of(decided_record(decided, 1)) == decided
    assert event_of(checked_record(Checked(1, 2, 3), 1)) == Checked(1, 2, 3)
    assert event_of(settled_record(1)) == Settled()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rmq.half", b"1 2 3"),
        ("rmq.half", b"1 2 3 zz 4 g"),
        ("rmq.half", None),
        ("rmq.half", b"\xff"),
        ("rmq.decided", b"1 perhaps - 0 -1"),
        ("rmq.decided", b"1 commit"),
        ("rmq.checked", b"x 1 2"),
        ("other", b"1"),
    ],
)
def test_a_record_of_nobody_s_is_none(name: str, value: bytes | None) -> None:
    assert event_of(Record(None, b"v", ((name, value),))) is None
    assert event_of(Record(None, b"v", ())) is None


def test_a_copy_has_its_number_and_no_mark_of_a_half_message() -> None:
    headers = (("rmq.id", b"ID"), ("rmq.TRAN_MSG", b"true"), ("a", b"b"))
    record = half_record(half(), Record(b"k", b"v", headers, 5))
    copy = copy_of(record, 41, "PLACE", 9)
    assert dict(copy.headers) == {
        "rmq.id": b"ID",
        "a": b"b",
        "rmq.__transactionId__": b"ID",
        "rmq.TRAN_PREPARED_QUEUE_OFFSET": b"41",
        "rmq.born": b"5",
    }
    assert (copy.key, copy.value, copy.timestamp_ms) == (b"k", b"v", 9)
    assert is_copy(copy, 41)
    assert not is_copy(copy, 4)
    told = dict(discarded(record, half(41, checks=15), "events", "PLACE", 9).headers)
    assert (told["rmq.REAL_TOPIC"], told["rmq.TRANSACTION_CHECK_TIMES"]) == (b"events", b"15")


@pytest.mark.parametrize(
    ("text", "first_ms"),
    [(None, 6_000), ("-1", 6_000), ("0", 0), ("90", 90_000), ("9999999999", KEPT_MS)],
)
def test_the_first_check_is_when_the_message_says(text: str | None, first_ms: int) -> None:
    told = {} if text is None else {"CHECK_IMMUNITY_TIME_IN_SECONDS": text}
    assert Times().first_check_ms(told) == first_ms


@pytest.mark.parametrize("text", ["", "x", "-2", "1.5", "²", "9" * 5_000])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(IllegalMessage, match="seconds"):
        Times().first_check_ms({"CHECK_IMMUNITY_TIME_IN_SECONDS": text})


def beat(client: str, *groups: str) -> Heartbeat:
    return Heartbeat(client_id=client, producers=tuple(map(ProducerGroup, groups)))


def anyone(_: Any) -> bool:
    return True


def test_producers_take_turns_and_leave_with_their_connection() -> None:
    producers: Producers[str] = Producers()
    producers.note(beat("one", "g"), "c1", 0)
    producers.note(beat("two", "g", "h"), "c2", 0)
    assert [producers.next_of("g", anyone) for _ in range(4)] == ["c1", "c2", "c1", "c2"]
    assert producers.next_of("g", lambda one: one == "c2") == "c2"
    assert producers.next_of("g", lambda _: False) is None
    producers.note(beat("two", "g", "h"), "c3", 1)
    producers.closed("c2")
    assert (producers.count, producers.next_of("h", anyone)) == (3, "c3"), "it is elsewhere"
    producers.leave("two", "h", "c1")
    assert producers.next_of("h", anyone) == "c3", "who leaves is not who came"
    producers.leave("two", "h", "c3")
    producers.expire(120_000)
    assert [producers.next_of("g", anyone) for _ in range(2)] == ["c3", "c3"]
    producers.expire(120_001)
    assert (producers.count, producers.next_of("g", anyone)) == (0, None)


def test_producers_are_bounded() -> None:
    producers: Producers[str] = Producers(most=1)
    producers.note(beat("one", "g"), "c1", 0)
    producers.note(beat("one", "g"), "c1", 1)
    with pytest.raises(TooManyMembers):
        producers.note(beat("two", "g"), "c2", 0)


def test_a_client_id_is_its_user_s_own() -> None:
    producers: Producers[str] = Producers()
    producers.note(beat("one", "g"), "c1", 0, "alice")
    producers.note(beat("one", "g"), "c2", 0, "bob")
    producers.leave("one", "g", "c2", "alice")
    assert {producers.next_of("g", anyone) for _ in range(2)} == {"c1", "c2"}
    producers.closed("c2")
    assert [producers.next_of("g", anyone) for _ in range(2)] == ["c1", "c1"]
    assert producers.count == 1


def test_a_user_leaves_places_of_producers_to_others() -> None:
    producers: Producers[str] = Producers(most=4)
    producers.note(beat("one", "a", "b", "c"), "c1", 0, "alice")
    with pytest.raises(TooManyMembers):
        producers.note(beat("one", "d"), "c1", 0, "alice")
    producers.note(beat("one", "d"), "c2", 0, "bob")
    with pytest.raises(TooManyMembers):
        producers.note(beat("two", "d"), "c3", 0, "bob")
    producers.closed("c1")
    producers.note(beat("two", "d"), "c1", 0, "alice")
    assert producers.count == 2


def test_a_question_looks_at_some_of_each_user_and_the_next_one_behind_them() -> None:
    producers: Producers[str] = Producers()
    for number in range(2 * LOOKED_MAX):
        producers.note(beat(f"crowd-{number}", "g"), f"a{number}", 0, "alice")
    producers.note(beat("one", "g"), "c1", 0, "bob")
    looked: list[str] = []

    def is_fit(connection: str) -> bool:
        looked.append(connection)
        return connection == "c1"

    assert producers.next_of("g", is_fit) == "c1"
    assert producers.next_of("g", is_fit) == "c1"
    of_alice = [one for one in looked if one != "c1"]
    assert len(of_alice) == len(set(of_alice)) <= LOOKED_MAX
