"""Recomputes every count and every redundant table of a group coordinator from its state.

    members ─► bytes, offered protocols, static members, new members, deadlines; positions ─► bytes
    unconfirmed writes ─► each group's count of them

A count that is wrong by one has no effect for days, and then causes requests to be refused.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from penstock.groups.classic.group import PENDING_BYTES, Group
from penstock.groups.classic.member import MEMBER_OVERHEAD_BYTES, Member
from penstock.groups.context import Context
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.group import GROUP_OVERHEAD_BYTES, BaseGroup
from penstock.groups.offsets.positions import POSITION_BYTES
from penstock.groups.table import GroupTable


class Inside(NamedTuple):
    """The internal parts of a coordinator, which has no public access to them."""

    table: GroupTable
    context: Context

    @property
    def groups(self) -> dict[str, Group]:
        """The groups of the classic protocol by id."""
        found = self.table.groups.items()
        return {group_id: group for group_id, group in found if isinstance(group, Group)}

    @property
    def sessions(self) -> set[tuple[str, str]]:
        """Groups and members that a session runs for."""
        due = self.context.deadlines._due  # noqa: SLF001
        return {key[1:] for key in due if key.kind is DeadlineKind.SESSION}


def inside(coordinator: GroupCoordinator) -> Inside:
    """Return what it consists of."""
    return Inside(coordinator._table, coordinator._context)  # noqa: SLF001


def miscounted(one: Inside, writes: Sequence[object], now_ms: int) -> Iterator[str]:
    """Name what is counted otherwise than it is; `writes`: whose are under way."""
    groups = one.groups
    for group in groups.values():
        for text in _of_group(group, sum(whose is group for whose in writes)):
            yield f"group {group.group_id} {text}"
    everything, pinned = [*one.table.groups.values()], one.table.pinned
    yield from _differ(
        "bytes of all groups", pinned.total, sum(each.size_bytes for each in everything)
    )
    yield from _differ(
        "bytes of all positions", pinned.offsets, sum(map(_positions_bytes, everything))
    )
    new = {
        member.member_id
        for group in groups.values()
        for member in group.members.values()
        if member.is_new
    }
    yield from _differ("newcomers", {new.member_id for new in one.context.newcomers}, new)
    yield from _differ("writes under way", one.context.writer.in_flight_count, len(writes))
    yield from _deadlines(one, now_ms)


def _of_group(group: Group, writes: int) -> Iterator[str]:
    members = list(group.members.values())
    size = GROUP_OVERHEAD_BYTES + len(group.group_id) + PENDING_BYTES * len(group.pending)
    yield from _differ("bytes", group.size_bytes, size + sum(map(_member_bytes, members)))
    yield from _differ("bytes of positions", group.offsets.size_bytes, _positions_bytes(group))
    names = [{name for name, _ in member.protocols} for member in members]
    offered = Counter(name for some in names for name in some)
    yield from _differ("offers", group.offered, dict(offered))
    static = {
        member.instance_id: key for key, member in group.members.items() if member.instance_id
    }
    yield from _differ("static members", group.static_members, static)
    parked = {key for key, member in group.members.items() if member.awaits_join}
    yield from _differ("parked joins", set(group.joined), parked)
    if strange := set(group.awaiting_sync) - set(group.members):
        yield f"waits for {sorted(strange)}, who are no members"
    yield from _differ(
        "writes under way",
        max(group.offsets.in_flight_count, group.metadata.in_flight_count),
        writes,
    )
    yield from _differ(
        "metadata under way", group.metadata.in_flight_count, group.offsets.in_flight_count
    )


def _member_bytes(member: Member) -> int:
    offered = sum(len(name) + len(metadata) for name, metadata in member.protocols)
    texts = (member.member_id, member.client_id, member.instance_id or "")
    return MEMBER_OVERHEAD_BYTES + offered + sum(map(len, texts)) + len(member.assignment)


def _positions_bytes(group: BaseGroup) -> int:
    values = group.offsets.values.values()
    return sum(POSITION_BYTES + value.metadata.__sizeof__() for value in values)


def _deadlines(one: Inside, now_ms: int) -> Iterator[str]:
    """Check that exactly the members with a running session have a deadline."""
    sessions: set[tuple[str, str]] = set()
    due = one.context.deadlines
    for group_id, group in one.groups.items():
        for member in group.members.values():
            at_ms = due.at(DeadlineKey(DeadlineKind.SESSION, group_id, member.member_id)) or now_ms
            if member.is_new or not (member.awaits_join or member.awaits_sync):
                sessions.add((group_id, member.member_id))
            if not member.is_new and at_ms > now_ms + member.session_timeout_ms:
                yield f"{member.member_id} may be silent for {at_ms - now_ms} ms"
        for member_id in group.pending:
            if due.at(DeadlineKey(DeadlineKind.PENDING_MEMBER, group_id, member_id)) is None:
                yield f"{member_id} is waited for without an end"
    yield from _differ("sessions", one.sessions, sessions)


def _differ(what: str, counted: Any, found: Any) -> Iterator[str]:
    if counted != found:
        yield f"counts {counted} as {what}, and has {found}"
