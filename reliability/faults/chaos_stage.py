"""What faults work on: a cluster, its hosts, their disks, and who is chosen to be hit.

An injection is one fault in the making: `begin` breaks something, `has_struck` says whether that
had an effect (what had none is no fault), `heal` mends it. Choosing is by the run's own random
numbers, so a seed names its faults; who leads at that moment it does not name.
"""

import random
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from confluent_kafka.admin import AdminClient

from harness.cluster import ClusterProcess
from harness.login import Login
from harness.loop_disk import LoopDisk
from harness.node import NodeFailed, NodeProcess
from reliability.faults.hosts import Hosts

LEADERS_SECONDS = 120.0


class Injection(Protocol):
    """One fault: made for its victims, then broken and mended once."""

    @property
    def victims(self) -> str:
        """Who is hit and how, for the report."""

    def begin(self) -> None:
        """Break it."""

    def has_struck(self) -> bool:
        """Say whether that has had an effect by now."""

    def heal(self) -> None:
        """Mend it. Processes that ended by themselves are started by the caller."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """Everything that a fault may want to know or to touch."""

    cluster: ClusterProcess
    chooser: random.Random
    topic: str
    partitions: int
    directory: Path
    run_name: str
    """Begins the name of whatever is made outside the directory."""
    hosts: Hosts | None = None
    disks: dict[int, LoopDisk] = field(default_factory=dict)
    clocks: dict[int, Path] = field(default_factory=dict)
    """Plans of the clocks of hosts whose clocks can jump."""
    login: Login | None = None
    """How clients come in; None: by the plain listener, which the stage itself uses."""
    number: int = 0
    """Faults begun so far; kinds that take turns go by it."""

    @property
    def brokers(self) -> tuple[int, ...]:
        """Ids of the nodes that clients talk to."""
        return tuple(self.cluster.nodes)

    @property
    def controllers(self) -> tuple[int, ...]:
        """Ids of the controllers that are processes of their own."""
        return tuple(self.cluster.controllers)

    @property
    def everybody(self) -> tuple[int, ...]:
        """Ids of all processes."""
        return tuple(self.cluster.processes)

    def process(self, peer_id: int) -> NodeProcess:
        """Return one process."""
        return self.cluster.processes[peer_id]

    def one(self, ids: Collection[int]) -> int:
        """Choose one."""
        return self.chooser.choice(sorted(ids))

    def majority(self, ids: Collection[int]) -> tuple[int, ...]:
        """Choose more than half of them, and never all."""
        count = min(len(ids) // 2 + 1, len(ids) - 1)
        return tuple(sorted(self.chooser.sample(sorted(ids), count)))

    def leaders(self) -> dict[int, int]:
        """Return the broker that leads each partition, as clients are told.

        Raises NodeFailed when some have none for long.
        """
        deadline = time.monotonic() + LEADERS_SECONDS
        while True:
            admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
            found = admin.list_topics(self.topic, timeout=10).topics[self.topic].partitions
            leaders = {number: int(one.leader) for number, one in found.items()}
            if len(leaders) == self.partitions and all(leader > 0 for leader in leaders.values()):
                return leaders
            if time.monotonic() > deadline:
                raise NodeFailed(f"{self.topic} has partitions without a leader: {leaders}")
            time.sleep(0.1)

    def leader(self) -> int:
        """Return a broker that leads a partition, each partition's in turn."""
        return self.leaders()[self.number % self.partitions]

    def active_controller(self) -> int:
        """Return the id of the active controller."""
        return int(self.cluster.status()["controller"]["active_id"])


def name_of_host(peer_id: int) -> str:
    """Return the name of the host that one process has for itself."""
    return f"host{peer_id}"
