"""Letting go of large arrays: all of it, a slice at a time, and nothing that others hold."""

import weakref
from dataclasses import dataclass
from typing import Any

from penstock.kafka.let_go import SLICE, let_go, let_go_of_set
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import decode_request, encode_request


class Freed:
    """Counts those that are gone."""

    def __init__(self) -> None:
        self.count = 0

    def watch(self, one: Any) -> Any:
        weakref.finalize(one, self._note)
        return one

    def _note(self) -> None:
        self.count += 1


@dataclass
class Part:
    """An element."""

    number: int


@dataclass
class Whole:
    """An entity with an array, as decoded requests are."""

    name: str
    parts: "tuple[Part | Whole, ...] | None"


def counts_of(owned: list[Any], freed: Freed) -> list[int]:
    """Return how many were freed by each step."""
    counts, before = [], 0
    for _ in let_go(owned):
        counts.append(freed.count - before)
        before = freed.count
    return [*counts, freed.count - before]  # the last step, which ends the generator


def test_elements_are_freed_a_slice_at_a_time_however_they_are_nested() -> None:
    freed = Freed()
    topics = tuple(
        Whole(f"topic-{topic}", tuple(freed.watch(Part(one)) for one in range(1_000)))
        for topic in range(5)
    )
    answer = {"topics": [{"partitions": [freed.watch(Part(one))]} for one in range(3_000)]}
    owned: list[Any] = [Whole("request", topics), answer]
    del topics, answer
    counts = counts_of(owned, freed)
    assert not owned
    assert freed.count == 8_000
    assert max(counts) <= SLICE


def test_the_last_array_is_not_kept_to_the_end() -> None:
    freed = Freed()
    parts = tuple(freed.watch(Part(one)) for one in range(5_000))
    owned: list[Any] = [Whole("request", (Whole("topic", parts),))]
    del parts
    assert max(counts_of(owned, freed)) <= SLICE
    assert freed.count == 5_000


def test_a_set_is_emptied_a_slice_at_a_time() -> None:
    items = {f"topic-{one}" for one in range(5 * SLICE - 1)}
    sizes = [len(items) for _ in let_go_of_set(items)]
    assert sizes == [4 * SLICE - 1, 3 * SLICE - 1, 2 * SLICE - 1, SLICE - 1, 0]


def test_what_somebody_else_holds_stays_as_it_is() -> None:
    freed = Freed()
    shared = [freed.watch(Part(one)) for one in range(2 * SLICE)]
    held = {"topics": shared, "none": None}
    for _ in let_go([held]):
        pass
    assert freed.count == 0
    assert held == {"topics": shared, "none": None}
    assert [one.number for one in shared] == list(range(2 * SLICE))


def test_arrays_of_decoded_requests_are_known() -> None:
    topics = [{"name": f"topic-{one}"} for one in range(3 * SLICE)]
    fields = {"topics": topics, "allow_auto_topic_creation": False}
    frame = encode_request(ApiKey.METADATA, 4, fields)
    owned = [decode_request(ApiKey.METADATA, 4, memoryview(frame), 0)]
    assert len(list(let_go(owned))) >= 4, "the request, and three slices of its topics"
