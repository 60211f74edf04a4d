"""A member of a share group on the event loop; at times it vanishes, and begins anew.

It keeps its member id then, as a session ends only after 45 s and a run does not wait so long: its
partitions may be assigned to nobody else until then.
"""

import asyncio
import base64
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.shares.member import Ask, NoAnswer, ShareMember, TryLater, Turn
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import (
    METADATA_VERSION,
    ClientWorld,
    now_ns,
    open_any,
    open_link,
    pause,
)
from simulator.history.shares import ShareNotes

FIND_VERSION = 3
IDLE_SECONDS = (0.005, 0.05)
VANISHES_SHARE = 0.01
"""Of turns, after which the member is gone without a word."""
COORDINATOR = -1


@dataclass(slots=True, kw_only=True)
class Sharer:
    """See the module."""

    world: ClientWorld
    group: str
    topic: str
    number: int
    random: Random
    notes: ShareNotes
    last_error: str = ""
    _links: dict[int, BrokerLink] = field(default_factory=dict)
    """By leader, and the one to the coordinator."""
    _leaders: dict[int, int] = field(default_factory=dict)

    async def run(self) -> None:
        """Take and settle records until the run is over."""
        raw = self.random.getrandbits(128).to_bytes(16, "big")
        name = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
        while not self.world.is_over:
            member = self._new_member(name)
            while not self.world.is_over:
                member.is_draining = self.world.is_stopping
                await self._turn(member)
                if not self.world.is_stopping and self.random.random() < VANISHES_SHARE:
                    break
            self._hang_up()

    def _new_member(self, name: str) -> ShareMember:
        return ShareMember(
            group=self.group,
            topic=self.topic,
            name=name,
            random=self.random,
            notes=self.notes,
            now_ns=now_ns,
            version=1 + self.number % 2,
            hosts=self.world.brokers,
        )

    async def _turn(self, member: ShareMember) -> None:
        try:
            if not self._leaders:
                self._leaders = await self._find_leaders()
            await self._drive(member.turn(self._leaders))
            self.last_error = member.last_error
            await asyncio.sleep(self.random.uniform(*IDLE_SECONDS))
        except (LinkFailed, NoAnswer, TryLater) as error:
            self.last_error = str(error)
            self._leaders = {}
            self._drop(COORDINATOR)
            await pause(self.random)

    async def _drive(self, turn: Turn) -> None:
        """Send what a turn asks for, and give it the answers."""
        ask = next(turn, None)
        while ask is not None:
            try:
                answer = await self._answer(ask)
            except LinkFailed as error:
                self._drop(COORDINATOR if ask.leader is None else ask.leader)
                turn.throw(NoAnswer(f"{ask.key.name}: {error}"))
                return
            try:
                ask = turn.send(answer)
            except StopIteration:
                return

    async def _answer(self, ask: Ask) -> Any:
        place = COORDINATOR if ask.leader is None else ask.leader
        if place not in self._links:
            broker_id = await self._find_coordinator() if place == COORDINATOR else place
            self._links[place] = await open_link(self.world, broker_id)
        return await self._links[place].call(ask.key, ask.version, ask.fields)

    async def _find_coordinator(self) -> int:
        link = await open_any(self.world, self.random)
        try:
            fields = {"key": self.group, "key_type": 0}
            answer = await link.call(ApiKey.FIND_COORDINATOR, FIND_VERSION, fields)
            if answer.error_code != ErrorCode.NONE:
                raise link.broken(ErrorCode(answer.error_code).name)
        finally:
            link.close()
        return int(answer.node_id)

    async def _find_leaders(self) -> dict[int, int]:
        link = await open_any(self.world, self.random)
        fields = {
            "topics": [{"name": self.topic}],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        }
        try:
            answer = await link.call(ApiKey.METADATA, METADATA_VERSION, fields)
        finally:
            link.close()
        return {
            one.partition_index: one.leader_id
            for topic in answer.topics
            for one in topic.partitions
        }

    def _drop(self, place: int) -> None:
        link = self._links.pop(place, None)
        if link is not None:
            link.close()

    def _hang_up(self) -> None:
        for place in [*self._links]:
            self._drop(place)
