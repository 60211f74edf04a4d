"""The assignor of share groups: everything is shared, evenly, and stays where it is."""

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from penstock.assignors.partitions import Partitions, count_of
from penstock.assignors.pools import Made, MemberWish
from penstock.assignors.share import simple
from penstock.assignors.topic_facts import TopicFacts

Assigned = Mapping[str, Partitions]


def topic(name: str) -> bytes:
    return name.encode().rjust(16, b"-")


def run(made: Made) -> Assigned:
    while True:
        try:
            cost = next(made)
            assert cost >= 0
        except StopIteration as end:
            return end.value


def assign(
    members: dict[str, str], topics: dict[str, int], had: Assigned | None = None
) -> Assigned:
    """`members`: to the letters of the topics that each subscribes to."""
    wishes = {
        member_id: MemberWish(frozenset(map(topic, letters)), None, (had or {}).get(member_id, {}))
        for member_id, letters in members.items()
    }
    subscribed = set("".join(members.values()))
    facts = {
        topic(name): TopicFacts(topic(name), count)
        for name, count in topics.items()
        if name in subscribed
    }
    return run(simple(wishes, facts))


def sharers(assigned: Assigned) -> Counter[tuple[bytes, int]]:
    return Counter(
        (topic_id, number)
        for partitions in assigned.values()
        for topic_id, numbers in partitions.items()
        for number in numbers
    )


def test_with_more_partitions_than_members_each_has_one_member() -> None:
    made = assign({"a": "t", "b": "t"}, {"t": 5})
    assert sorted(map(count_of, made.values())) == [2, 3]
    assert set(sharers(made).values()) == {1}


def test_with_more_members_than_partitions_members_share() -> None:
    made = assign({f"m{n}": "t" for n in range(5)}, {"t": 2})
    assert sharers(made) == {(topic("t"), 0): 3, (topic("t"), 1): 3}
    assert sorted(map(count_of, made.values())) == [1, 1, 1, 1, 2]


def test_one_partition_goes_to_all() -> None:
    made = assign({f"m{n}": "t" for n in range(200)}, {"t": 1})
    assert set(map(count_of, made.values())) == {1}


def test_members_get_only_what_they_subscribe_to_and_topics_of_nobody_stay() -> None:
    made = assign({"a": "t", "b": "u", "c": "tu"}, {"t": 2, "u": 2, "v": 2})
    assert set(made["a"]) <= {topic("t")}
    assert set(made["b"]) <= {topic("u")}
    assert {each[0] for each in sharers(made)} == {topic("t"), topic("u")}


def test_a_member_of_topics_that_do_not_exist_has_nothing() -> None:
    assert assign({"a": "t", "b": "x"}, {"t": 1}) == {"a": {topic("t"): frozenset({0})}, "b": {}}


def test_nobody_has_two_more_than_another_although_the_rest_was_taken() -> None:
    """What is left over at the end is nothing that the member with least can take: one moves."""
    had: Assigned = {"a": {topic("t"): frozenset({0})}, "b": {topic("t"): frozenset({0})}}
    made = assign({"a": "t", "b": "t", "c": "t", "d": "t", "e": "t"}, {"t": 4}, had)
    assert set(sharers(made).values()) == {2}
    counts = [*map(count_of, made.values())]
    assert max(counts) - min(counts) <= 1


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, int], Assigned]:
    topics = draw(st.dictionaries(st.sampled_from("tuv"), st.integers(1, 7)))
    letters = st.sets(st.sampled_from("tuv"), min_size=1).map(lambda some: "".join(sorted(some)))
    members = draw(st.dictionaries(st.sampled_from("abcdefghij"), letters, min_size=1))
    numbers = st.frozensets(st.integers(0, 8), min_size=1)
    had = draw(
        st.dictionaries(
            st.sampled_from("abcdefghij"),
            st.dictionaries(st.sampled_from("tuvw").map(topic), numbers),
        )
    )
    return members, topics, had


@given(groups())
def test_any_group_is_shared_out_evenly_and_then_nothing_moves(
    drawn: tuple[dict[str, str], dict[str, int], Assigned],
) -> None:
    members, topics, had = drawn
    made = assign(members, topics, had)
    assert set(made) == set(members)
    pools: dict[tuple[str, ...], list[str]] = {}
    for name in topics:
        readers = tuple(sorted(one for one, letters in members.items() if name in letters))
        if readers:
            pools.setdefault(readers, []).append(name)
    shared = sharers(made)
    wanted: dict[tuple[bytes, int], int] = {}
    for readers, names in pools.items():
        partitions = sum(topics[name] for name in names)
        sharing = -(-len(readers) // partitions)
        wanted |= {(topic(name), n): sharing for name in names for n in range(topics[name])}
        ids = {*map(topic, names)}
        counts = [sum(len(made[one].get(each, ())) for each in ids) for one in readers]
        assert max(counts) - min(counts) <= 1
        assert min(counts) >= 1
    assert shared == wanted
    assert assign(members, topics, made) == made


@given(st.integers(2, 10), st.integers(0, 40), st.integers(0, 9))
def test_who_stays_keeps_all_when_a_member_leaves(count: int, more: int, leaver: int) -> None:
    members = {f"m{n}": "t" for n in range(count)}
    before = assign(members, {"t": count + more})
    del members[f"m{leaver % count}"]
    after = assign(members, {"t": count + more}, before)
    assert all(before[one][topic("t")] <= after[one][topic("t")] for one in members)


@given(st.integers(1, 10), st.integers(0, 40))
def test_a_newcomer_takes_no_more_than_its_part(count: int, more: int) -> None:
    members = {f"m{n}": "t" for n in range(count)}
    partitions = count + 1 + more
    before = assign(members, {"t": partitions})
    after = assign({**members, "new": "t"}, {"t": partitions}, before)
    moved = sum(len(before[one][topic("t")] - after[one].get(topic("t"), set())) for one in members)
    assert moved == count_of(after["new"]) == partitions // (count + 1)
