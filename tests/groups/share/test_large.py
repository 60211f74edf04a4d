"""Share groups of the largest size: decided in portions, replayed before they are visible."""

from collections.abc import Callable

import pytest

from penstock.groups.assigned.topics import COMPARE_MS
from penstock.groups.share.tables import ShareTables
from penstock.protocol.error_codes import ErrorCode
from tests.groups.share.circle import Circle
from tests.groups.world import only

MEMBERS, PARTITIONS = 200, 10_000


def large_circle() -> Circle:
    """A group of 200 members that share two topics of 10,000 partitions."""
    one = Circle(has_turns=True, expiry_check_interval_ms=10**9)
    one.all_turns()
    for name in "tu":
        one.cluster.create(name, PARTITIONS // 2)
    joins = [one.enter(f"m{number}", "t", "u") for number in range(MEMBERS)]
    one.all_turns()
    assert {only(each).error for each in joins} == {ErrorCode.NONE}
    return one


def test_ten_thousand_partitions_are_shared_out_in_many_turns() -> None:
    one = large_circle()
    group = one.group()
    assert {sum(map(len, each.partitions.values())) for each in group.targets.values()} == {50}
    epoch = group.currents["m0"].epoch
    one.beat_as("m0", -1)
    assert one.all_turns() > 5
    assert epoch < group.epoch
    assert sum(sum(map(len, one.partitions.values())) for one in group.targets.values()) == 10_000


def test_what_is_confirmed_was_replayed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    one = large_circle()
    one.journal.is_prompt = False
    taken: list[bytes] = []
    take: Callable[..., None] = ShareTables.take

    def noted(tables: ShareTables, key: bytes, value: object) -> None:
        taken.append(key)
        take(tables, key, value)

    monkeypatch.setattr(ShareTables, "take", noted)
    one.cluster.delete("t")
    one.pass_ms(COMPARE_MS + 1)
    one.beat_as("m0", one.group().currents["m0"].epoch)
    one.all_turns()
    assert len(taken) > MEMBERS
    before = one.group().tables
    taken.clear()
    one.journal.confirm()
    assert not taken
    assert one.group().tables is not before
    assert len(one.shared()) == PARTITIONS // 2
