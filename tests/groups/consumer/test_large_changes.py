"""Changes of thousands of records: replayed in portions beforehand, and visible all at once."""

from collections.abc import Callable

import pytest

from penstock.assignors.topic_facts import TopicFacts
from penstock.coordinator.unwritten import Unwritten
from penstock.groups.assigned.currents import MemberState
from penstock.groups.assigned.topics import hash_in_steps, topics_hash
from penstock.groups.consumer.tables import Tables
from penstock.protocol.error_codes import ErrorCode
from tests.groups.consumer.club import Club, Consumer, settle
from tests.groups.world import GROUP, only

MEMBERS = 400


def large_club() -> Club:
    """A group of some hundred members, each with a partition."""
    club = Club(has_turns=True, expiry_check_interval_ms=10**9)
    club.all_turns()
    club.cluster.create("t", MEMBERS)
    for number in range(MEMBERS):
        club.enter(f"m{number}", "t", assignor="range")
    club.all_turns()
    return club


def lose_topic(club: Club) -> None:
    """The topic is deleted, and a member asks."""
    club.cluster.delete("t")
    club.pass_ms(1_001)
    club.beat_as("m0", club.group().currents["m0"].epoch, owned={})


def test_what_is_confirmed_was_replayed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    club = large_club()
    club.journal.is_prompt = False
    taken: list[bytes] = []
    take: Callable[..., None] = Tables.take

    def noted(tables: Tables, key: bytes, value: object) -> None:
        taken.append(key)
        take(tables, key, value)

    monkeypatch.setattr(Tables, "take", noted)
    lose_topic(club)
    turns = club.all_turns()
    assert turns > 1
    assert len(taken) > MEMBERS
    before, targets = club.group().tables, dict(club.group().targets)
    assert any(target.partitions for target in targets.values())
    taken.clear()
    club.journal.confirm()
    assert not taken
    assert club.group().tables is not before
    assert before.targets == targets
    assert not any(target.partitions for target in club.group().targets.values())


def test_topics_that_an_expression_matches_are_hashed_in_steps() -> None:
    facts = [(f"t{number}", TopicFacts(bytes(16), number)) for number in range(1_001)]
    steps, costs = hash_in_steps(facts), []
    while True:
        try:
            costs.append(next(steps))
        except StopIteration as end:
            hashed = end.value
            break
    assert costs == [50, 50]
    assert hashed == topics_hash(facts) != topics_hash(facts[:-1])


def test_what_was_replayed_and_not_written_is_dropped() -> None:
    club = large_club()
    club.journal.refuses = Unwritten.FAILED
    owners = {topic_id: dict(owned) for topic_id, owned in club.group().owners.items()}
    size = club.group().size_bytes
    answers = [club.beat_as(f"m{number}", -1) for number in range(MEMBERS)]
    club.all_turns()
    assert {only(each).error for each in answers} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert club.group().owners == owners
    assert club.group().size_bytes == size
    club.journal.refuses = None
    for number in range(MEMBERS):
        club.beat_as(f"m{number}", -1)
    club.all_turns()
    assert not club.group().owners
    outcomes: list[object] = []
    club.journal.refuses = Unwritten.FAILED
    club.enter("m", "t")
    club.all_turns()
    club.journal.refuses = None
    club.coordinator.delete_groups([GROUP], outcomes.append)
    club.all_turns()
    assert outcomes == [{GROUP: ErrorCode.NONE}]


def test_a_member_gets_what_another_gives_up_in_the_same_batch() -> None:
    club = Club(has_turns=False, expiry_check_interval_ms=10**9)
    club.cluster.create("t", 1)
    first, second = Consumer(club, "a", "t"), Consumer(club, "b", "t")
    settle(first, second)
    club.journal.is_prompt = False
    club.enter("x", "t")
    first.leave()
    second.waits = club.beat_as("b", second.epoch, owned={}, rack_id="r")
    club.journal.confirm()
    club.journal.is_prompt = True
    club.journal.confirm()
    assert first.reads == set()
    assert second.hear().reads == {("t", 0)}
    assert club.group().currents["b"].state is MemberState.STABLE
