"""Batches of a run are added to rows of their partitions, by both twins alike."""

import importlib
import importlib.util
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.audit import counts as interpreted
from penstock.audit.counts import NUMBERS, RECORD_COUNT_AT

COMPILED = "penstock.audit._counts"
compiled: Any = importlib.import_module(COMPILED) if importlib.util.find_spec(COMPILED) else None
TWINS = (interpreted,) if compiled is None else (interpreted, compiled)
TOPICS = (b"orders", b"a", bytes(16))
BATCHES = st.lists(
    st.tuples(
        st.sampled_from(TOPICS),
        st.integers(0, 3),
        st.integers(0, (1 << 31) - 1),
        st.integers(RECORD_COUNT_AT + 4, 100),
        st.sampled_from((0, 0, 0, 3)),
    ),
    max_size=20,
)
Batch = tuple[bytes, int, int, int, int]


def run_of(batches: list[Batch]) -> tuple[memoryview, list[Any], list[Any]]:
    """The memory, parts and answers of a run; something lies between two batches."""
    memory, parts = bytearray(b"head"), []
    for topic, partition, records, size, _ in batches:
        batch = bytearray(size)
        batch[RECORD_COUNT_AT : RECORD_COUNT_AT + 4] = records.to_bytes(4, "big")
        parts.append((topic, partition, len(memory), len(memory) + size))
        memory += batch + b"between"
    return memoryview(memory), parts, [(one[0], one[1], one[4]) for one in batches]


class Rows:
    """Rows of partitions as a connection keeps them, at most a few."""

    def __init__(self, twin: Any, most: int) -> None:
        self.kept: dict[bytes, dict[int, Any]] = {}
        self.all: dict[tuple[bytes, int], Any] = {}
        self._twin, self._most = twin, most

    def missing(self, topic: bytes, partition: int) -> Any:
        if sum(map(len, self.kept.values())) >= self._most:
            self.kept.clear()
        found = self.all.setdefault((topic, partition), self._twin.Counts())
        self.kept.setdefault(topic, {})[partition] = found
        return found

    @property
    def told(self) -> dict[tuple[bytes, int], tuple[int, ...]]:
        return {key: tuple(getattr(one, name) for name in NUMBERS) for key, one in self.all.items()}


@pytest.mark.parametrize("twin", TWINS)
@given(BATCHES, st.integers(1, 4), st.integers(0, 3))
def test_sums_of_rows_are_those_of_the_batches(
    twin: Any, batches: list[Batch], most: int, unanswered: int
) -> None:
    memory, parts, answers = run_of(batches)
    answered = answers[: max(0, len(answers) - unanswered)]
    rows = Rows(twin, most)
    twin.count_batches(rows.kept, memory, parts, answered, rows.missing)
    sums: dict[tuple[bytes, int], Counter[str]] = {}
    for topic, partition, records, size, error in batches[: len(answered)]:
        one = sums.setdefault((topic, partition), Counter())
        if error:
            one["errors"] += 1
        else:
            one.update(requests=1, records=records, bytes_in=size)
    assert rows.told == {key: tuple(one[name] for name in NUMBERS) for key, one in sums.items()}


@pytest.mark.parametrize("twin", TWINS)
def test_new_sums_are_nothing(twin: Any) -> None:
    assert [getattr(twin.Counts(), name) for name in NUMBERS] == [0] * len(NUMBERS)


@pytest.mark.skipif(compiled is None, reason="no C compiler was there")
@pytest.mark.parametrize("span", [(0, 60), (4, 200), (-70, 10)])
def test_the_compiled_twin_reads_nothing_outside_the_memory(span: tuple[int, int]) -> None:
    memory = memoryview(bytearray(100))
    missing: Callable[[bytes, int], Any] = lambda *_: compiled.Counts()  # noqa: E731
    with pytest.raises(ValueError, match="a batch of"):
        compiled.count_batches({}, memory, [(b"t", 0, *span)], [(b"t", 0, 0)], missing)
