"""Clients outside of groups: watchers of committed positions, and an operator.

    watcher    always asks the same broker, and records the positions that it answers
    visitor    lists and describes groups, removes members, creates and deletes groups of its own

A coordinator that was replaced and does not know it is observed only by its broker's watcher.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.group_member import GroupNotes
from simulator.clients.group_wire import (
    NEWER,
    GroupLink,
    Seat,
    Times,
    open_coordinator,
    subscription,
)
from simulator.clients.memberless_group import MemberlessGroup
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import ClientWorld, Step, now_ns, open_any, pause, try_step
from simulator.run.topology import KAFKA_PORT

ASK_SECONDS = (0.2, 0.5)
STEPS_PAUSED = 3
UNUSED = Times(1_000, 1_000)
"""How long a member id is kept that no client joins with."""
STATES = ("Stable", "Empty", "Dead")
TYPES = ("classic", "Consumer", "share", "streams")
VERSIONS = {
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 1,
    ApiKey.LIST_GROUPS: 5,
    ApiKey.OFFSET_DELETE: 0,
}


@dataclass(slots=True, kw_only=True)
class Watcher:
    """See the module."""

    world: ClientWorld
    random: Random
    host: str
    groups: Sequence[GroupNotes]

    async def run(self) -> None:
        """Ask until the run is over."""
        while not self.world.is_over:
            try:
                link = await BrokerLink.open(self.host, KAFKA_PORT)
                try:
                    while not self.world.is_over:
                        await asyncio.sleep(self.random.uniform(*ASK_SECONDS))
                        await self._ask(link)
                finally:
                    link.close()
            except LinkFailed:
                await pause(self.random)

    async def _ask(self, link: BrokerLink) -> None:
        notes = self.random.choice(self.groups)
        begun_ns = now_ns()
        asking = GroupLink(link, self.host, notes.name, NEWER)
        error, found = await asking.fetch(range(self.world.partitions), is_stable=False)
        if error is not ErrorCode.NONE:
            return
        for partition, (unstable, offset) in found.items():
            if unstable is ErrorCode.NONE:
                notes.fetched(partition, offset, begun_ns, asking)


@dataclass(slots=True, kw_only=True)
class Visitor:
    """See the module. Each round has a group of its own, without members."""

    world: ClientWorld
    random: Random
    groups: Sequence[GroupNotes]
    instances: Sequence[tuple[str, str]]
    """(group, instance id) of the static members."""
    other_topic: Callable[[], str]
    """One that may be deleted at any time."""
    visited: list[MemberlessGroup] = field(default_factory=list)

    async def run(self) -> None:
        """Go on until told to stop, and look once more at all that there was."""
        while not self.world.is_stopping and not self.world.is_over:
            name = f"visited-{len(self.visited)}"
            notes = GroupNotes(name=name, is_cooperative=False)
            group = MemberlessGroup(world=self.world, random=self.random, notes=notes)
            self.visited.append(group)
            for step in self._steps(group):
                if not self.world.is_stopping:
                    await try_step(step, self.random, STEPS_PAUSED)
        for one in self.visited:
            await try_step(one.look, self.random, STEPS_PAUSED)

    def _steps(self, group: MemberlessGroup) -> list[Step]:
        name = group.notes.name
        steps: list[Step] = [
            lambda: group.commit_elsewhere(self.other_topic()),
            self._list,
            lambda: self._describe(name),
            self._describe_assigned,
            group.delete_position,
            self._delete_position_of_a_member,
            lambda: self._ask_for_an_id(name),
            self._remove,
            group.delete,
            group.look,
            self.random.choice(self.visited).look,
        ]
        self.random.shuffle(steps)
        return [group.commit, group.look, *steps[:5]]

    async def _coordinator(self, group: str) -> GroupLink:
        return await open_coordinator(self.world, self.random, group, NEWER)

    async def _call(self, group: str, key: ApiKey, fields: dict[str, Any]) -> Any:
        link = await self._coordinator(group)
        try:
            return await link.link.call(key, VERSIONS[key], fields)
        finally:
            link.close()

    async def _ask_for_an_id(self, group: str) -> None:
        """Get an id to join with, and never use it."""
        name = self.random.choice([group, f"{group}-void", *[one.name for one in self.groups]])
        protocol = next((one.protocol for one in self.groups if one.name == name), "range")
        link = await self._coordinator(name)
        try:
            await link.join(Seat(), UNUSED, (protocol, subscription(())))
        finally:
            link.close()

    async def _list(self) -> None:
        link = await open_any(self.world, self.random)
        try:
            states = self.random.sample(STATES, self.random.randrange(2))
            key = ApiKey.LIST_GROUPS
            types = self.random.sample(TYPES, self.random.randrange(3))
            fields = {"states_filter": states, "types_filter": types}
            await link.call(key, VERSIONS[key], fields)
        finally:
            link.close()

    async def _describe(self, group: str) -> None:
        name = self.random.choice([group, *[one.name for one in self.groups]])
        fields = {"groups": [name], "include_authorized_operations": True}
        await self._call(name, ApiKey.DESCRIBE_GROUPS, fields)

    async def _describe_assigned(self) -> None:
        """Describe a group as one that is assigned to; what its members have, one of them has."""
        name = self.random.choice(self.groups).name
        fields = {"group_ids": [name, "no-such-group"], "include_authorized_operations": True}
        answer = await self._call(name, ApiKey.CONSUMER_GROUP_DESCRIBE, fields)
        for group in answer.groups:
            had = Counter(
                (topic.topic_name, partition)
                for member in group.members
                for topic in member.assignment.topic_partitions
                for partition in topic.partitions
            )
            if twice := [place for place, count in had.items() if count > 1]:
                self.world.refuse(f"{name} is described with {twice}, which two members have")

    async def _delete_position_of_a_member(self) -> None:
        """Delete what no member reads."""
        group = self.random.choice(self.groups).name
        topics = [{"name": self.other_topic(), "partitions": [{"partition_index": 0}]}]
        await self._call(group, ApiKey.OFFSET_DELETE, {"group_id": group, "topics": topics})

    async def _remove(self) -> None:
        """Remove a static member, as operators do with those that will not come back."""
        if not self.instances:
            return
        group, instance_id = self.random.choice(self.instances)
        link = await self._coordinator(group)
        try:
            await link.leave("", instance_id)
        finally:
            link.close()
