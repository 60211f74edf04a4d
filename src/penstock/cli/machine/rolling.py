"""A rolling restart: restart one node after the other, each once the one before is in step again.

    all healthy? ─► node k: drained and ended ─► started ─► ready, and in the sync-state set of each
    of its sets, each of which has a master ─► node k + 1

It stops at the first node that is not back in time and leaves the others running, since stopping
one more could leave sets with too few members. The file is read again at the beginning, so new
settings take effect; ids, directories and the number of nodes can not change.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from penstock.base.errors import ConfigError
from penstock.cli.launch.node_process import say
from penstock.cli.machine.plan import MachinePlan, PlannedNode
from penstock.cli.machine.supervised_node import Patience, SupervisedNode
from penstock.controller.metadata.image import NO_MASTER
from penstock.runtime.io.http_server import Page

FAILURES_MAX = 3
"""After so many failures of the restarted node the rolling restart stops."""
READY = 200
LOOKS = 2
"""Consecutive polls that must show the node in step: the first may have data from before."""


class RollStopped(Exception):
    """The rolling restart ends here; the message says why."""


class Rolling:
    """Runs rolling restarts, at most one at a time."""

    def __init__(
        self,
        nodes: Sequence[SupervisedNode],
        plan: MachinePlan,
        plan_anew: Callable[[], MachinePlan],
        patience: Patience,
        health: Callable[[], Awaitable[Page]],
    ) -> None:
        self.state = "none yet"
        """How far it is, or how the last one ended, as text."""
        self._nodes = nodes
        self._plan = plan
        self._plan_anew = plan_anew
        self._patience = patience
        self._health = health
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin a rolling restart, unless one is under way."""
        if self._task is not None and not self._task.done():
            say(f"rolling restart: one is under way ({self.state})")
            return
        self._task = asyncio.create_task(self._run())

    async def give_up(self) -> None:
        """Cancel the one under way, since all nodes are to stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            self._plan = await self._planned()
            for node, planned in zip(self._nodes, self._plan.nodes, strict=True):
                self._tell(f"node {node.broker_id}")
                await self._restart(node, planned)
        except (RollStopped, ConfigError) as error:
            self._tell(f"stopped: {error}")
        except Exception as error:
            self._tell(f"stopped: {error!r}")
            raise
        else:
            self._tell("done")

    def _tell(self, state: str) -> None:
        self.state = state
        say(f"rolling restart: {state}")

    async def _planned(self) -> MachinePlan:
        """Return the new plan. Raises ConfigError or RollStopped before any node is restarted."""
        page = await self._health()
        ready = await asyncio.gather(*(node.page("/ready") for node in self._nodes))
        starting = [
            node.broker_id
            for node, answer in zip(self._nodes, ready, strict=True)
            if answer.status != READY
        ]
        if page.status == READY and starting:
            raise RollStopped(f"not begun, since nodes are still starting: {starting}")
        if page.status != READY:
            wrong = ", ".join(map(str, json.loads(page.body)["wrong"]))
            raise RollStopped(f"not begun, since these nodes are not healthy: {wrong}")
        plan = await asyncio.to_thread(self._plan_anew)
        if changed := changes(self._plan, plan):
            raise RollStopped(
                f"not begun, since {' and '.join(changed)} would change: restart the service for it"
            )
        return plan

    async def _restart(self, node: SupervisedNode, planned: PlannedNode) -> None:
        try:
            await node.begin_anew(self._plan, planned)
            async with asyncio.timeout(self._patience.in_step_s):
                await self._until_back(node)
        except TimeoutError:
            raise RollStopped(
                f"node {node.broker_id} is not back in step after {self._patience.in_step_s:g} s; "
                "the nodes behind it run as before"
            ) from None
        finally:
            node.is_restarting = False

    async def _until_back(self, node: SupervisedNode) -> None:
        seen = 0
        while seen < LOOKS:
            if node.failures >= FAILURES_MAX:
                raise RollStopped(
                    f"node {node.broker_id} ended by itself {node.failures} times after its "
                    "restart; the nodes behind it run as before"
                )
            await asyncio.sleep(self._patience.poll_s)
            seen = seen + 1 if node.is_ready and await self._is_in_step(node) else 0

    async def _is_in_step(self, node: SupervisedNode) -> bool:
        health, cluster = await node.page("/health"), await node.page("/cluster")
        if health.status != READY or cluster.status != READY:
            return False
        return in_step(json.loads(cluster.body), node.broker_id)


def in_step(cluster: Mapping[str, Any], broker_id: int) -> bool:
    """Whether each set of the broker has a master and has the broker in step."""
    return all(
        one["master"] != NO_MASTER and broker_id in one["sync_state_set"]
        for one in cluster["sets"]
        if broker_id in [member["broker_id"] for member in one["members"]]
    )


def changes(old: MachinePlan, new: MachinePlan) -> list[str]:
    """Return the differences that can not take effect while the supervisor runs."""
    facts: dict[str, Callable[[MachinePlan], object]] = {
        "ids of nodes": lambda plan: [node.broker_id for node in plan.nodes],
        "data directories": lambda plan: [
            node.settings.node.data_directories for node in plan.nodes
        ],
        "the address of the page about all nodes": lambda plan: (plan.host, plan.port),
    }
    return [what for what, of in facts.items() if of(old) != of(new)]
