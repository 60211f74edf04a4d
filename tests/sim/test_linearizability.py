"""The search finds every planted violation, agrees with brute force, and says when it gave up."""

import itertools
from collections.abc import Hashable, Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.history.controllers import (
    AlterConfig,
    Answer,
    CompareAndSet,
    ControllerModel,
    CreateTopic,
    DeleteTopic,
    Elect,
    LeaderSeen,
    ReadConfig,
    ReadLeader,
    ReadRegister,
    ReadTopic,
    TopicSeen,
)
from simulator.history.linearizability import (
    UNKNOWN,
    Operation,
    Recorder,
    Verdict,
    check_linearizable,
)

REGISTER = ("registration", 1)
TOPIC = ("topic", "t")
SET = ("leadership", 0)
MODEL = ControllerModel()


def op(
    call: Hashable,
    result: Hashable,
    start: int,
    end: int | None,
    key: tuple[str, Hashable] = REGISTER,
) -> Operation:
    return Operation("c", key, call, start, end, result)


def verdict(*operations: Operation) -> Verdict:
    return check_linearizable(operations, MODEL).verdict


def cas(expected: object, value: object) -> CompareAndSet:
    return CompareAndSet(expected, value)


GOOD, BAD = Verdict.LINEARIZABLE, Verdict.VIOLATION


def test_one_after_the_other_is_linearizable() -> None:
    assert verdict() is GOOD
    assert verdict(op(cas(None, 1), Answer.OK, 0, 1), op(ReadRegister(), 1, 2, 3)) is GOOD


def test_a_read_of_what_was_replaced_before_it_began_is_found() -> None:
    history = (
        op(cas(None, 1), Answer.OK, 0, 1),
        op(cas(1, 2), Answer.OK, 2, 3),
        op(ReadRegister(), 1, 4, 5),
    )
    judged = check_linearizable(history, MODEL)
    assert judged.verdict is BAD
    assert "ReadRegister" in judged.detail
    assert verdict(*history[:2], op(ReadRegister(), 1, 3, 5)) is GOOD  # it began before


def test_two_winners_of_one_compare_and_set_are_found() -> None:
    assert verdict(op(cas(None, 1), Answer.OK, 0, 9), op(cas(None, 2), Answer.OK, 0, 9)) is BAD
    lost = op(cas(None, 2), Answer.CONFLICT, 0, 9)
    assert verdict(op(cas(None, 1), Answer.OK, 0, 9), lost) is GOOD


def test_a_conflict_with_nobody_is_found() -> None:
    assert verdict(op(cas(None, 1), Answer.CONFLICT, 0, 9)) is BAD


def test_an_unanswered_operation_may_have_happened_late_or_never() -> None:
    lost = op(cas(None, 1), UNKNOWN, 0, None)
    assert verdict(lost, op(ReadRegister(), None, 5, 6)) is GOOD
    assert verdict(lost, op(ReadRegister(), None, 5, 6), op(ReadRegister(), 1, 7, 8)) is GOOD
    assert verdict(lost, op(ReadRegister(), 1, 5, 6), op(ReadRegister(), None, 7, 8)) is BAD


def test_a_topic_that_was_created_twice_is_found() -> None:
    first, second = (
        op(CreateTopic(3), Answer.OK, 0, 5, TOPIC),
        op(CreateTopic(3), Answer.OK, 2, 9, TOPIC),
    )
    assert verdict(first, second) is BAD
    assert verdict(first, op(DeleteTopic(), Answer.OK, 1, 9, TOPIC), second) is GOOD


def test_a_topic_that_came_back_after_its_deletion_is_found() -> None:
    history = [
        op(CreateTopic(3), Answer.OK, 0, 1, TOPIC),
        op(DeleteTopic(), Answer.OK, 2, 3, TOPIC),
    ]
    assert verdict(*history, op(ReadTopic(), Answer.MISSING, 4, 5, TOPIC)) is GOOD
    assert verdict(*history, op(ReadTopic(), TopicSeen("id", 3), 4, 5, TOPIC)) is BAD


