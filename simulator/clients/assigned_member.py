"""A member of a consumer group, to which the coordinator assigns partitions step by step (KIP-848).

    heartbeat with epoch 0 ─► given ... ─► read, commit, heartbeat ─► given less: stop, say so ...

It keeps its member id over restarts, as a session ends only after 45 s and a run does not wait so
long: a known member may join again at any time. At random it leaves, leaves for a while if it is a
static member, or forgets everything and joins again.

Source: KIP-848; the member's `generation` is its epoch.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from penstock.protocol.error_codes import ErrorCode
from simulator.clients.group_member import DEAD_SECONDS, Member
from simulator.clients.group_wire import GroupLink, Positions, Seat
from simulator.run.topology import TOPIC

JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2
_AGAIN = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.FENCED_INSTANCE_ID,
)


@dataclass(slots=True, kw_only=True)
class AssignedMember(Member):
    """See the module."""

    has_regex: bool
    assignor: str | None
    topic_id: UUID | None = None
    is_to_leave: bool = False
    """Whether a commit had no answer: it counts for nothing once the member has left."""

    def _heed(self, error: ErrorCode, link: GroupLink) -> None:
        if error in _AGAIN:
            self.last_error = error.name
            self._lose_seat()
        elif error is not ErrorCode.STALE_MEMBER_EPOCH:  # the next heartbeat tells the epoch
            super(AssignedMember, self)._heed(error, link)

    def _lose_seat(self) -> None:
        self._may_own_nothing()
        self.seat.generation = -1
        self._keep_only([])

    async def _commit_as(
        self, seat: Seat, link: GroupLink, offsets: Mapping[int, int]
    ) -> Mapping[int, ErrorCode]:
        self.is_to_leave = True
        errors = await super(AssignedMember, self)._commit_as(seat, link, offsets)
        self.is_to_leave = False
        return errors

    async def _join(self, link: GroupLink) -> bool:
        if self.is_to_leave:
            await self._go(link, LEAVE)
            self.is_to_leave = False
        return await self._say(
            link, {"member_epoch": JOIN, **self._wants(), "topic_partitions": []}
        )

    async def _beat(self, link: GroupLink) -> None:
        """Say what it reads; at times everything, as after a lost connection."""
        fields: dict[str, Any] = {"member_epoch": self.seat.generation}
        owned = [{"topic_id": self.topic_id, "partitions": self.owned}] if self.owned else []
        if self.random.random() < 0.8:
            fields |= {"topic_partitions": owned}
        else:
            fields |= {**self._wants(), "topic_partitions": owned}
        await self._say(link, fields)

    def _wants(self) -> dict[str, Any]:
        return {
            "rebalance_timeout": self.times.rebalance_ms,
            "subscribed_topic_names": None if self.has_regex else [TOPIC],
            "subscribed_topic_regex": f"{TOPIC[:-1]}." if self.has_regex else None,
            "server_assignor": self.assignor,
        }

    async def _say(self, link: GroupLink, fields: dict[str, Any]) -> bool:
        """Send a heartbeat and take what is given; returns whether it is a member."""
        who = {"member_id": self.seat.member_id, "instance_id": self.seat.instance_id}
        answer = await link.consumer_heartbeat({**who, **fields})
        error = ErrorCode(answer.error_code)
        if error is not ErrorCode.NONE:
            self._heed(error, link)
            return False
        self.seat.generation = answer.member_epoch
        if answer.assignment is not None:
            self._given(answer.assignment.topic_partitions)
        return True

    def _given(self, topics: Any) -> None:
        """Stop to read what it has no more, before it says so; read on in what it keeps."""
        owned: list[int] = []
        for topic in topics:
            self.topic_id = topic.topic_id
            owned = sorted(topic.partitions)
        self.notes.given(self.seat, owned, is_by_epoch=True)
        self._keep_only(owned)

    async def _fetch(self, link: GroupLink, partitions: list[int]) -> tuple[ErrorCode, Positions]:
        return await link.fetch(partitions, seat=self.seat)

    async def _leave(self, link: GroupLink) -> None:
        epoch = LEAVE
        if self.seat.instance_id is not None and self.random.random() < 0.5:
            epoch = LEAVE_FOR_A_WHILE
        self._lose_seat()
        await self._go(link, epoch)
        await asyncio.sleep(self.random.uniform(*DEAD_SECONDS))

    async def _go(self, link: GroupLink, epoch: int) -> None:
        """Leave; raises LinkFailed unless the member has left, or was none."""
        who = {"member_id": self.seat.member_id, "instance_id": self.seat.instance_id}
        answer = await link.consumer_heartbeat({**who, "member_epoch": epoch})
        error = ErrorCode(answer.error_code)
        if error not in (ErrorCode.NONE, *_AGAIN):
            raise link.link.broken(error.name)

    async def _freeze(self, link: GroupLink) -> None:
        """Be restarted: it joins again with its member id."""
        del link
        self._was_away()
        self._lose_seat()
