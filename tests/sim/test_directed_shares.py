"""Schedules where the coordinator of a share group and the master of its data are apart.

What the coordinator asks of the master is slow; meanwhile the coordinator is replaced, or killed,
or the master is. What was answered by then has to stay so: a share that is deleted does not come
back, and one that was put elsewhere does not go.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.base.ids import ReplicaSetId
from penstock.coordinator.partitioning import partition_of
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.node.node import Node
from penstock.protocol.api_keys import ApiKey
from simulator.clients.group_wire import open_coordinator
from simulator.clients.shares.keeper import KEEPING
from simulator.clients.wire import LinkFailed
from simulator.clients.world import pause
from simulator.faults.weather import Effect, pairs
from simulator.kernel.process import Process
from simulator.run.one_run import Run
from simulator.run.plan import Shape
from simulator.run.server import Server
from simulator.run.topology import TOPIC
from tests.sim.test_directed import follow

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    # Processes that are cut off close nothing, and say so when they are collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SHAPE = Shape(is_apart=True, partitions=1, producers=1, records_per_second=20)
SLOW_S = 5.0
"""Longer than it takes to replace a coordinator, and less than a question may take."""
DONE_S = 120.0
BEFORE, AFTER = 1, 3
"""Offsets that a share is put to."""


class Apart:
    """A share group whose coordinator leads another set than that of the data."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.group = ""
        self._draw = run.simulation.random("keeper outside")
        self._asking: list[Process] = []

    async def find_group(self) -> None:
        """Choose a group; asking who coordinates one makes the topic of groups."""
        await self._client(self._insist(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, {"groups": []}, "any"))
        await self.run.until(lambda: INTERNAL_TOPIC in self._topics())
        names = (f"kept-{number}" for number in range(100))
        self.group = next(name for name in names if self._coordinator_of(name) != self.master)

    def _topics(self) -> dict[str, Any]:
        image = self.run.cluster.newest_image()
        return {} if image is None else dict(image.topics_by_name)

    def _leader(self, topic: str, partition: int) -> Server | None:
        image = self.run.cluster.newest_image()
        if image is None or topic not in image.topics_by_name:
            return None
        set_id = image.topics_by_name[topic].partitions.set_ids[partition]
        host = self.run.cluster.brokers.get(image.replica_sets[ReplicaSetId(set_id)].master)
        return None if host is None else self.run.cluster.servers[host]

    def _coordinator_of(self, group: str) -> Server | None:
        count = len(self._topics()[INTERNAL_TOPIC].partitions)
        return self._leader(INTERNAL_TOPIC, partition_of(group, count))

    @property
    def coordinator(self) -> Server | None:
        return self._coordinator_of(self.group)

    @property
    def master(self) -> Server | None:
        return self._leader(TOPIC, 0)

    def shares(self) -> list[str]:
        """Return who has a share of the group."""
        nodes = [one.node for one in self.run.cluster.servers.values()]
        return [
            f"broker {node._broker.broker_id}"
            for node in nodes
            if isinstance(node, Node)
            for key in node._broker.shares.here.keys()  # noqa: SIM118  no mapping
            if key.group == self.group
        ]

    # What an administrator asks for

    async def _client(self, work: Awaitable[Any]) -> None:
        await self._start(work).ended

    def _start(self, work: Awaitable[Any]) -> Process:
        async def main(_: Process) -> None:
            await work

        return self.run.simulation.start("client-outside", "outside", main)

    async def _ask(self, key: ApiKey, fields: dict[str, Any], group: str) -> Any:
        link = await open_coordinator(self.run.clients.world, self._draw, group, KEEPING)
        try:
            return await link.call(key, fields)
        finally:
            link.close()

    async def _insist(self, key: ApiKey, fields: dict[str, Any], group: str) -> None:
        """Ask until all is done as it was asked for."""
        deadline_s = self.run.simulation.now_s + DONE_S
        while self.run.simulation.now_s < deadline_s:
            try:
                if not any(_codes(await self._ask(key, fields, group))):
                    return
            except LinkFailed:
                pass
            await pause(self._draw)
        raise AssertionError(f"not done in {DONE_S} s")

    def _moved_to(self, offset: int) -> tuple[ApiKey, dict[str, Any]]:
        partitions = [{"partition_index": 0, "start_offset": offset}]
        topics = [{"topic_name": TOPIC, "partitions": partitions}]
        return ApiKey.ALTER_SHARE_GROUP_OFFSETS, {"group_id": self.group, "topics": topics}

    def _deleted(self) -> tuple[ApiKey, dict[str, Any]]:
        return ApiKey.DELETE_GROUPS, {"groups_names": [self.group]}

    async def move(self, offset: int) -> None:
        """Put the share there, for certain."""
        await self._client(self._insist(*self._moved_to(offset), self.group))

    async def delete(self) -> None:
        """Delete the group, for certain."""
        await self._client(self._insist(*self._deleted(), self.group))

    def begin(self, what: tuple[ApiKey, dict[str, Any]]) -> None:
        """Ask once, and wait for no answer."""

        async def once() -> None:
            with contextlib.suppress(LinkFailed):
                await self._ask(*what, self.group)

        self._asking.append(self._start(once()))

    def begin_move(self, offset: int) -> None:
        self.begin(self._moved_to(offset))

    def begin_deletion(self) -> None:
        self.begin(self._deleted())

    async def start_offset(self) -> int:
        """Return where the share begins, by its coordinator."""
        told: list[int] = []

        async def look() -> None:
            topics = [{"topic_name": TOPIC, "partitions": [0]}]
            groups = [{"group_id": self.group, "topics": topics}]
            while not told:
                key = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
                try:
                    answer = await self._ask(key, {"groups": groups}, self.group)
                except LinkFailed:
                    await pause(self._draw)
                    continue
                parts = [one for topic in answer.groups[0].topics for one in topic.partitions]
                told.extend(one.start_offset for one in parts if not one.error_code)
                await pause(self._draw)

        await self._client(look())
        return told[0]

    # What happens to it

    def slow(self, old: Server) -> Effect:
        """What the coordinator says to the master takes long."""
        assert self.master is not None
        slow = pairs([old.name], [self.master.name], both_ways=False)
        effect = Effect(pairs=slow, latency_s=SLOW_S)
        self.run.cluster.weather.add(effect)
        return effect

    async def replace(self, old: Server) -> Effect:
        """Cut the coordinator off from all but the master, until another one is there."""
        assert self.master is not None
        near = {old.name, self.master.name}
        others = [host for host in self.run.cluster.servers if host not in near]
        cut = Effect(pairs=pairs([old.name], others, both_ways=True), is_cut=True)
        self.run.cluster.weather.add(cut)
        await self.run.until(lambda: self.coordinator not in (None, old))
        return cut