def test_a_topic_keeps_its_id() -> None:
    made = op(CreateTopic(3), Answer.OK, 0, 1, TOPIC)
    one = op(ReadTopic(), TopicSeen("id", 3), 2, 3, TOPIC)
    assert verdict(made, one, op(ReadTopic(), TopicSeen("id", 3), 4, 5, TOPIC)) is GOOD
    assert verdict(made, one, op(ReadTopic(), TopicSeen("other", 3), 4, 5, TOPIC)) is BAD
    assert verdict(made, op(ReadTopic(), TopicSeen("id", 4), 2, 3, TOPIC)) is BAD


def test_a_config_that_was_acknowledged_and_is_not_there_is_found() -> None:
    made = op(CreateTopic(1), Answer.OK, 0, 1, TOPIC)
    set_to = op(AlterConfig("retention.ms", "7"), Answer.OK, 2, 3, TOPIC)
    read = ReadConfig("retention.ms")
    assert verdict(made, set_to, op(read, "7", 4, 5, TOPIC)) is GOOD
    assert verdict(made, set_to, op(read, None, 4, 5, TOPIC)) is BAD
    taken = op(AlterConfig("retention.ms", None), Answer.OK, 6, 7, TOPIC)
    assert verdict(made, set_to, taken, op(read, None, 8, 9, TOPIC)) is GOOD


def test_an_epoch_that_goes_back_or_has_two_masters_is_found() -> None:
    def saw(epoch: int, master: int, at: int) -> Operation:
        return op(ReadLeader(), LeaderSeen(epoch, master), at, at + 1, SET)

    assert verdict(saw(1, 1, 0), saw(3, 2, 2), saw(3, 2, 4), saw(3, -1, 6), saw(4, 2, 8)) is GOOD
    assert verdict(saw(2, 1, 0), saw(1, 1, 2)) is BAD
    assert verdict(saw(2, 1, 0), saw(2, 2, 2)) is BAD
    assert verdict(saw(2, -1, 0), saw(2, 1, 2)) is BAD


def test_two_elections_of_one_epoch_can_not_both_win() -> None:
    first = op(Elect(4), LeaderSeen(5, 1), 0, 9, SET)
    assert verdict(first, op(Elect(4), LeaderSeen(6, 2), 0, 9, SET)) is BAD
    assert verdict(first, op(Elect(4), Answer.CONFLICT, 0, 9, SET)) is GOOD
    assert verdict(first, op(Elect(5), LeaderSeen(6, 2), 0, 9, SET)) is GOOD


def test_keys_do_not_touch_each_other() -> None:
    other = ("registration", 2)
    wins = [op(cas(None, 1), Answer.OK, 0, 1), op(cas(None, 1), Answer.OK, 2, 3, other)]
    assert verdict(*wins) is GOOD


def _entangled(count: int) -> list[Operation]:
    """Unanswered changes, all under way at once, and a read that none of their orders explains."""
    lost = [op(cas(each, each + 1), UNKNOWN, 0, None) for each in range(count)]
    first = op(cas(None, 0), Answer.OK, 0, 1)
    return [first, *lost, op(ReadRegister(), "never", 5, 6)]


def test_a_search_that_hits_its_bound_says_unknown() -> None:
    judged = check_linearizable(_entangled(12), MODEL, steps_max=20)
    assert judged.verdict is Verdict.UNKNOWN
    assert "not decided" in judged.detail
    assert judged.steps <= 20
    assert check_linearizable(_entangled(12), MODEL).verdict is BAD


def test_a_violation_of_one_key_outweighs_an_unknown_one() -> None:
    bad = op(ReadRegister(), 7, 0, 1, ("registration", 2))
    assert check_linearizable([*_entangled(12), bad], MODEL, steps_max=20).verdict is BAD


def test_a_long_history_of_few_clients_is_decided_quickly() -> None:
    history = []
    for number in range(2000):
        history.append(op(cas(number or None, number + 1), Answer.OK, number * 4, number * 4 + 3))
        history.append(op(ReadRegister(), number + 1, number * 4 + 1, number * 4 + 5))
    judged = check_linearizable(history, MODEL)
    assert judged.verdict is GOOD
    assert judged.steps < 20_000


