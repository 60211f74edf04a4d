"""Schedules the random walks of masters, slaves, sessions and Raft duties.

    a check of a master ─► at random, or by a schedule        ─► LeadingWalk (leading/)
                                                            ─► FollowingWalk (following.py)
                                                            ─► pairs of logs (alignments.py)
                                                            ─► sessions.py, asking.py
                                                            ─► raft_duties.py

A walk of a master takes the present set with members and policy, and the settings of the run; the
others take only the settings. All have their own random numbers, so that the run is not affected.

Source: docs/adr/0064.
"""

from collections.abc import Callable, Iterator
from random import Random

from penstock.controller.metadata.image import ReplicaSetImage
from penstock.node.node import Node
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.config import ReplicationConfig
from simulator.checks.patched import trial
from simulator.run.server import Server
from simulator.trials.alignments import wrong_alignments
from simulator.trials.asking import wrong_askings
from simulator.trials.following import FollowingWalk
from simulator.trials.leading.walk import LeadingWalk
from simulator.trials.raft_duties import WriteWalk, wrong_proposals, wrong_transfers
from simulator.trials.sessions import ClientWalk, ServiceWalk

SHARE = 0.6
"""The n-th look at a master ends in a walk with this share of 1/n, but no less than SHARE_MIN."""
SHARE_MIN = 0.001
STEPS = 150
SHORT = 60
"""Of walks that need less to come about."""
FOLLOWINGS, ALIGNMENTS, ASKINGS = 5, 50, 20
"""For each walk of a master: they cost less."""

Found = Callable[[str], None]


class ReplicaTrials:
    """See the module."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._random = Random("replica trials")  # noqa: S311  reproducible on purpose
        self._looks = 0
        self.walks = 0

    def look(self, server: Server, member: ReplicaSetMember) -> None:
        """Look at a master now and then."""
        self._looks += 1
        if self._random.random() < max(SHARE_MIN, SHARE / self._looks):
            self.walk(server, member, 1)

    def walk(self, server: Server, member: ReplicaSetMember, count: int) -> None:
        """Go so many walks from the state of that moment."""
        node = server.node
        if not isinstance(node, Node) or node.manager is None:
            return
        replica_set = node.image.replica_sets.get(member.replica_set_id)
        if replica_set is None or not replica_set.sync_state_set:
            return
        self._walk(server.name, replica_set, node.manager.config, count)

    def _walk(
        self, host: str, replica_set: ReplicaSetImage, config: ReplicationConfig, count: int
    ) -> None:
        with trial():
            for _ in range(count):
                self.walks += 1
                for text in self._wrong(replica_set, config):
                    self._found(f"{host}: set {replica_set.replica_set_id}, were it so: {text}")
                    return

    def _wrong(self, replica_set: ReplicaSetImage, config: ReplicationConfig) -> Iterator[str]:
        draw = self._random
        yield from LeadingWalk(replica_set, config, draw).run(STEPS)
        for _ in range(FOLLOWINGS):
            yield from FollowingWalk(config, draw).run(STEPS)
        yield from wrong_alignments(draw, ALIGNMENTS)
        yield from ServiceWalk(draw).run(SHORT)
        yield from ClientWalk(draw).run(SHORT)
        yield from wrong_askings(draw, ASKINGS)
        yield from wrong_proposals(draw, SHORT)
        yield from wrong_transfers(draw, SHORT)
        yield from WriteWalk(draw).run(SHORT)
