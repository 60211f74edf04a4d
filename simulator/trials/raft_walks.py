"""Walks of the controllers' group from the state that a run has come to: see raft_walk.py."""

from collections.abc import Callable, Iterable
from random import Random

from penstock.base.ids import PeerId
from penstock.node.layout import METADATA_DIRECTORY
from simulator.run.server import Server
from simulator.run.topology import CONTROLLER_PORT
from simulator.trials.operations import is_askable
from simulator.trials.raft import View, open_raft, view_of
from simulator.trials.raft_walk import RaftWalk, Voters

Found = Callable[[str], None]


class RaftWalks:
    """The run sees nothing of it: copies of its disks, and a source of chance of its own."""

    def __init__(self, draw: Random, found: Found) -> None:
        self._random = draw
        self._found = found
        self.walks = 0

    def walk(self, servers: Iterable[Server], count: int = 1) -> None:
        """Walk `count` times from here, unless a disk may hold anything."""
        known = list(servers)
        if not all(is_askable(one) for one in known):
            return
        first_voters = tuple(
            sorted(
                (PeerId(one.host.process_id), f"{one.name}:{CONTROLLER_PORT}")
                for one in known
                if one.host.is_controller
            )
        )
        views = {PeerId(one.host.process_id): self._view(one) for one in known}
        for _ in range(count):
            self.walks += 1
            seed = self._random.getrandbits(32)
            draw = Random(seed)  # noqa: S311  reproducible on purpose
            walk = RaftWalk(Voters(views, first_voters), draw, self._found)
            walk.go()

    def _view(self, server: Server) -> View:
        """Return what a loss of power would leave of its log now."""
        copy = server.disk.duplicate(f"{METADATA_DIRECTORY}/", self._random)
        copy.power_loss()
        storage = open_raft(copy, PeerId(server.host.process_id))
        storage.close()
        return view_of(storage)
