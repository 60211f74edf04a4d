"""A cluster in one simulation: its servers, its leaders, operators' commands."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import ReplicaSetId, TopicPartition
from penstock.controller.commands.command import Command, SetAckPolicy
from penstock.controller.errors import MetadataError, RefusedCommand
from penstock.controller.metadata.image import NO_MASTER, ClusterImage
from penstock.node.node import Node
from simulator.faults.garbled_links import GarbledLinks
from simulator.faults.stale_words import StaleWords
from simulator.faults.weather import Weather
from simulator.kernel.distant_store import SharedStore
from simulator.kernel.simulation import Simulation
from simulator.run.plan import Shape
from simulator.run.server import Server
from simulator.run.topology import clock_rate, hosts_of, settings_of

FORMING_SECONDS = 10.0
LOOK_SECONDS = 0.02
INSIST_SECONDS = 0.3
SURELY_DONE_SECONDS = 3.0
"""A command of before is recorded or has timed out by then, once the cluster is healed."""

log = logging.getLogger(__name__)


class NotFormed(Exception):
    """The cluster did not come up without any fault."""


class SimCluster:
    """See the module."""

    def __init__(self, simulation: Simulation, shape: Shape, secret_file: Path) -> None:
        self.simulation = simulation
        self.shape = shape
        self.weather = Weather(simulation.network)
        self.garbled = GarbledLinks(simulation.random("garbled links"))
        numbers = {host.name: host.process_id for host in hosts_of(shape)}
        self.stale = StaleWords(simulation.random("stale words"), numbers)
        self.store = SharedStore()
        self.servers = {
            host.name: Server(
                simulation,
                host,
                settings_of(host, shape, secret_file),
                self.store,
                clock_rate(host, shape),
            )
            for host in hosts_of(shape)
        }
        for server in self.servers.values():
            server.housekeeper_death_share = shape.housekeeper_death_share
        self.wishes: list[str] = []
        """What operators insist on and have not got yet."""
        self._tasks: list[asyncio.Task[None]] = []
        """References, so that tasks are not collected while they run."""

    # --- who is there --------------------------------------------------------------------------

    @property
    def brokers(self) -> dict[int, str]:
        """Broker id -> host."""
        hosts = [server.host for server in self.servers.values() if server.host.is_broker]
        return {host.process_id: host.name for host in hosts}

    def nodes(self) -> list[Node]:
        """Return the brokers that run, paused ones too."""
        return [server.node for server in self.servers.values() if isinstance(server.node, Node)]

    def newest_image(self) -> ClusterImage | None:
        """Return what the broker that has applied most knows of the cluster."""
        newest = max(self.nodes(), key=_applied_index, default=None)
        return None if newest is None else newest.image

    def give_ups(self, key: TopicPartition) -> int:
        """Return how often the copies of a partition were given up, by the newest image."""
        image = self.newest_image()
        return 0 if image is None else image.configuration.give_ups.get(key.topic_id, 0)

    def set_ids(self) -> list[int]:
        """Return the ids of all replica sets, in order."""
        image = self.newest_image()
        return [] if image is None else sorted(image.replica_sets)

    def hosts(self, selectors: Iterable[str], *, but: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the hosts of names, roles or `*`; none for a role that no host has."""
        found: list[str] = []
        for selector in selectors:
            found += self._hosts_of(selector)
        return tuple(host for host in dict.fromkeys(found) if host not in but)

    def servers_of(self, selectors: Iterable[str]) -> list[Server]:
        """Return the servers meant by names, roles or `*`."""
        return [self.servers[host] for host in self.hosts(selectors)]

    def _hosts_of(self, selector: str) -> list[str]:
        role, _, number = selector.partition(":")
        if selector == "*":
            return list(self.servers)
        if selector == "active":
            return self._active()
        if role in {"master", "slave", "slaves"} and number:
            return self._replica(role, int(number))
        return [selector] if selector in self.servers else []

    def _active(self) -> list[str]:
        best: tuple[int, str] | None = None
        for server in self.servers.values():
            plane = None if server.node is None else server.node.plane
            if plane is None or not plane.is_open or not plane.log.leadership.is_leader:
                continue
            best = max(best or (-1, ""), (plane.log.leadership.term, server.name))
        return [] if best is None else [best[1]]

    def _replica(self, role: str, number: int) -> list[str]:
        image, set_ids = self.newest_image(), self.set_ids()
        if image is None or not set_ids:
            return []
        replica_set = image.replica_sets[ReplicaSetId(set_ids[number % len(set_ids)])]
        brokers = self.brokers
        if role == "master":
            return [] if replica_set.master == NO_MASTER else [brokers[replica_set.master]]
        slaves = [brokers[each] for each in replica_set.replicas if each != replica_set.master]
        return slaves if role == "slaves" else slaves[-1:]

    # --- operators -----------------------------------------------------------------------------

    def ask(
        self,
        name: str,
        work: Callable[[Node], Coroutine[Any, Any, object]],
        *,
        but: Iterable[str] = (),
    ) -> bool:
        """Let the first broker that can ask the controllers something, as an operator would.

        Returns whether there is one, `but` these; errors that a command may have are no news.
        """
        for server in [one for one in self.servers.values() if one.name not in but]:
            node, process = server.node, server.process
            if process is None or process.is_paused:
                continue
            if isinstance(node, Node) and node.sessions is not None:
                process.call_soon(self._spawn, name, work(node))
                return True
        return False

    def insist(
        self, name: str, command: Command[Any], is_done: Callable[[ClusterImage], bool]
    ) -> None:
        """Ask for a command again and again until the newest image says that it is done."""

        def work(node: Node) -> Coroutine[Any, Any, object]:
            assert node.sessions is not None
            return node.sessions.submit(command)

        self.insist_on(name, work, is_done)

    def insist_on(
        self,
        name: str,
        work: Callable[[Node], Coroutine[Any, Any, object]],
        is_done: Callable[[ClusterImage], bool],
    ) -> None:
        """Ask again and again until it has been done for a while; until then `wishes` has the name.

        What was asked for before, the opposite of it, may be under way and be recorded later: by a
        controller that was alone when it was asked, once it has a majority again. So an image says
        nothing before the controllers have answered this request, as it is too.
        """
        is_answered = False

        async def heard(asked: Coroutine[Any, Any, object]) -> None:
            nonlocal is_answered
            try:
                await asked
            except RefusedCommand:
                is_answered = True
                raise
            is_answered = True

        async def again() -> None:
            nonlocal is_answered
            done_for = 0.0
            while done_for < SURELY_DONE_SECONDS:
                image = self.newest_image()
                is_there = image is not None and is_done(image)
                if is_there and is_answered:
                    done_for += INSIST_SECONDS
                else:
                    done_for, is_answered = 0.0, False
                    self.ask(name, lambda node: heard(work(node)))
                await asyncio.sleep(INSIST_SECONDS)
            self.wishes.remove(name)

        self.wishes.append(name)
        self._tasks.append(self.simulation.loop.create_task(again(), name=name))

    def _spawn(self, name: str, work: Coroutine[Any, Any, object]) -> None:
        async def quiet() -> None:
            try:
                await work
            except MetadataError as error:
                log.info("%s: %s", name, error)

        self._tasks.append(self.simulation.loop.create_task(quiet(), name=name))

    # --- beginning -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start every server."""
        for server in self.servers.values():
            server.start()

    async def form(self) -> None:
        """Wait until every set has a master and all its members in step, and set the policy.

        Raises NotFormed.
        """
        await self._until(self._is_formed, "no sets with masters")
        policy = AckPolicy(
            kind=PolicyKind(self.shape.policy),
            required=self.shape.required if self.shape.policy != "all" else 1,
        )
        if policy.kind is PolicyKind.ALL:
            return
        for set_id in self.set_ids():
            self.ask("policy", _set_policy(set_id, policy))
        await self._until(lambda: self._has_policy(policy), "policy not taken")

    async def _until(self, holds: Callable[[], bool], otherwise: str) -> None:
        deadline_s = self.simulation.now_s + FORMING_SECONDS
        while not holds():
            if self.simulation.now_s > deadline_s:
                raise NotFormed(otherwise)
            await asyncio.sleep(LOOK_SECONDS)

    def _is_formed(self) -> bool:
        image = self.newest_image()
        if image is None or len(image.replica_sets) < len(self.brokers):
            return False
        return all(
            replica_set.master != NO_MASTER
            and len(replica_set.sync_state_set) == len(replica_set.replicas)
            for replica_set in image.replica_sets.values()
        )

    def _has_policy(self, policy: AckPolicy) -> bool:
        image = self.newest_image()
        return image is not None and all(
            replica_set.policy == policy for replica_set in image.replica_sets.values()
        )


def _set_policy(set_id: int, policy: AckPolicy) -> Callable[[Node], Coroutine[Any, Any, object]]:
    async def work(node: Node) -> None:
        assert node.sessions is not None
        await node.sessions.submit(SetAckPolicy(replica_set_id=ReplicaSetId(set_id), policy=policy))

    return work


def _applied_index(node: Node) -> int:
    return node.plane.log.applied_index if node.plane.is_open else -1
