"""Walks with a coordinator on a copy: nothing is wrong with ours, and what is shows.

Each part is made to forget one thing that it must keep out, keep, or count.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from penstock.base.ids import LeaderEpoch
from penstock.broker.coordinators import hosting, rewrite
from penstock.coordinator.confirmed_map import ConfirmedMap
from penstock.coordinator.deadlines import Deadlines
from penstock.coordinator.rewrites import RewriteTracker
from penstock.groups import expiry
from penstock.groups.classic import syncing
from penstock.groups.classic.answering import Answering
from penstock.groups.classic.group import Group
from penstock.groups.journal import GroupWriter
from penstock.groups.records import (
    CommittedOffset,
    GroupRecord,
    MemberRecord,
    TopicKey,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)
from penstock.groups.table import GroupTable
from simulator.checks.groups.log import Position, group_said, read_log
from simulator.trials.group.trials import STEPS, GroupTrials
from simulator.trials.group.walk import GroupWalk

pytestmark = pytest.mark.usefixtures("quiet")

WALKS = 60


def walk(count: int = WALKS) -> list[str]:
    """Return what was wrong in the first walk that something was wrong with."""
    draw = Random(1)
    for _ in range(count):
        if texts := list(GroupWalk([], draw).run(STEPS)):
            return texts
    return []


def test_nothing_is_wrong_with_what_a_coordinator_does() -> None:
    assert walk() == []


def _does_nothing(*_: object, **__: object) -> None:
    pass


def _keeps_leader(self: Group) -> bool:
    return bool(self.joined)


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "told"),
    [
        (syncing, "membership_error", _does_nothing, "KeyError"),
        (Group, "elect_joined_leader", _keeps_leader, "who has not joined"),
        (Group, "drop_pending", _does_nothing, "who are members"),
        (ConfirmedMap, "latest_of", lambda self, keys: {}, "is left of"),
        (Answering, "keep_alive", _does_nothing, "as sessions"),
        (GroupTable, "forget", _does_nothing, "is there: True"),
        (RewriteTracker, "due", lambda _: (), "a rewrite is due"),
        (expiry, "_is_expired", lambda *_, **__: iter(()), "is gone: False"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_coordinator_that_forgets_something_is_told_of(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, wrong: Callable[..., Any], told: str
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    texts = walk()
    assert texts
    assert told in texts[0]


def test_a_run_tries_the_first_loadings_and_tells_what_it_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[str] = []
    trials = GroupTrials(found.append)
    for _ in range(6):
        trials.walk([])
    assert (trials.walks, found) == (6, [])
    monkeypatch.setattr(Deadlines, "cancel", _does_nothing)
    for _ in range(6):
        trials.walk([])
    assert found[0].startswith("had a coordinator been asked so: ")


# Duties


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "told"),
    [
        (hosting.PartitionMastership, "stands", lambda *_: True, "of mastership"),
        (
            hosting.PartitionMastership,
            "complete",
            lambda self: self._on_confirmed(self),
            "is shown",
        ),
        (rewrite.Rewrite, "is_of_another_time", property(lambda _: False), "mastership"),
        (rewrite.Rewriter, "_cut", staticmethod(lambda _: True), "says that it has cut"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_duty_that_outlives_its_mastership_is_told_of(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, wrong: Any, told: str
) -> None:
    found: list[str] = []
    trials = GroupTrials(found.append)
    for _ in range(20):
        trials.walk_duties()
    assert found == []
    monkeypatch.setattr(owner, name, wrong)
    for _ in range(20):
        trials.walk_duties()
    assert any(told in text for text in found)


# The second reader


KEY, PLACE = encode_offset_key("g", TopicKey("t", 3)), ("g", "t", 3)


@pytest.mark.parametrize("topic_id", [None, b"id of some topic"])
def test_a_position_is_read_as_it_was_written(topic_id: bytes | None) -> None:
    value = encode_offset_value(CommittedOffset(7, LeaderEpoch(2), "some text", 5, topic_id))
    reading = read_log([(KEY, value)])
    assert reading.positions == {PLACE: Position(7, "some text", topic_id)}
    reading.take((KEY, None))
    assert reading.positions == {}


def test_a_position_that_can_not_be_read_stays_where_it_was_with_what_was_written() -> None:
    reading = read_log([(KEY, encode_offset_value(CommittedOffset(7))), (KEY, b"\0\x09?")])
    assert reading.positions == {PLACE: Position(7, unread=b"\0\x09?")}


def test_a_key_that_goes_on_is_another_one() -> None:
    value = encode_offset_value(CommittedOffset(7))
    reading = read_log([(KEY + b"!", value), (b"\0\7", b"x")])
    assert (reading.positions, reading.unknown) == ({}, {KEY + b"!": value, b"\0\7": b"x"})


def test_a_group_is_read_to_its_end_or_not_at_all() -> None:
    member = MemberRecord("m-1", "i-1", "c", "h", 4_000, 3_000, b"wanted", b"given")
    value = encode_group_value(GroupRecord("consumer", 5, "range", "m-1", 9, (member,)))
    said = group_said(value)
    assert said is not None
    assert said[:3] == (5, "range", "m-1")
    assert said.members == (("m-1", "i-1", 3_000, b"wanted", b"given"),)
    assert read_log([(encode_group_key("g"), value)]).groups == {"g": value}
    assert [cut for cut in range(len(value)) if group_said(value[:cut]) is not None] == []


def test_writers_are_bounded_by_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupWriter, "in_flight_count", property(lambda _: 1))
    assert any("writes under way" in text for text in walk(3))
