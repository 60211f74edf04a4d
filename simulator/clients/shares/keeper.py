"""An administrator of share groups without members: moves their shares, forgets them, looks.

    reset ─► look ─► forget the topic, or delete the group ─► look ─► another group

A share begins where the last reset that was answered has put it, until it is forgotten. Nothing
reads there, so nothing else moves it. A request without an answer, or one that was refused in part,
may be executed at any later time: such a group is not checked further.

Source: KIP-932, "Managing durable share-partition state".
"""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.feeder import PARTITIONS, Feeder
from simulator.clients.group_wire import GroupLink, Versions, open_coordinator
from simulator.clients.world import ClientWorld, Step, try_step
from simulator.run.topology import LEASE_MS

KEEPING: Versions = {
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: 0,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: 0,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 1,
    ApiKey.SHARE_GROUP_DESCRIBE: 1,
    ApiKey.DELETE_GROUPS: 2,
}
NOT_BEGUN = -1
_NOTHING = dict.fromkeys(range(PARTITIONS), NOT_BEGUN)
STEPS_PAUSED = 3


@dataclass(slots=True, kw_only=True)
class KeptShares:
    """One group, and where its shares begin, as far as that is known."""

    name: str
    starts: dict[int, int] = field(default_factory=lambda: dict(_NOTHING))
    is_doubtful: bool = False


@dataclass(slots=True, kw_only=True)
class ShareKeeper:
    """See the module."""

    world: ClientWorld
    random: Random
    topic: str
    members_group: str
    """One with members, which is only looked at."""
    feeder: Feeder
    kept: list[KeptShares] = field(default_factory=list)

    async def run(self) -> None:
        """Go on until told to stop, and look once more at all that there was."""
        while not self.world.is_stopping and not self.world.is_over:
            group = KeptShares(name=f"kept-{len(self.kept)}")
            self.kept.append(group)
            for step in self._steps(group):
                if not self.world.is_stopping:
                    await try_step(step, self.random, STEPS_PAUSED)
        for group in self.kept:
            await try_step(partial(self._look, group), self.random, STEPS_PAUSED)

    def _steps(self, group: KeptShares) -> list[Step]:
        steps: list[Step] = [
            lambda: self._reset(group),
            lambda: self._forget(group),
            lambda: self._delete(group),
            lambda: self._describe(group.name),
            lambda: self._describe(self.members_group),
        ]
        found: list[Step] = [lambda: self._reset(group)]
        for step in self.random.sample(steps, 3):
            found += [step, lambda: self._look(group)]
        return found

    async def _ask(self, group: str, key: ApiKey, fields: dict[str, Any]) -> tuple[Any, str]:
        """Return the coordinator's answer, and its host. Raises LinkFailed."""
        link: GroupLink = await open_coordinator(self.world, self.random, group, KEEPING)
        try:
            return await link.call(key, fields), link.host
        finally:
            link.close()

    # --- what changes --------------------------------------------------------------------------

    async def _reset(self, group: KeptShares) -> None:
        """Let shares of some partitions begin elsewhere, further back too."""
        partitions = self.random.sample(range(PARTITIONS), self.random.randint(1, PARTITIONS))
        starts = {one: self.random.randint(0, self.feeder.ends[one]) for one in partitions}
        fields = self._starts(group.name, starts)
        answer = await self._change(group, ApiKey.ALTER_SHARE_GROUP_OFFSETS, fields)
        told = {one.partition_index: one.error_code for one in _partitions(answer)}
        if answer.error_code == ErrorCode.NONE and told == dict.fromkeys(starts, ErrorCode.NONE):
            group.starts |= starts
        else:
            group.is_doubtful = True

    def _starts(self, group: str, starts: dict[int, int]) -> dict[str, Any]:
        partitions = [
            {"partition_index": one, "start_offset": offset} for one, offset in starts.items()
        ]
        topics = [{"topic_name": self.topic, "partitions": partitions}]
        return {"group_id": group, "topics": topics}

    async def _forget(self, group: KeptShares) -> None:
        fields = {"group_id": group.name, "topics": [{"topic_name": self.topic}]}
        answer = await self._change(group, ApiKey.DELETE_SHARE_GROUP_OFFSETS, fields)
        codes = [answer.error_code, *(one.error_code for one in answer.responses)]
        self._are_gone(group, codes)

    async def _delete(self, group: KeptShares) -> None:
        fields = {"groups_names": [group.name]}
        answer = await self._change(group, ApiKey.DELETE_GROUPS, fields)
        self._are_gone(group, [one.error_code for one in answer.results])

    def _are_gone(self, group: KeptShares, codes: list[int]) -> None:
        if any(codes):
            group.is_doubtful |= group.starts != _NOTHING
        else:
            group.starts = dict(_NOTHING)

    async def _change(self, group: KeptShares, key: ApiKey, fields: dict[str, Any]) -> Any:
        was_doubtful, group.is_doubtful = group.is_doubtful, True
        answer, _ = await self._ask(group.name, key, fields)
        group.is_doubtful = was_doubtful
        return answer

    # --- what is told --------------------------------------------------------------------------

    async def _describe(self, group: str) -> None:
        """Ask for all there is to a group; of one with members nothing of that is judged."""
        fields = {"group_ids": [group, "no-such-group"], "include_authorized_operations": True}
        await self._ask(group, ApiKey.SHARE_GROUP_DESCRIBE, fields)
        asked = {"group_id": group, "topics": None}
        whole = {"groups": [asked], "with_deliveries": True}
        await self._ask(group, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, whole)

    async def _look(self, group: KeptShares) -> None:
        """Ask where the shares begin.

        Who stood still may tell what is old for a moment, so it is asked twice.
        """
        if await self._wrong(group):
            await asyncio.sleep(2 * LEASE_MS / 1_000)
            if wrong := await self._wrong(group):
                self.world.refuse(wrong)

    async def _wrong(self, group: KeptShares) -> str:
        """Return what is told and is not so, or nothing."""
        topics = [{"topic_name": self.topic, "partitions": [*range(PARTITIONS)]}]
        asked = {"group_id": group.name, "topics": self.random.choice((None, topics))}
        key = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
        answer, _ = await self._ask(group.name, key, {"groups": [asked]})
        (told,) = answer.groups
        if group.is_doubtful or told.error_code not in {
            ErrorCode.NONE,
            ErrorCode.GROUP_ID_NOT_FOUND,
        }:
            return ""
        partitions = [one for topic in told.topics for one in topic.partitions]
        if any(one.error_code for one in partitions):
            return ""
        starts = _NOTHING | {one.partition_index: one.start_offset for one in partitions}
        if starts == group.starts:
            return ""
        return f"shares of {group.name} begin at {starts}, and were put to {group.starts}"


def _partitions(answer: Any) -> list[Any]:
    return [one for topic in answer.responses for one in topic.partitions]
