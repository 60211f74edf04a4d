"""Clients whose doings brokers write rows of, and who reads those: audit, metrics, trace."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from simulator.clients.audited.reader import RowReader
from simulator.clients.audited.visitor import Visitor
from simulator.clients.pushers.pusher import Pusher
from simulator.clients.pushers.reader import PushReader
from simulator.clients.shares.sharers import Sharers
from simulator.clients.shares.trace_reader import TraceReader
from simulator.clients.world import ClientWorld
from simulator.kernel.process import Process
from simulator.kernel.simulation import Simulation
from simulator.run.plan import Shape

Start = Callable[[str, list[Coroutine[Any, Any, None]]], Process]


class RowClients:
    """See the module."""

    def __init__(
        self, simulation: Simulation, world: ClientWorld, shape: Shape, sharers: Sharers
    ) -> None:
        self._simulation = simulation
        self._world = world
        self._shape = shape
        self._sharers = sharers
        self.pushers: list[Pusher] = []
        self.readers: list[RowReader | PushReader | TraceReader] = []

    def start(self, start: Start) -> list[Process]:
        """Start them; returns the processes of those that have to come to their end."""
        writers: list[Process] = []
        if self._shape.audited:
            writers += self._start_audited(start)
        if self._shape.pushers:
            writers += self._start_pushers(start)
        if self._shape.trace_percent:
            self._start_trace_reader(start)
        return writers

    def behind(self) -> Iterator[str]:
        """Name the brokers that do not ask for the metrics that are configured."""
        for one in self.pushers:
            yield from one.behind()

    def judge(self) -> list[str]:
        """Return what is wrong with the rows."""
        return [text for reader in self.readers for text in reader.judge()]

    def _start_audited(self, start: Start) -> Iterator[Process]:
        visitors: list[Visitor] = []
        for number in range(self._shape.audited):
            name = f"audited-{number}"
            one = Visitor(world=self._world, name=name, random=self._simulation.random(name))
            visitors.append(one)
            yield start(name, [one.run()])
        name = "row-reader"
        random = self._simulation.random(name)
        rows = RowReader(world=self._world, random=random, visitors=visitors)
        self.readers.append(rows)
        start(name, [rows.run()])

    def _start_pushers(self, start: Start) -> Iterator[Process]:
        for number in range(self._shape.pushers):
            name = f"pusher-{number}"
            one = Pusher(
                world=self._world,
                name=name,
                random=self._simulation.random(name),
                has_users=self._shape.administrators > 0,
            )
            self.pushers.append(one)
            yield start(name, [one.run()])
            start(f"{name}-look", [one.look()])
        name = "push-reader"
        random = self._simulation.random(name)
        rows = PushReader(world=self._world, random=random, pushers=self.pushers)
        self.readers.append(rows)
        start(name, [rows.run()])

    def _start_trace_reader(self, start: Start) -> None:
        name = "trace-reader"
        reader = TraceReader(
            world=self._world,
            random=self._simulation.random(name),
            sharers=self._sharers,
            percent=self._shape.trace_percent,
        )
        self.readers.append(reader)
        start(name, [reader.run()])
