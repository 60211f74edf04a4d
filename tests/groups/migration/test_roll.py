"""Members of a group go from one protocol to the other, one by one, while they read."""

import pytest

from tests.groups.consumer.club import Club, Consumer
from tests.groups.migration.crew import ALL, Worker, crew, kind, settle


def read_by(*members: Worker | Consumer) -> set[tuple[str, int]]:
    return set().union(*(one.reads for one in members))


@pytest.mark.parametrize("is_eager", [True, False])
@pytest.mark.parametrize("has_turns", [False, True])
def test_a_group_of_three_rolls_to_the_new_protocol_and_back(
    *, is_eager: bool, has_turns: bool
) -> None:
    club, workers = crew(3, club=Club(has_turns=has_turns), is_eager=is_eager)
    members: list[Worker | Consumer] = [*workers]
    for number in range(3):
        assert isinstance(members[number], Worker)
        members[number].leave()
        members[number] = Consumer(club, f"c{number}", "t")
        settle(*members)
        assert kind(club) == "consumer"
        assert read_by(*members) == ALL
    for number in range(3):
        members[number].leave()
        members[number] = Worker(club, f"w{number}", "t", is_eager=is_eager)
        settle(*members)
        assert read_by(*members) == ALL
        assert kind(club) == ("classic" if number == 2 else "consumer")


@pytest.mark.parametrize("is_eager", [True, False])
def test_a_member_of_the_new_protocol_gets_its_share_once_others_have_given_it_up(
    *, is_eager: bool
) -> None:
    club, (worker,) = crew(1, is_eager=is_eager)
    assert worker.reads == ALL
    consumer = Consumer(club, "c", "t")
    consumer.beat()
    assert kind(club) == "consumer"
    assert consumer.reads == set()
    settle(worker, consumer)
    assert len(worker.reads) == len(consumer.reads) == 3


@pytest.mark.parametrize("is_eager", [True, False])
def test_a_classic_member_joins_a_group_of_the_new_protocol(*, is_eager: bool) -> None:
    club = Club()
    club.cluster.create("t", 6)
    consumer = Consumer(club, "c", "t")
    settle(consumer)
    worker = Worker(club, "w", "t", is_eager=is_eager)
    settle(consumer, worker)
    assert kind(club) == "consumer"
    assert len(worker.reads) == len(consumer.reads) == 3
    consumer.leave()
    settle(worker)
    assert kind(club) == "classic"
    assert worker.reads == ALL
