"""The twins of what every accepted record goes through: the same bytes, the same cells."""

import random
from array import array
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.shares.cells import ACQUIRED, CELLS, DEAD, DONE, FREE, STATE_COUNT, Chunk
from penstock.shares.reading import OFFSET_MAX, RUNS_MAX
from penstock.shares.records import decode_update, encode_update
from penstock.shares.runs import SPAN_MAX, Run, runs_of
from penstock.shares.state import Acquired, Settled
from penstock.shares.updates import compiled, plain

offsets = st.lists(st.integers(0, OFFSET_MAX - 1), max_size=60) | st.lists(
    st.integers(5_000, 5_040), max_size=60
)
MEMBERS = 3
together = pytest.mark.parametrize("twin", [plain.settle_lone, compiled.settle_lone])


def ordered_runs(numbers: list[int]) -> list[Run]:
    """Runs that ascend and do not touch, as the journal has them."""
    return runs_of(sorted(numbers))


@given(offsets)
def test_runs_of_offsets_are_the_same_and_hold_all_of_them(numbers: list[int]) -> None:
    ascending = sorted(numbers)
    found = compiled.runs_of(ascending)
    assert found == runs_of(ascending)
    assert {each for first, end in found[:9] for each in (first, end - 1)} <= {*numbers}
    assert all(end < following for (_, end), (following, _) in pairwise(found))


@given(offsets.filter(bool), st.integers(0, 1 << 63), st.integers(0, (1 << 32) - 1))
def test_the_bytes_of_updates_are_the_same_and_are_read_back(
    numbers: list[int], seq: int, number: int
) -> None:
    runs = ordered_runs(numbers)
    for kind, fields in ((4, (DONE,)), (3, (number, 1, 1, number)), (6, ())):
        value = plain.with_runs(seq, kind, fields, runs)
        assert compiled.with_runs(seq, kind, fields, runs) == value
    runs = [run for run in runs if run[1] - runs[0][0] <= SPAN_MAX]
    for update in (Settled(DEAD, runs), Acquired(number, 9, "", number, runs)):
        assert decode_update(encode_update(seq, update)) == (seq, update)


def test_an_update_of_as_many_runs_as_there_may_be_is_the_same() -> None:
    runs = [(OFFSET_MAX - 2 * at, OFFSET_MAX - 2 * at + 1) for at in reversed(range(RUNS_MAX))]
    fields = (1 << 32,) * 4
    assert compiled.with_runs(9, 3, fields, runs) == plain.with_runs(9, 3, fields, runs)


@pytest.mark.parametrize("make", [plain.with_runs, compiled.with_runs])
@pytest.mark.parametrize("runs", [[(4, 5), (3, 4)], [(4, 4)], [(4, 6), (5, 7)]])
def test_runs_that_do_not_ascend_are_a_mistake(make: Callable[..., bytes], runs: Any) -> None:
    with pytest.raises(AssertionError):
        make(1, 4, (DONE,), runs)


def chunks_of(states: bytes, members: "array[int]") -> dict[int, Chunk]:
    """Two chunks with these cells at the end of the first and the start of the second."""
    made = {number: Chunk(is_ordered=False) for number in (0, 1)}
    half = len(states) // 2
    made[0].states[CELLS - half :], made[1].states[: len(states) - half] = (
        states[:half],
        states[half:],
    )
    made[0].members[CELLS - half :] = members[:half]
    made[1].members[: len(states) - half] = members[half:]
    return made


@given(st.binary(min_size=2, max_size=40), st.integers(0, 1 << 32))
def test_lone_records_are_settled_alike(drawn: bytes, seed: int) -> None:
    draw = random.Random(seed)
    states = bytes(each % STATE_COUNT for each in drawn)
    members = array("H", [draw.randrange(MEMBERS) for _ in states])
    begin = CELLS - len(states) // 2
    chosen = [begin + at for at in range(len(states)) if draw.random() < 0.5]
    runs, outcomes = ordered_runs(chosen), []
    for twin in (plain.settle_lone, compiled.settle_lone):
        chunks, in_flight = chunks_of(states, members), [100] * MEMBERS
        left, count = twin(chunks, in_flight, runs, DONE)
        cells = [bytes(chunk.states) for chunk in chunks.values()]
        outcomes.append((left, count, in_flight, cells))
    assert outcomes[0] == outcomes[1]
    assert sum(outcomes[0][2]) == 100 * MEMBERS - outcomes[0][1]


@together
def test_only_what_is_held_is_settled_and_others_are_left(twin: Callable[..., Any]) -> None:
    chunks, in_flight = {0: Chunk(is_ordered=False)}, [0, 2]
    chunks[0].states[:6] = bytes((ACQUIRED, FREE, ACQUIRED, ACQUIRED, FREE, DONE))
    chunks[0].members[0] = 1
    assert twin(chunks, in_flight, [(0, 1), (2, 4), (5, 6)], DONE) == ([(2, 4), (5, 6)], 1)
    assert in_flight == [0, 1]
    assert bytes(chunks[0].states[:4]) == bytes((DONE, FREE, ACQUIRED, ACQUIRED))