def _codes(answer: Any) -> list[int]:
    """Return all codes of an answer of any of these kinds."""
    rows = [answer]
    for name in ("results", "responses", "groups", "topics", "partitions"):
        rows += [one for row in rows for one in getattr(row, name, None) or ()]
    return [row.error_code for row in rows if hasattr(row, "error_code")]


async def apart(run: Run) -> Apart:
    one = Apart(run)
    await one.find_group()
    await one.move(BEFORE)
    assert one.shares() != []
    return one


async def late(one: Apart, begin: Callable[[], None], meanwhile: Callable[[], Any]) -> None:
    """Let a coordinator ask, be replaced, and be heard after its successor."""
    old = one.coordinator
    assert old is not None
    assert old is not one.master
    slow = one.slow(old)
    begun_s = one.run.simulation.now_s
    begin()
    await asyncio.sleep(0.3)
    cut = await one.replace(old)
    await meanwhile()
    assert one.run.simulation.now_s < begun_s + SLOW_S, "it was heard before"
    await asyncio.sleep(begun_s + 2 * SLOW_S - one.run.simulation.now_s)
    one.run.cluster.weather.remove(cut)
    one.run.cluster.weather.remove(slow)


def test_a_share_does_not_begin_after_its_group_was_deleted_by_a_later_coordinator() -> None:
    async def schedule(run: Run) -> None:
        one = await apart(run)
        await late(one, lambda: one.begin_move(AFTER), one.delete)
        assert one.shares() == []

    follow(schedule, SHAPE)


def test_a_share_is_not_deleted_after_it_was_moved_by_a_later_coordinator() -> None:
    async def schedule(run: Run) -> None:
        one = await apart(run)
        await late(one, one.begin_deletion, lambda: one.move(AFTER))
        assert await one.start_offset() == AFTER

    follow(schedule, SHAPE)


def test_a_share_is_not_moved_after_it_was_moved_by_a_later_coordinator() -> None:
    async def schedule(run: Run) -> None:
        one = await apart(run)
        await late(one, lambda: one.begin_move(BEFORE + 1), lambda: one.move(AFTER))
        assert await one.start_offset() == AFTER

    follow(schedule, SHAPE)


KILLED = ("coordinator", "master", "both")
MOMENTS_S = (0.001, 0.004, 0.012)
"""After a request: on its way, with the coordinator, with the master."""


@pytest.mark.parametrize("who", KILLED)
def test_what_was_asked_of_who_was_killed_is_done_or_not_and_what_follows_counts(who: str) -> None:
    async def schedule(run: Run) -> None:
        one = await apart(run)
        for moment_s in MOMENTS_S:
            for begin, is_deletion in ((lambda: one.begin_move(BEFORE), False),
                                       (one.begin_deletion, True)):  # fmt: skip
                victims = await _found(one, who)
                begin()
                await asyncio.sleep(moment_s)
                for victim in victims:
                    victim.kill()
                await asyncio.sleep(0.5)
                for victim in victims:
                    victim.start()
                if is_deletion:
                    await one.move(AFTER)
                    assert await one.start_offset() == AFTER
                else:
                    await one.delete()
                    await asyncio.sleep(1.0)
                    assert one.shares() == []

    follow(schedule, SHAPE)


async def _found(one: Apart, who: str) -> list[Server]:
    """Wait until both are there, and return who is meant."""
    await one.run.until(lambda: None not in (one.coordinator, one.master), seconds=30.0)
    both = {"coordinator": one.coordinator, "master": one.master}
    chosen = both.values() if who == "both" else [both[who]]
    return [*dict.fromkeys(server for server in chosen if server is not None)]
