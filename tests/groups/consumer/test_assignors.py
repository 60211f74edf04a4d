"""The assignors: everything is given once, evenly, to who subscribes, and stays where it was."""

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.assignors.consumer import ASSIGNORS
from penstock.assignors.partitions import NOTHING, Partitions
from penstock.assignors.pools import Made, MemberWish, Pool, pools_of
from penstock.assignors.topic_facts import TopicFacts
from tests.turn_calls import CALLS_MAX, counted_calls

A, B = b"a" * 16, b"b" * 16


def made(steps: Made) -> dict[str, Partitions]:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return dict(end.value)


def assigned(
    name: str, members: Mapping[str, MemberWish], topics: Mapping[bytes, TopicFacts]
) -> dict[str, Partitions]:
    return made(ASSIGNORS[name](members, topics))


def wish(*topics: bytes, rack: str | None = None, had: Partitions = NOTHING) -> MemberWish:
    return MemberWish(frozenset(topics), rack, had)


def topic(topic_id: bytes, count: int, *racks: set[str]) -> TopicFacts:
    return TopicFacts(topic_id, count, [frozenset(some) for some in racks])


def size(partitions: Partitions) -> int:
    return sum(map(len, partitions.values()))


subscriptions = st.sets(st.sampled_from([A, B]))
groups = st.dictionaries(st.sampled_from("vwxyz"), subscriptions, max_size=5)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(subscribed=groups, counts=st.tuples(st.integers(0, 9), st.integers(0, 9)), data=st.data())
def test_every_partition_goes_to_one_subscriber(name, subscribed, counts, data) -> None:
    topics = {A: topic(A, counts[0]), B: topic(B, counts[1])}
    members = {one: wish(*ids) for one, ids in subscribed.items()}
    before = assigned(name, members, topics)
    for number in range(2):
        given_ = [
            (topic_id, each) for ps in before.values() for topic_id, ns in ps.items() for each in ns
        ]
        assert len(given_) == len(set(given_))
        wanted = {
            (topic_id, each)
            for topic_id, facts in topics.items()
            for each in range(facts.partition_count)
            if any(topic_id in one.topics for one in members.values())
        }
        assert set(given_) == wanted
        assert before.keys() == members.keys()
        for one, partitions in before.items():
            assert partitions.keys() <= members[one].topics
        if number == 0:
            gone = data.draw(st.sampled_from([*sorted(members), None]))
            members = {
                one: each._replace(had=before[one]) for one, each in members.items() if one != gone
            }
            before = assigned(name, members, topics)


@given(members=st.integers(1, 8), counts=st.tuples(st.integers(0, 20), st.integers(0, 20)))
def test_uniform_gives_equal_shares_and_moves_as_little_as_possible(members, counts) -> None:
    topics = {A: topic(A, counts[0]), B: topic(B, counts[1])}
    all_ = {f"m{n}": wish(A, B) for n in range(members)}
    before = assigned("uniform", all_, topics)
    sizes = sorted(map(size, before.values()))
    assert sizes[-1] - sizes[0] <= 1
    kept = {one: each._replace(had=before[one]) for one, each in all_.items()}
    assert assigned("uniform", kept, topics) == before
    grown = assigned("uniform", {**kept, "new": wish(A, B)}, topics)
    for one in kept:
        for topic_id, numbers in grown[one].items():
            assert numbers <= before[one].get(topic_id, frozenset()), "only the new one gets any"
    sizes = sorted(map(size, grown.values()))
    assert sizes[-1] - sizes[0] <= 1


@given(subscribed=groups, counts=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_uniform_is_as_even_as_subscriptions_allow(subscribed, counts) -> None:
    topics = {A: topic(A, counts[0]), B: topic(B, counts[1])}
    shares = assigned("uniform", {one: wish(*ids) for one, ids in subscribed.items()}, topics)
    for most, partitions in shares.items():
        for least in shares:
            if size(partitions) - size(shares[least]) >= 2:
                assert not partitions.keys() & subscribed[least], (most, least, shares)


def test_uniform_prefers_members_in_the_rack_of_a_replica() -> None:
    racks = [{"r1"}, {"r2"}, {"r2"}, {"r1"}]
    members = {"m1": wish(A, rack="r1"), "m2": wish(A, rack="r2")}
    shares = assigned("uniform", members, {A: topic(A, 4, *racks)})
    assert shares == {"m1": {A: frozenset({0, 3})}, "m2": {A: frozenset({1, 2})}}


def test_racks_never_make_shares_uneven() -> None:
    members = {"m1": wish(A, rack="r1"), "m2": wish(A, rack="r2"), "m3": wish(A)}
    shares = assigned("uniform", members, {A: topic(A, 6, *[{"r1"}] * 6)})
    assert sorted(map(size, shares.values())) == [2, 2, 2]


def test_range_gives_runs_that_are_alike_for_topics_of_equal_counts() -> None:
    shares = assigned(
        "range", {f"m{n}": wish(A, B) for n in range(3)}, {A: topic(A, 7), B: topic(B, 7)}
    )
    for partitions in shares.values():
        assert partitions[A] == partitions[B]
        assert all(after - before == 1 for before, after in pairwise(sorted(partitions[A])))
    assert sorted(len(each[A]) for each in shares.values()) == [2, 2, 3]


def test_range_keeps_the_order_of_members_when_one_joins() -> None:
    topics = {A: topic(A, 8)}
    before = assigned("range", {"x": wish(A), "y": wish(A)}, topics)
    had = {one: wish(A, had=partitions) for one, partitions in before.items()}
    after = assigned("range", {**had, "a": wish(A)}, topics)
    assert 0 in after["x"][A], "the one that had the first partitions keeps the first"
    assert 7 in after["a"][A]


def test_topics_are_looked_for_in_the_subscriptions_of_many_members_in_short_steps() -> None:
    ids = [number.to_bytes(16, "big") for number in range(300)]
    members = {f"m{at:03}": wish(*ids[at:]) for at in range(len(ids))}
    steps = pools_of(members, {one: topic(one, 1) for one in ids})
    calls = []
    while True:
        try:
            calls.append(counted_calls(lambda: next(steps))[1])
        except StopIteration as end:
            pools = end.value
            break
    assert max(calls) < CALLS_MAX
    names = [*members]
    assert pools == [Pool(names[: at + 1], [ids[at]]) for at in range(len(ids))]
