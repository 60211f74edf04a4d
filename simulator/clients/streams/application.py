"""The application of a run: its members, an administrator, and what must be true in the end.

    a task          has one member that works on it, and no copy where it is worked on
    described       an active task is had by one member
    in the end      every task has a member, and a copy if there are two processes to keep one

Source: KIP-1071.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.group_wire import open_coordinator
from simulator.clients.streams.member import STREAMS, StreamsMember
from simulator.clients.streams.topology import COUNTS, tasks_of, topology_of
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld, pause
from simulator.history import Rules
from simulator.history.tasks import TaskNotes, judge_tasks
from simulator.kernel.process import Process
from simulator.kernel.simulation import Simulation
from simulator.run.topology import STREAMS_SESSION_MS

GROUP = "application"
REGEX_SHARE = 0.4
ASK_SECONDS = (0.3, 0.9)
SURE_SHARE = 0.95
"""Of a session: clocks of brokers may be fast."""
Start = Callable[[str, list[Coroutine[Any, Any, None]]], Process]


class Application:
    """`count` processes of one application."""

    def __init__(self, simulation: Simulation, world: ClientWorld, count: int) -> None:
        self._world = world
        self._random = simulation.random("streams")
        self.notes = TaskNotes(session_ns=round(SURE_SHARE * STREAMS_SESSION_MS * 1_000_000))
        topology = topology_of(GROUP, has_regex=self._random.random() < REGEX_SHARE)
        self.members = [
            StreamsMember(
                world=world,
                group=GROUP,
                name=f"stream{number}",
                random=simulation.random(f"stream{number}"),
                topology=topology,
                notes=self.notes,
            )
            for number in range(count)
        ]

    def start(self, start: Start) -> None:
        """Start them."""
        for one in self.members:
            start(one.name, [one.run()])
        start("streams-describer", [self._describe_always()])

    async def _describe_always(self) -> None:
        while not self._world.is_over:
            await asyncio.sleep(self._random.uniform(*ASK_SECONDS))
            try:
                await self._describe(self._random)
            except LinkFailed:
                await pause(self._random)

    async def _describe(self, draw: Random) -> None:
        link = await open_coordinator(self._world, draw, GROUP, STREAMS)
        try:
            fields = {"group_ids": [GROUP], "include_authorized_operations": True}
            answer = await link.call(ApiKey.STREAMS_GROUP_DESCRIBE, fields)
        finally:
            link.close()
        (group,) = answer.groups
        if group.error_code == ErrorCode.NONE and (twice := _had_twice(group.members)):
            said = f"{GROUP} is described with {twice}, which two members have"
            self._world.refuse(said, link.host)

    def behind(self) -> Iterator[str]:
        """Name the tasks that nobody works on, and those that have no copy."""
        wanted = tasks_of(self._world.partitions)
        active = {task for one in self.members for task in one.active}
        if missing := sorted(wanted - active):
            yield f"nobody works on {missing} ({self._told()})"
        copies = {task for one in self.members for task in one.standby}
        stateful = {task for task in wanted if task[0] == COUNTS}
        if len(self.members) > 1 and (bare := sorted(stateful - copies)):
            yield f"nobody keeps a copy of {bare} ({self._told()})"

    def _told(self) -> str:
        return ", ".join(f"{one.member_id}: {one.last_error or 'fine'}" for one in self.members)

    def judge(self, rules: Rules) -> list[str]:
        """Return what members were told and must not be."""
        return [f"{GROUP}: {text}" for text in judge_tasks(self.notes, rules)]


def _had_twice(members: Any) -> list[tuple[str, int]]:
    """Return the active tasks that more than one member has."""
    had: set[tuple[str, int]] = set()
    twice: list[tuple[str, int]] = []
    for member in members:
        for one in member.assignment.active_tasks:
            for number in one.partitions:
                task = (one.subtopology_id, number)
                twice += [task] if task in had else []
                had.add(task)
    return twice