def test_the_recorder_notes_answers_refusals_and_silence() -> None:
    clock = itertools.count(100)
    recorder = Recorder(lambda: next(clock))
    made = recorder.began("a", TOPIC, CreateTopic(1))
    refused = recorder.began("b", TOPIC, DeleteTopic())
    recorder.began("c", TOPIC, DeleteTopic())
    recorder.answered(made, Answer.OK)
    recorder.refused(refused)
    read = recorder.began("a", TOPIC, ReadTopic())
    recorder.answered(read, Answer.MISSING, stale_ns_max=50)
    assert recorder.history() == [
        Operation("a", TOPIC, CreateTopic(1), 100, 103, Answer.OK),
        Operation("c", TOPIC, DeleteTopic(), 102, None, UNKNOWN),
        Operation("a", TOPIC, ReadTopic(), 54, 105, Answer.MISSING),
    ]
    assert check_linearizable(recorder.history(), MODEL).verdict is GOOD


def _orders(operations: Sequence[Operation]) -> Iterable[tuple[Operation, ...]]:
    """Yield every order, with and without each of the unanswered operations."""
    lost = [operation for operation in operations if operation.end_ns is None]
    certain = [operation for operation in operations if operation.end_ns is not None]
    for count in range(len(lost) + 1):
        for chosen in itertools.combinations(lost, count):
            yield from itertools.permutations([*certain, *chosen])


def _explains(order: Sequence[Operation]) -> bool:
    for at, one in enumerate(order):
        if any(later.end_ns is not None and later.end_ns < one.start_ns for later in order[at:]):
            return False
    states: set[Hashable] = {MODEL.initial(order[0].key)} if order else set()
    for one in order:
        states = {n for s in states for n in MODEL.steps(s, one.call, one.result)}
    return not order or bool(states)


_values = st.sampled_from([None, 1, 2])
_registers = st.one_of(
    st.tuples(
        st.builds(CompareAndSet, _values, st.sampled_from([1, 2])),
        st.sampled_from([Answer.OK, Answer.CONFLICT]),
        st.just(REGISTER),
    ),
    st.tuples(st.builds(ReadRegister), _values, st.just(REGISTER)),
)
_seen = st.builds(LeaderSeen, st.integers(0, 2), st.integers(-1, 2))
_leaders = st.one_of(
    st.tuples(
        st.builds(Elect, st.integers(-1, 1)),
        st.one_of(_seen, st.just(Answer.CONFLICT)),
        st.just(SET),
    ),
    st.tuples(st.builds(ReadLeader), _seen, st.just(SET)),
)
_topics = st.one_of(
    st.tuples(
        st.one_of(st.builds(CreateTopic, st.just(1)), st.builds(DeleteTopic)),
        st.sampled_from(list(Answer)[:3]),
        st.just(TOPIC),
    ),
    st.tuples(
        st.builds(ReadTopic),
        st.one_of(st.just(Answer.MISSING), st.builds(TopicSeen, st.sampled_from("xy"), st.just(1))),
        st.just(TOPIC),
    ),
)


Call = tuple[Hashable, Hashable, tuple[str, Hashable]]


@st.composite
def _histories(draw: st.DrawFn, calls: st.SearchStrategy[Call]) -> list[Operation]:
    history = []
    for call, result, key in draw(st.lists(calls, max_size=5)):
        start = draw(st.integers(0, 12))
        if draw(st.integers(0, 5)) == 0:
            history.append(op(call, UNKNOWN, start, None, key))
        else:
            history.append(op(call, result, start, start + draw(st.integers(0, 8)), key))
    return history


@pytest.mark.parametrize("calls", [_registers, _leaders, _topics], ids=["cas", "leader", "topic"])
def test_the_search_agrees_with_trying_every_order(
    calls: st.SearchStrategy[Call],
) -> None:
    outcomes = set()

    @settings(max_examples=300, deadline=None, database=None)
    @given(_histories(calls))
    def compare(history: list[Operation]) -> None:
        wanted = GOOD if any(map(_explains, _orders(history))) else BAD
        assert check_linearizable(history, MODEL).verdict is wanted
        outcomes.add(wanted)

    compare()
    assert outcomes == {GOOD, BAD}  # both were seen, or this would show nothing
