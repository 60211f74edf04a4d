"""A member of a consumer group: joins, reads what it is given, commits what it has read.

    coordinator ─► join ─► (leader: assign) ─► sync ─► positions ─► read, commit, heartbeat ...
        ▲            ▲                                                 │ rebalance, lost seat
        └── trouble ─┴─────────────────────────────────────────────────┘

At random it leaves, dies, or pauses beyond its session time-out and then commits, which must be
refused. So must a commit for an earlier generation, or by an earlier incarnation of the same static
member. In a cooperative group partitions move in two steps, and a member continues to read the
partitions that it keeps.

A member whose commit got no answer starts again as a new member: the request may be executed at any
later time, and only a new generation makes sure that it is then refused.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.client.fetch import FetchOptions
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.group_wire import (
    GroupLink,
    Positions,
    Seat,
    Times,
    Versions,
    assigned_in,
    assignment,
    open_coordinator,
    owned_in,
    subscription,
)
from simulator.clients.readers import Place, Reader
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import find_leader, now_ns, open_link, pause
from simulator.history import Commit, Outcome, Owned, Poll

ROUND_SECONDS = (0.15, 0.4)
DEAD_SECONDS = (0.1, 1.5)
FROZEN_SECONDS = (0.5, 4.0)
HAUNTED_SHARE = 0.3
WHIM_SHARE = 0.03
"""Of rounds, that end with something else than the next round."""

_AT_ONCE = FetchOptions(partition_bytes_max=64 << 10, bytes_min=0, wait_ms=0)

_LOST_SEAT = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
_REJOIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
_NEVER = (
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
)


@dataclass(slots=True, kw_only=True)
class GroupNotes:
    """What all members of one group have seen, for the judge."""

    name: str
    is_cooperative: bool
    is_mixed: bool = False
    """Whether some members have the coordinator assign: then all others are assigned to as well."""
    commits: list[Commit] = field(default_factory=list)
    owned: list[Owned] = field(default_factory=list)

    @property
    def protocol(self) -> str:
        """The assignor that all members offer."""
        return "cooperative-sticky" if self.is_cooperative else "range"

    def given(self, seat: Seat, partitions: list[int], *, is_by_epoch: bool) -> None:
        """Note what a member owns in its generation."""
        place = self.name, seat.generation, seat.owner, seat.member_id
        self.owned.append(Owned(*place, partitions, now_ns(), is_by_epoch=is_by_epoch))

    def gone(self, seat: Seat) -> None:
        """Note that a member owns nothing any more, as far as anybody can know."""
        lost = Owned(self.name, -1, seat.owner, seat.member_id, [], now_ns(), is_by_epoch=True)
        self.owned.append(lost._replace(is_gone=True))

    def commit(
        self,
        seat: Seat,
        offsets: Mapping[int, int],
        begun_ns: int,
        errors: Mapping[int, ErrorCode] | None,
    ) -> None:
        """Note a commit; without errors there was no answer."""
        for partition, offset in offsets.items():
            outcome = Outcome.UNKNOWN
            if errors is not None and partition in errors:
                outcome = _outcome(errors[partition])
            end_ns = None if outcome is Outcome.UNKNOWN else now_ns()
            self.commits.append(
                Commit(
                    self.name,
                    partition,
                    offset,
                    begun_ns,
                    end_ns,
                    outcome,
                    owner=seat.owner,
                    member_id=seat.member_id,
                    generation=seat.generation,
                )
            )

    def fetched(self, partition: int, offset: int, begun_ns: int, link: GroupLink) -> None:
        """Record a position that a client was answered."""
        commit = Commit(
            self.name, partition, offset, begun_ns, now_ns(), is_fetched=True, told_by=link.host
        )
        self.commits.append(commit)


def _outcome(error: ErrorCode) -> Outcome:
    if error is ErrorCode.NONE:
        return Outcome.ACKED
    return Outcome.FAILED if error in (*_LOST_SEAT, *_REJOIN) else Outcome.UNKNOWN


@dataclass(slots=True, kw_only=True)
class Member(Reader):
    """See the module; `places` has the partitions that it owns and knows its position in."""

    notes: GroupNotes
    versions: Versions
    times: Times
    seat: Seat
    whim_share: float = WHIM_SHARE
    owned: list[int] = field(default_factory=list)
    last_error: str = ""
    _before: Seat | None = None
    """Who it was when it was given partitions last."""
    _committed: dict[int, int] = field(default_factory=dict)
    _links: dict[int, BrokerLink] = field(default_factory=dict)

    async def run(self) -> None:
        """Take part until the run is over."""
        while not self.world.is_over:
            try:
                link = await open_coordinator(
                    self.world, self.random, self.notes.name, self.versions
                )
                try:
                    await self._take_part(link)
                finally:
                    link.close()
            except LinkFailed as error:
                self.last_error = str(error)
            await pause(self.random)
        self._keep_only([])

    async def _take_part(self, link: GroupLink) -> None:
        while not self.world.is_over:
            if self.seat.generation >= 0:
                await self._work(link)
            elif not await self._join(link):
                await pause(self.random)

    def _heed(self, error: ErrorCode, link: GroupLink) -> None:
        """Handle an error: rejoin, join as a new member, or look up the coordinator."""
        self.last_error = error.name
        if error in _NEVER:
            self.world.refuse(f"{self.name} was told {error.name}", link.host)
        if error in _LOST_SEAT:
            self._lose_seat()
        elif error in _REJOIN:
            self.seat.generation = -1
        else:
            raise link.link.broken(error.name)

    def _lose_seat(self) -> None:
        self._may_own_nothing()
        self.seat.forget()
        self._keep_only([])

    def _may_own_nothing(self) -> None:
        """Tell the judge, where the group may end meanwhile and begin as one of another kind."""
        if self.notes.is_mixed:
            self.notes.gone(self.seat)

    def _keep_only(self, owned: Sequence[int]) -> None:
        self.owned = list(owned)
        for partition in [*self.places]:
            if partition not in owned:
                del self.places[partition]
                self._drop_link(partition)

    # --- joining -------------------------------------------------------------------------------

    async def _join(self, link: GroupLink) -> bool:
        """Join, and take the assignment; returns whether there is one."""
        owned = self.owned if self.notes.is_cooperative else []
        metadata = subscription(owned)
        answer = await link.join(self.seat, self.times, (self.notes.protocol, metadata))
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.seat.member_id = answer.member_id
            return False
        if error is not ErrorCode.NONE:
            self._heed(error, link)
            return False
        if self.random.random() < WHIM_SHARE and not self.world.is_stopping:
            await self._die(link)  # and the others wait for its sync
        self.seat.member_id = answer.member_id
        joined = replace(self.seat, generation=answer.generation_id)
        error, mine = await link.sync(joined, self.notes.protocol, self._assignments(answer))
        if error is not ErrorCode.NONE:
            self._heed(error, link)
            return False
        self.seat.generation = joined.generation
        self._take(assigned_in(mine))
        await self._haunt(link)
        return True

    def _assignments(self, answer: Any) -> dict[str, bytes]:
        """Assign the partitions to all members, as the leader; other members send no assignment."""
        if answer.leader != answer.member_id or getattr(answer, "skip_assignment", False):
            return {}
        owned = {member.member_id: owned_in(bytes(member.metadata)) for member in answer.members}
        members = sorted(owned)
        divided = {
            member: list(range(number, self.world.partitions, len(members)))
            for number, member in enumerate(members)
        }
        if self.notes.is_cooperative:
            divided = {
                member: [
                    one
                    for one in mine
                    if all(one not in owned[other] for other in members if other != member)
                ]
                for member, mine in divided.items()
            }
        return {member: assignment(mine) for member, mine in divided.items()}

    def _take(self, assigned: list[int]) -> None:
        """Own what was assigned; in a cooperative group nothing changes for what was kept."""
        seat = self.seat
        self.notes.given(seat, assigned, is_by_epoch=self.notes.is_mixed)
        is_revoked = any(one not in assigned for one in self.owned)
        self._keep_only(assigned if self.notes.is_cooperative else [])
        self.owned = assigned
        if is_revoked and self.notes.is_cooperative:
            seat.generation = -1  # joins again, so that others get what was revoked

    # --- working -------------------------------------------------------------------------------

    async def _work(self, link: GroupLink) -> None:
        """Read, commit and show life, until it has to join again."""
        self._was_away()
        while not self.world.is_over and self.seat.generation >= 0:
            await self._find_positions(link)
            for partition in [*self.places]:
                await self._read(partition)
            await self._commit(link)
            if self.seat.generation >= 0:
                await self._beat(link)
            if self.random.random() < self.whim_share and not self.world.is_stopping:
                await self.random.choice((self._leave, self._die, self._freeze))(link)
            await asyncio.sleep(self.random.uniform(*ROUND_SECONDS))

    async def _beat(self, link: GroupLink) -> None:
        error = await link.heartbeat(self.seat)
        if error is not ErrorCode.NONE:
            self._heed(error, link)

    async def _find_positions(self, link: GroupLink) -> None:
        missing = [one for one in self.owned if one not in self.places]
        if not missing:
            return
        begun_ns = now_ns()
        error, found = await self._fetch(link, missing)
        if error is not ErrorCode.NONE:
            self._heed(error, link)
            return
        for partition, (unstable, offset) in found.items():
            if unstable is ErrorCode.NONE:
                self.notes.fetched(partition, offset, begun_ns, link)
                self.places[partition] = Place(max(offset, 0))
                self._committed[partition] = offset

    async def _fetch(self, link: GroupLink, partitions: list[int]) -> tuple[ErrorCode, Positions]:
        return await link.fetch(partitions)

    async def _read(self, partition: int) -> None:
        try:
            link = self._links.get(partition)
            if link is None:
                leader = await find_leader(self.world, self.random, partition)
                link = self._links[partition] = await open_link(self.world, leader)
                self.places[partition].is_lost = False
            if self.places[partition].is_lost:
                await self.list_starts(link, [partition])
            (answer,) = await self.fetch(link, [partition], _AT_ONCE)
            if answer.error not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                raise link.broken(answer.error.name)
        except LinkFailed as error:
            self.last_error = str(error)
            self._drop_link(partition)

    def _drop_link(self, partition: int) -> None:
        link = self._links.pop(partition, None)
        if link is not None:
            link.close()

    async def _commit(self, link: GroupLink) -> None:
        moved = {
            partition: place.offset
            for partition, place in self.places.items()
            if place.offset > self._committed[partition] and place.offset > 0
        }
        if not moved:
            return
        errors = await self._commit_as(self.seat, link, moved)
        for partition, error in errors.items():
            if error is ErrorCode.NONE:
                self._committed[partition] = moved[partition]
        wrong = [one for one in errors.values() if one is not ErrorCode.NONE]
        if wrong:
            self._heed(wrong[0], link)

    async def _commit_as(
        self, seat: Seat, link: GroupLink, offsets: Mapping[int, int]
    ) -> Mapping[int, ErrorCode]:
        begun_ns = now_ns()
        try:
            errors = await link.commit(seat, offsets)
        except LinkFailed:
            self.notes.commit(seat, offsets, begun_ns, None)
            self._lose_seat()
            raise
        self.notes.commit(seat, offsets, begun_ns, errors)
        return errors

    # --- whims ---------------------------------------------------------------------------------

    async def _leave(self, link: GroupLink) -> None:
        await link.leave(self.seat.member_id, self.seat.instance_id)
        self._lose_seat()
        await asyncio.sleep(self.random.uniform(*DEAD_SECONDS))

    async def _die(self, link: GroupLink) -> None:
        """Be gone without a word, and come back without memory."""
        self._lose_seat()
        await asyncio.sleep(self.random.uniform(*DEAD_SECONDS))
        raise link.link.broken("died")

    async def _freeze(self, _: GroupLink) -> None:
        """Stand still, maybe beyond the end of the session, and know nothing of it."""
        self._may_own_nothing()
        await asyncio.sleep(self.random.uniform(*FROZEN_SECONDS))
        self._was_away()

    def _was_away(self) -> None:
        """Tell the judge that what it reads did not wait for it to come."""
        self.world.polls += [
            Poll(self.name, partition, (), now_ns(), now_ns(), is_elsewhere=True)
            for partition in self.places
        ]

    async def _haunt(self, link: GroupLink) -> None:
        """Commit again with an earlier identity, as a delayed request would.

        Not where members may be assigned to by the coordinator: there who came before is a member
        in its own epoch until its session is over, and may commit whatever it likes (KIP-848).
        """
        ghost, self._before = self._before, replace(self.seat)
        if ghost is not None and self.notes.is_mixed and ghost.member_id != self.seat.member_id:
            ghost = None
        if ghost is None or not self.owned or self.random.random() > HAUNTED_SHARE:
            return
        partition = self.owned[0]
        error, found = await link.fetch([partition])
        _, offset = found.get(partition, (error, -1))
        if offset > 0:
            await self._commit_as(ghost, link, {partition: offset})
