"""Groups of hundreds of members are converted in portions, and shown all at once."""

from collections.abc import Callable

import pytest

from penstock.groups.consumer.tables import Tables
from penstock.protocol.error_codes import ErrorCode
from tests.groups.consumer.club import Club
from tests.groups.migration.crew import given, kind, said
from tests.groups.world import DELAY_MS, only

MEMBERS = 300


def large_group() -> Club:
    """A classic group whose members have a partition each; the journal waits."""
    club = Club(has_turns=True, expiry_check_interval_ms=10**9)
    club.all_turns()
    club.cluster.create("t", MEMBERS)
    protocols = (("range", said("t")),)
    joins = [club.join(instance=f"i{number}", protocols=protocols) for number in range(MEMBERS)]
    for _ in range(3):
        club.pass_ms(DELAY_MS)
        club.all_turns()
    replies = [only(answers) for answers in joins]
    led = {reply.member_id: given({("t", place)}) for place, reply in enumerate(replies)}
    leader = replies[0].leader_id
    for reply in replies:
        club.sync(reply.member_id, reply.generation, led if reply.member_id == leader else None)
    club.all_turns()
    club.journal.is_prompt = False
    return club


def test_a_conversion_takes_many_turns_and_its_confirmation_replays_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    club = large_group()
    taken: list[bytes] = []
    take: Callable[..., None] = Tables.take

    def noted(tables: Tables, key: bytes, value: object) -> None:
        taken.append(key)
        take(tables, key, value)

    monkeypatch.setattr(Tables, "take", noted)
    joining = club.enter("c", "t")
    assert club.all_turns() > 10
    assert len(taken) > 3 * MEMBERS
    taken.clear()
    club.journal.confirm(1)
    assert not taken
    assert kind(club) == "consumer"
    club.all_turns()
    club.journal.confirm()
    club.all_turns()
    assert only(joining).error is ErrorCode.NONE
    leaving = club.beat_as("c", -1)
    assert club.all_turns() > 2
    taken.clear()
    club.journal.confirm()
    assert not taken
    assert kind(club) == "classic"
    club.all_turns()
    assert only(leaving).error is ErrorCode.NONE
    assert len(club.classic().members) == MEMBERS
