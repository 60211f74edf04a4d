"""Coordinators with planted bugs are found, and members without them find every promise kept."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from penstock.coordinator.runtime import CoordinatorRuntime
from penstock.coordinator.unread import UnreadRecords
from penstock.groups import expiry
from penstock.groups.classic import membership
from penstock.groups.classic.subscription import subscribed_topics
from penstock.groups.classic.syncing import Syncing
from penstock.groups.consumer import draft
from penstock.groups.offsets import commits
from penstock.protocol.error_codes import ErrorCode
from simulator.clients import group_member, groups
from simulator.clients.group_wire import assigned_in, assignment, owned_in, subscription
from simulator.clients.readers import Place
from simulator.run.plan import Fault, FaultKind, Shape
from simulator.run.planning import make_plan
from simulator.run.topology import TOPIC
from tests.sim.small_runs import first_findings, kill

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet", "only_what_happens", "classic"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

READ = Shape(
    is_apart=True, partitions=2, producers=1, records_per_second=20, groups=1, group_members=3
)
REWRITTEN = replace(READ, group_rewrite_bytes=500)


RESTS_MS = 1_500
CALM = (kill(3_000, "c1", RESTS_MS),)
"""Nothing happens but what members do by themselves."""
MASTERS_DIE = (
    kill(2_000, "master:0", RESTS_MS),
    kill(4_000, "master:1", RESTS_MS),
    kill(5_000, "master:2", RESTS_MS),
)


def found(shape: Shape, faults: tuple[Fault, ...], seeds: int = 4) -> list[str]:
    """Run under a few seeds; return what the first one that breaks says."""
    return first_findings(shape, faults, seeds)


@pytest.fixture
def classic(monkeypatch: pytest.MonkeyPatch) -> None:
    """All groups are of the classic protocol."""
    monkeypatch.setattr(groups, "ASSIGNED_SHARE", 0.0)


@pytest.fixture
def assigned(classic: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """All groups are consumer groups, to which the coordinator assigns."""
    monkeypatch.setattr(groups, "ASSIGNED_SHARE", 1.0)


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members leave, die and stand still all the time."""
    monkeypatch.setattr(group_member, "WHIM_SHARE", 0.2)
    monkeypatch.setattr(group_member, "HAUNTED_SHARE", 1.0)


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("shape", [READ, REWRITTEN], ids=["plain", "rewritten"])
def test_groups_find_every_promise_kept_while_masters_and_members_die(shape: Shape) -> None:
    assert found(shape, MASTERS_DIE, seeds=3) == []


@pytest.mark.usefixtures("busy", "assigned")
@pytest.mark.parametrize("shape", [READ, REWRITTEN], ids=["plain", "rewritten"])
def test_consumer_groups_find_every_promise_kept_while_masters_die(shape: Shape) -> None:
    assert found(shape, MASTERS_DIE, seeds=3) == []


@pytest.mark.usefixtures("busy", "assigned")
def test_a_coordinator_that_gives_what_others_have_is_found(monkeypatch) -> None:
    monkeypatch.setattr(draft, "of_others", lambda *_: frozenset())
    told = found(READ, CALM)
    assert any("commit-of-an-older-generation" in one or "owned-twice" in one for one in told)


@pytest.mark.usefixtures("busy")
def test_a_coordinator_that_takes_commits_of_older_generations_is_found(monkeypatch) -> None:
    right = membership.membership_error

    def lax(*asked: Any) -> ErrorCode | None:
        error = right(*asked)
        return None if error is ErrorCode.ILLEGAL_GENERATION else error

    monkeypatch.setattr(commits, "membership_error", lax)
    assert any("commit-of-an-older-generation" in one for one in found(READ, CALM))


@pytest.mark.usefixtures("busy")
def test_a_coordinator_that_takes_commits_of_replaced_instances_is_found(monkeypatch) -> None:
    def lax(group: Any, request: Any) -> ErrorCode | None:
        return None

    monkeypatch.setattr(commits, "_commit_refusal", lax)
    assert any("commit-of-an-older-generation" in one for one in found(READ, CALM))


def test_a_coordinator_that_gives_two_members_the_same_is_found(monkeypatch) -> None:
    hand_out = Syncing._hand_out

    def everything_to_all(self: Syncing, group: Any, assignments: dict[str, bytes]) -> None:
        longest = max(assignments.values(), key=len)
        hand_out(self, group, dict.fromkeys(assignments, longest))

    monkeypatch.setattr(Syncing, "_hand_out", everything_to_all)
    assert any("partition-owned-twice" in one for one in found(READ, ()))


def test_a_rewrite_that_drops_positions_is_found(monkeypatch) -> None:
    monkeypatch.setattr(CoordinatorRuntime, "snapshot", lambda *_: iter(()))
    # The generation goes with the positions, and is then given again: either may show first.
    told = found(REWRITTEN, MASTERS_DIE)
    wrong = ("committed-offset-regression", "partition-owned-twice")
    assert any(one.startswith(wrong) for one in told)


def test_a_deletion_that_is_not_written_is_found(monkeypatch) -> None:
    def unwritten(_: Any, table: Any, group: Any, done: Any) -> Iterator[int]:
        table.forget(group)
        done(None)
        yield 1

    monkeypatch.setattr(expiry, "delete_group", unwritten)
    assert any("is there again" in one for one in found(READ, MASTERS_DIE))


def test_a_rewrite_that_drops_what_it_can_not_read_is_found(monkeypatch) -> None:
    later = Fault(kind=FaultKind.DOWNGRADE, at_ms=1_500, lasting_ms=1_000, targets=())
    assert found(REWRITTEN, (later, *MASTERS_DIE), seeds=1) == []
    monkeypatch.setattr(UnreadRecords, "records", lambda _: iter(()))
    told = found(REWRITTEN, (later, *MASTERS_DIE), seeds=2)
    assert any("what a later version wrote" in one for one in told)


def test_a_member_that_commits_what_it_has_not_read_is_found(monkeypatch) -> None:
    monkeypatch.setattr(group_member, "Place", lambda offset: Place(offset + 3))
    assert any("group-skip" in one for one in found(READ, ()))


# Plans and what goes over the wire


def test_half_of_the_seeds_have_groups_of_every_kind() -> None:
    shapes = [make_plan(seed).shape for seed in range(300)]
    with_groups = [shape for shape in shapes if shape.groups]
    assert 100 < len(with_groups) < 200
    assert {shape.groups for shape in with_groups} == {1, 2}
    assert {shape.group_members for shape in with_groups} == {2, 3}
    assert {shape.group_kept_ms < 0 for shape in with_groups} == {True, False}
    assert len({shape.group_rewrite_bytes for shape in with_groups}) == 3


def test_positions_are_for_ever_where_a_wall_clock_is_wrong() -> None:
    for plan in map(make_plan, range(300)):
        if any(fault.kind is FaultKind.CLOCK_STEP for fault in plan.faults):
            assert plan.shape.group_kept_ms == -1


@pytest.mark.parametrize("partitions", [[], [0], [2, 0, 1]])
def test_what_members_say_of_themselves_is_read_as_it_was_written(partitions: list[int]) -> None:
    assert owned_in(subscription(partitions)) == partitions
    assert assigned_in(assignment(partitions)) == partitions
    assert subscribed_topics(subscription(partitions)) == frozenset({TOPIC})


def test_no_assignment_is_an_empty_one() -> None:
    assert assigned_in(b"") == []
