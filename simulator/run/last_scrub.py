"""At the end of a run: finds now what the daily scrub would find on disks that lied or changed.

    broker with a damaged disk ─► its own process hurries the scrub of each set ─► at rest

The scrub is asked for in the broker's process: what it finds, that process acts on.
"""

from collections.abc import Iterable

from penstock.node.node import Node
from penstock.replica.scrubber import Scrubber
from simulator.run.server import Server


class LastScrub:
    """See the module. `hurry` until it returns False."""

    def __init__(self, servers: Iterable[Server]) -> None:
        self._servers = [*servers]
        self._asked: dict[str, Scrubber] = {}
        """Host -> who was asked; a process that ends meanwhile is followed by one to be asked."""
        self._hurried: set[int] = set()
        """Those, by identity, whose processes have come to it."""

    def hurry(self) -> bool:
        """Ask where it is missing; returns whether any scrub is still to come or goes on."""
        for server in self._servers:
            node = server.node
            if server.is_disk_damaged and isinstance(node, Node) and node.manager is not None:
                self._ask(server, node.manager.scrubber)
        return any(
            id(one) not in self._hurried or not one.is_at_rest for one in self._asked.values()
        )

    def _ask(self, server: Server, scrubber: Scrubber) -> None:
        if self._asked.get(server.name) is scrubber or server.process is None:
            return
        self._asked[server.name] = scrubber

        def hurry_all() -> None:
            node = server.node
            if isinstance(node, Node) and node.manager is not None:
                for set_id in node.manager.members:
                    scrubber.hurry(set_id)
            self._hurried.add(id(scrubber))

        server.process.call_soon(hurry_all)
