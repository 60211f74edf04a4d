"""How many partitions repartition topics get, where subtopologies read what each other write."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import TopologyEpoch
from penstock.groups.streams.configured import Configured, configure
from penstock.groups.streams.status import StatusCode
from penstock.groups.streams.topology import CopartitionGroup, Subtopology, Topology
from tests.groups.streams.test_large_topologies import internal, part

COUNTS = {"articles": 3, "comments": 5}
NAMES = [f"r{number}" for number in range(5)]


def configured(*parts: Subtopology) -> Configured:
    steps = configure(Topology(TopologyEpoch(0), parts), COUNTS, {}, tasks_max=1_000)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: Configured = end.value
            return made


def test_the_two_sides_of_a_join_by_a_foreign_key_read_what_each_other_writes() -> None:
    """As in Kafka's RelationalSmokeTest: comments look up their articles."""
    left = part(
        "comments",
        ("comments",),
        repartition_sources=(internal("response"),),
        repartition_sinks=("subscription",),
        copartition_groups=(CopartitionGroup((0,), (), (0,)),),
    )
    right = part(
        "articles",
        ("articles",),
        repartition_sources=(internal("subscription"),),
        repartition_sinks=("response",),
        copartition_groups=(CopartitionGroup((0,), (), (0,)),),
    )
    made = configured(left, right)
    assert made.status is not None
    assert made.status.code is StatusCode.MISSING_INTERNAL_TOPICS
    assert {one.name: one.partitions for one in made.missing} == {"response": 5, "subscription": 3}


def reached(links: list[tuple[set[str], set[str]]]) -> dict[str, int]:
    """Return the largest number that reaches each topic: hand on until nothing changes."""
    found: dict[str, int] = {}
    for _ in range(len(NAMES) * len(links) + 1):
        for read, written in links:
            most = max((COUNTS.get(name, found.get(name, 0)) for name in read), default=0)
            for name in written:
                found[name] = max(found.get(name, 0), most)
    return {name: count for name, count in found.items() if count}


_SOME = st.sets(st.sampled_from([*COUNTS, *NAMES]), min_size=1)


@given(st.lists(st.tuples(_SOME, st.sets(st.sampled_from(NAMES))), min_size=1, max_size=6))
def test_a_topic_has_the_largest_number_that_reaches_it(
    links: list[tuple[set[str], set[str]]],
) -> None:
    parts = [
        part(
            str(number),
            tuple(read & COUNTS.keys()),
            repartition_sources=tuple(internal(name) for name in sorted(read - COUNTS.keys())),
            repartition_sinks=tuple(written),
        )
        for number, (read, written) in enumerate(links)
    ]
    wanted = {name for read, _ in links for name in read - COUNTS.keys()}
    found = {name: count for name, count in reached(links).items() if name in wanted}
    made = configured(*parts)
    if found.keys() == wanted:
        assert {name: made.counts[name] for name in wanted} == found
    else:
        assert made.status is not None
        assert made.status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
