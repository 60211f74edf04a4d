"""Topologies that are legal and as tangled as they can be are looked at in short steps.

Calls of functions are counted and not time, as in `tests/turn_calls.py`.
"""

from typing import Any

from penstock.base.ids import TopologyEpoch
from penstock.coordinator.portions import PORTION
from penstock.groups.streams.checks import REGEXES_MAX, invalid_regexes
from penstock.groups.streams.configured import SOURCES_MAX, Configured, configure
from penstock.groups.streams.status import StatusCode
from penstock.groups.streams.topology import (
    CopartitionGroup,
    InternalTopic,
    Subtopology,
    Topology,
)
from penstock.protocol.error_codes import ErrorCode
from tests.groups.streams.troupe import Troupe
from tests.turn_calls import CALLS_MAX, counted_calls

WIDE, LONG = 800, 100
COUNTS = {"src": 3}


def internal(name: str, partitions: int = 0) -> InternalTopic:
    return InternalTopic(name, partitions, 0, ())


def part(name: str, sources: tuple[str, ...] = (), **fields: Any) -> Subtopology:
    given = {
        "source_regexes": (),
        "changelogs": (),
        "repartition_sinks": (),
        "repartition_sources": (),
        "copartition_groups": (),
    }
    return Subtopology(subtopology_id=name, source_topics=sources, **{**given, **fields})


def configured(*parts: Subtopology, **matches: tuple[str, ...]) -> Configured:
    """Return what is made of a topology, no step of which was long."""
    steps = configure(Topology(TopologyEpoch(0), parts), COUNTS, matches, tasks_max=20_000)
    ended: list[Configured] = []

    def step() -> None:
        try:
            next(steps)
        except StopIteration as end:
            ended.append(end.value)

    while not ended:
        _, calls = counted_calls(step)
        assert calls < CALLS_MAX
    return ended[0]


def chain() -> list[Subtopology]:
    """Subtopologies of which each reads what the next one writes."""
    links = [
        part(
            f"s{number}",
            repartition_sinks=(f"c{number}",),
            repartition_sources=(internal(f"c{number + 1}"),),
        )
        for number in range(LONG)
    ]
    return [*links, part("z", ("src",), repartition_sinks=(f"c{LONG}",))]


def test_many_topics_behind_a_long_chain_have_the_partitions_of_its_beginning() -> None:
    names = [f"x{number}" for number in range(WIDE)]
    fixed = tuple(internal(f"f{number}", 1) for number in range(WIDE))
    wide = part("a", repartition_sinks=tuple(names), repartition_sources=(*fixed, internal("c0")))
    readers = part("b", repartition_sources=tuple(internal(name) for name in names))
    made = configured(wide, readers, *chain())
    assert {made.counts[name] for name in (*names, "c0", f"c{LONG}")} == {3}


def test_a_chain_that_bites_its_tail_is_told() -> None:
    links = chain()
    links[-1] = part("z", repartition_sinks=(f"c{LONG}",), repartition_sources=(internal("c0"),))
    made = configured(*links)
    assert made.status is not None
    assert made.status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS


def test_many_groups_of_a_subtopology_with_many_topics_are_levelled() -> None:
    fixed = tuple(internal(f"f{number}", 3) for number in range(1_500))
    group = CopartitionGroup((0,), (), (7,))
    made = configured(
        part("a", ("src",), repartition_sources=fixed, copartition_groups=(group,) * 1_900)
    )
    assert made.status is not None
    assert made.status.code is StatusCode.MISSING_INTERNAL_TOPICS


def test_an_expression_that_matches_much_in_many_subtopologies_is_refused() -> None:
    names = tuple(f"t{number}" for number in range(SOURCES_MAX // 50))
    parts = [part(f"s{number}", source_regexes=("all",)) for number in range(60)]
    made = configured(*parts, all=names)
    assert made.status is not None
    assert made.status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS


def test_each_expression_is_compiled_in_a_portion_of_its_own() -> None:
    # One of 256 characters takes 1.3 ms, also if it is refused for its size.
    regexes = tuple(f"(.{{1,30}}){{1,30}}{number}" for number in range(REGEXES_MAX))
    parts = (part("a", source_regexes=regexes[:40]), part("b", source_regexes=regexes[40:]))
    assert [*invalid_regexes(Topology(TopologyEpoch(0), parts))] == [PORTION] * REGEXES_MAX


def test_topologies_count_as_the_objects_that_they_are_until_groups_have_no_memory_left() -> None:
    def texts(number: int) -> tuple[InternalTopic, ...]:
        return tuple(internal(f"x{number}-{one}", 1) for one in range(1_000))

    troupe = Troupe(members_bytes_max=1_000_000, record_bytes_max=1_000_000)
    errors: list[ErrorCode] = []
    for number in range(10):
        topology = Topology(TopologyEpoch(0), (part("a", repartition_sources=texts(number)),))
        (reply,) = troupe.enter("m", topology, group_id=f"g{number}")
        errors.append(reply.error)
    taken = errors.index(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert 2 <= taken <= 5
    assert set(errors[taken:]) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    table = troupe.coordinator._table
    assert table.pinned_bytes >= taken * 200_000
    for number in range(taken):
        assert troupe.beat_as("m", -1, group_id=f"g{number}")[0].error is ErrorCode.NONE
        table.forget(table.groups[f"g{number}"])
    assert table.pinned_bytes == 0
