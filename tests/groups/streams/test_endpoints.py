"""Endpoints of many members are gathered in a short turn, or not told."""

from penstock.base.ids import MemberEpoch, TopologyEpoch
from penstock.groups.assigned.currents import Current, MemberState
from penstock.groups.streams.configured import Configured, ConfiguredSubtopology
from penstock.groups.streams.endpoints import TOLD_MAX, endpoints_of
from penstock.groups.streams.group import StreamsGroup, endpoints_changed
from penstock.groups.streams.records import Endpoint, MemberFacts
from penstock.groups.streams.tasks import Role, key_of
from tests.turn_calls import counted_calls

MEMBERS, PARTS = 500, 500


def large_group(topics_each: int) -> StreamsGroup:
    """Members with a task each, of subtopologies that read so many topics each."""
    group = StreamsGroup("g", 0, wall_ms=0)
    parts = []
    for number in range(PARTS):
        sources = tuple(f"t{number}-{one}" for one in range(topics_each))
        parts.append(ConfiguredSubtopology(f"s{number}", 1, sources, (), (), ()))
    counts = {topic: 1 for one in parts for topic in one.sources}
    group.configured = Configured(TopologyEpoch(0), tuple(parts), counts=counts)
    for number in range(MEMBERS):
        name = f"m{number}"
        endpoint = Endpoint(name, 80)
        group.tables.facts[name] = MemberFacts(
            None, None, "", "", 1, TopologyEpoch(0), "", endpoint, ()
        )
        tasks = {key_of(Role.ACTIVE, f"s{number}"): frozenset({0})}
        group.currents[name] = Current(
            MemberEpoch(1), MemberEpoch(0), MemberState.STABLE, tasks, {}
        )
    endpoints_changed(group)
    return group


def test_many_members_and_subtopologies_are_gathered_in_few_calls() -> None:
    group = large_group(1)
    found, calls = counted_calls(lambda: endpoints_of(group))
    assert [one.active for one in found] == [{f"t{n}-0": (0,)} for n in range(MEMBERS)]
    assert calls < 40 * MEMBERS


def test_more_than_an_answer_may_have_is_not_told() -> None:
    assert endpoints_of(large_group(TOLD_MAX // MEMBERS)) == ()
