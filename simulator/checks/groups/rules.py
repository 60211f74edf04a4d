"""Independent rules for the answers of a classic group coordinator.

    the group before ─► request ─► the error that must be answered at once, or None: it is served

The group is observed from outside (`View`) before and after the request; `wrong_change` checks the
difference. No code of the coordinator is used.

Source: Kafka, GroupCoordinator.scala; KIP-394 (ids that are given out first), KIP-345 (static
members), KIP-814. Departures as in groups/classic.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.groups.classic.group import Group, GroupState
from penstock.groups.messages import CommitOffsets, JoinGroup, MemberIdentity, SyncGroup
from penstock.protocol.error_codes import ErrorCode

PREPARING, COMPLETING = GroupState.PREPARING, GroupState.COMPLETING
EMPTY, STABLE, DEAD = GroupState.EMPTY, GroupState.STABLE, GroupState.DEAD


class Seat(NamedTuple):
    """One member as seen from outside."""

    instance_id: str | None
    protocols: tuple[tuple[str, bytes], ...]
    awaits_join: bool
    awaits_sync: bool
    is_new: bool


class View(NamedTuple):
    """One group as seen from outside."""

    state: GroupState
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str | None
    members: dict[str, Seat]
    pending: tuple[str, ...]

    @property
    def joined(self) -> list[str]:
        """Members whose join is parked."""
        return [one for one, seat in self.members.items() if seat.awaits_join]

    def owner(self, instance_id: str | None) -> str | None:
        """Return whose an instance id is."""
        return next(
            (one for one, seat in self.members.items() if seat.instance_id == instance_id), None
        )

    def is_fenced(self, member_id: str, instance_id: str | None) -> bool:
        """Whether the instance id belongs to another member by now."""
        if instance_id is None:
            return False
        return self.owner(instance_id) not in (None, member_id)


def view_of(group: Group | None) -> View | None:
    """Look at a group."""
    if group is None:
        return None
    members = {
        member.member_id: Seat(
            member.instance_id,
            tuple((name, metadata) for name, metadata in member.protocols),
            member.awaits_join,
            member.awaits_sync,
            member.is_new,
        )
        for member in group.members.values()
    }
    return View(
        group.state,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        members,
        tuple(group.pending),
    )


NOBODY = View(EMPTY, 0, None, None, None, {}, ())


def speaks_for(
    view: View, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode | None:
    """Return the error if the client is not that member of that generation."""
    if view.state is DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if view.is_fenced(member_id, instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    seat = view.members.get(member_id)
    if seat is None or instance_id not in (None, seat.instance_id):
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.ILLEGAL_GENERATION if generation != view.generation else None


def join_error(view: View | None, asked: JoinGroup, size_max: int) -> ErrorCode | None:
    """Return the error that a join must get at once, including MEMBER_ID_REQUIRED."""
    if view is None:
        return (
            ErrorCode.UNKNOWN_MEMBER_ID if asked.member_id else join_error(NOBODY, asked, size_max)
        )
    if view.state is DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not _has_room(view, asked, size_max):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not _fits(view, asked):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if asked.instance_id is None and asked.member_id in ("", *view.pending):
        is_first = not asked.member_id and asked.member_id_required
        return ErrorCode.MEMBER_ID_REQUIRED if is_first else None
    known = speaks_for(view, asked.member_id, asked.instance_id, view.generation)
    return known if asked.member_id else None


def _has_room(view: View, asked: JoinGroup, size_max: int) -> bool:
    if asked.member_id in view.members:
        return view.members[asked.member_id].awaits_join or len(view.joined) < size_max
    is_expected = asked.member_id in view.pending
    if asked.instance_id is not None:
        is_expected = is_expected or view.owner(asked.instance_id) is not None
    return is_expected or len(view.members) + len(view.pending) < size_max


def _fits(view: View, asked: JoinGroup) -> bool:
    if not view.members:
        return True
    common = [set(_names(member.protocols)) for member in view.members.values()]
    offered = set(_names(tuple(asked.protocols)))
    return asked.protocol_type == view.protocol_type and bool(offered.intersection(*common))


def sync_error(view: View | None, asked: SyncGroup) -> ErrorCode | None:
    """Return the error that a sync must get at once; None if it is served or parked."""
    if view is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = speaks_for(view, asked.member_id, asked.instance_id, asked.generation)
    if error is None and view.state is PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return error


def beat_error(
    view: View | None, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode:
    """Return the error code that a heartbeat must get."""
    if view is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = speaks_for(view, member_id, instance_id, generation)
    if error is None and view.state is PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return error or ErrorCode.NONE


def commit_error(view: View | None, asked: CommitOffsets) -> ErrorCode | None:
    """Return why a commit must be refused."""
    if view is None:
        return ErrorCode.ILLEGAL_GENERATION if asked.generation >= 0 else None
    if view.state is DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if asked.generation < 0 and view.state is EMPTY:
        return None
    if asked.generation < 0 and not asked.member_id and asked.instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = speaks_for(view, asked.member_id, asked.instance_id, asked.generation)
    if error is None and view.state is COMPLETING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return error


def leave_error(view: View | None, member_identity: MemberIdentity) -> ErrorCode:
    """Return the error that a single leaving member must get."""
    if view is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_identity.member_id and view.is_fenced(
        member_identity.member_id, member_identity.instance_id
    ):
        return ErrorCode.FENCED_INSTANCE_ID
    if member_identity.instance_id is None and member_identity.member_id in view.pending:
        return ErrorCode.NONE
    named = (
        member_identity.member_id
        if member_identity.instance_id is None
        else view.owner(member_identity.instance_id)
    )
    return ErrorCode.NONE if named in view.members else ErrorCode.UNKNOWN_MEMBER_ID


def elected(members: Sequence[Seat]) -> str:
    """Return the protocol that these members elect: each has a vote for its first common one."""
    common = set(_names(members[0].protocols)).intersection(
        *(set(_names(member.protocols)) for member in members)
    )
    votes = [
        next(name for name in _names(member.protocols) if name in common) for member in members
    ]
    in_order = [name for name in _names(members[0].protocols) if name in common]
    return max(in_order, key=votes.count)


def wrong_view(view: View) -> Iterator[str]:
    """Name what no group may ever be."""
    # One that was a consumer group has no leader until its members have joined again.
    is_led = view.leader_id is not None or view.state is not PREPARING
    if view.members and is_led and view.leader_id not in view.members:
        yield f"is led by {view.leader_id}, who is no member"
    if view.state is EMPTY and view.members:
        yield "is empty, and has members"
    if view.state in (COMPLETING, STABLE) and not view.members:
        yield f"is {view.state}, and has no members"
    if both := set(view.pending) & set(view.members):
        yield f"expects {sorted(both)}, who are members"
    if view.state in (EMPTY, STABLE, COMPLETING) and view.joined:
        yield f"is {view.state} while {view.joined} wait for a generation"
    waiting = [one for one, seat in view.members.items() if seat.awaits_sync]
    if view.state is not COMPLETING and waiting:
        yield f"is {view.state} while {waiting} wait for an assignment"


def wrong_change(before: View, after: View, told: Sequence[str], size_max: int) -> Iterator[str]:
    """Yield changes that are not allowed; `told` are members that got a generation."""
    if after.generation < before.generation:
        yield f"goes from generation {before.generation} back to {after.generation}"
    size = len(after.members) + len(after.pending)
    if size > max(size_max, len(before.members) + len(before.pending)):
        yield f"has {size} members, and may have {size_max}"
    if after.generation == before.generation or after.state is not COMPLETING:
        return
    if after.leader_id not in told:
        yield f"is led by {after.leader_id}, who has not joined; {sorted(told)} have"
    chosen = elected(list(after.members.values()))
    if after.protocol_name != chosen:
        yield f"goes by {after.protocol_name}, and its members elect {chosen}"
    dynamic = [one for one, seat in after.members.items() if seat.instance_id is None]
    if silent := set(dynamic) - set(told):
        yield f"keeps {sorted(silent)}, who have not joined"


def _names(protocols: Sequence[tuple[str, bytes]]) -> list[str]:
    return [name for name, _ in protocols]
