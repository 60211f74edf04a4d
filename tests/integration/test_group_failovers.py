"""Groups of stock clients through the kills of their coordinator, of members, and of both.

The short form of `python -m reliability.group_failovers`: one kill of each kind.
"""

import pytest

from reliability.clients.group_member import CLIENTS
from reliability.group_failovers import KINDS, Member, owned_twice, run_client

pytestmark = [pytest.mark.process, pytest.mark.long]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_lives_through_kills_of_its_coordinator_and_its_members(client: str) -> None:
    # A member of a consumer group that was killed is missed after 45 s at least, as in Kafka.
    kills = 1 if client == "librdkafka-848" else len(KINDS)
    row = run_client(client, kills)
    assert row["verdict"] == "ok", row
    assert row["kills"] == kills
    assert row["positions read"]


def words(*said: tuple[int, list[int]], ended_ns: int) -> Member:
    events = [{"kind": "owned", "at_ns": at_ns, "partitions": owned} for at_ns, owned in said]
    return Member(process=None, events=events, ended_ns=ended_ns)  # type: ignore[arg-type]


def test_two_owners_at_a_time_are_seen() -> None:
    first = words((1, [0, 1]), (20, []), ended_ns=30)
    assert owned_twice([first, words((19, [1]), ended_ns=40)]) == [
        "partition 1 owned by members 0 and 1"
    ]
    assert owned_twice([first, words((20, [1]), ended_ns=40)]) == []
    killed = words((1, [0]), ended_ns=10)
    assert owned_twice([killed, words((11, [0]), ended_ns=40)]) == []


def test_a_member_that_was_killed_before_it_had_a_partition_owned_none() -> None:
    assert owned_twice([words(ended_ns=10), words((1, [0]), ended_ns=40)]) == []
