"""A group without members: a commit from outside, reads of it, and its deletion.

    commit ─► read ... ─► delete the position, or the group ─► read: it must not reappear

A request without an answer may be executed at any later time: such a group is not checked further.
"""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.group_member import GroupNotes
from simulator.clients.group_wire import NEWER, GroupLink, Seat, open_coordinator
from simulator.clients.world import ClientWorld, now_ns
from simulator.history import NOTHING_COMMITTED, Commit, Outcome
from simulator.run.topology import LEASE_MS, TOPIC

OFFSETS = range(1, 100)
_NOTHING_DONE = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP)


@dataclass(slots=True, kw_only=True)
class MemberlessGroup:
    """See the module. Every method raises LinkFailed."""

    world: ClientWorld
    random: Random
    notes: GroupNotes
    is_doubtful: bool = False
    is_gone: bool = False
    """Whether its position in the history's topic was deleted, and that was answered."""

    async def _coordinator(self) -> GroupLink:
        return await open_coordinator(self.world, self.random, self.notes.name, NEWER)

    async def commit(self) -> None:
        """Commit a position in the history's topic; not twice."""
        link, seat = await self._coordinator(), Seat()
        offsets, begun_ns = {0: self.random.choice(OFFSETS)}, now_ns()
        errors = None
        try:
            errors = await link.commit(seat, offsets)
        finally:
            link.close()
            self.is_doubtful |= errors != {0: ErrorCode.NONE}
            self.notes.commit(seat, offsets, begun_ns, errors)

    async def commit_elsewhere(self, topic: str) -> None:
        """Commit a position in another topic."""
        link = await self._coordinator()
        try:
            await link.commit(Seat(), {0: self.random.choice(OFFSETS)}, topic=topic)
        finally:
            link.close()

    async def look(self) -> None:
        """Ask for all positions; what was deleted must not be there.

        Who stood still may tell what is old for a moment, so it is asked twice: what is there again
        stays.
        """
        if await self._is_back():
            await asyncio.sleep(2 * LEASE_MS / 1_000)
            if await self._is_back():
                said = f"{self.notes.name}: its position is there again after its deletion"
                self.world.refuse(said)

    async def _is_back(self) -> bool:
        link = await self._coordinator()
        is_gone, begun_ns = self.is_gone and not self.is_doubtful, now_ns()
        try:
            error, found = await link.fetch(None)
        finally:
            link.close()
        if error is not ErrorCode.NONE:
            return False
        unstable, offset = found.get(0, (error, NOTHING_COMMITTED))
        if unstable is not ErrorCode.NONE:
            return False
        self.notes.fetched(0, offset, begun_ns, link)
        return is_gone and offset != NOTHING_COMMITTED

    async def delete_position(self) -> None:
        """Delete the position in the history's topic."""
        topics = [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
        fields = {"group_id": self.notes.name, "topics": topics}
        await self._delete(ApiKey.OFFSET_DELETE, fields)

    async def delete(self) -> None:
        """Delete the group."""
        await self._delete(ApiKey.DELETE_GROUPS, {"groups_names": [self.notes.name]})

    async def _delete(self, key: ApiKey, fields: dict[str, Any]) -> None:
        link = await self._coordinator()
        begun_ns, error = now_ns(), None
        try:
            answer = await link.link.call(key, DELETE_VERSIONS[key], fields)
            error = _error_in(key, answer)
        finally:
            link.close()
            self._note_deletion(begun_ns, error)

    def _note_deletion(self, begun_ns: int, error: ErrorCode | None) -> None:
        outcome = Outcome.FAILED if error in _NOTHING_DONE else Outcome.UNKNOWN
        if error is ErrorCode.NONE:
            outcome = Outcome.ACKED
        self.is_gone |= outcome is Outcome.ACKED
        self.is_doubtful |= outcome is Outcome.UNKNOWN
        end_ns = None if outcome is Outcome.UNKNOWN else now_ns()
        self.notes.commits.append(
            Commit(self.notes.name, 0, NOTHING_COMMITTED, begun_ns, end_ns, outcome, is_rewind=True)
        )


DELETE_VERSIONS = {ApiKey.OFFSET_DELETE: 0, ApiKey.DELETE_GROUPS: 2}


def _error_in(key: ApiKey, answer: Any) -> ErrorCode:
    """Return what is said of the one that was to be deleted."""
    if key is ApiKey.DELETE_GROUPS:
        return ErrorCode(answer.results[0].error_code)
    if answer.error_code != ErrorCode.NONE:
        return ErrorCode(answer.error_code)
    return ErrorCode(answer.topics[0].partitions[0].error_code)
