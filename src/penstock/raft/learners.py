"""The learners that a voter has heard of lately.

Learners are in no configuration. They say hello to every voter, so that a new leader knows at once
whom to send entries to; a learner that is silent for long is forgotten.

Source: ours. Raft thesis 4.2.1 has learners as a step to becoming a voter; here they are also how
every broker gets the metadata log.
"""

from penstock.base.ids import PeerId
from penstock.base.invariant import invariant
from penstock.raft.config import RaftConfig
from penstock.raft.ids import DirectoryId


class LearnerRegistry:
    """Peer ids with the tick of their last sign of life, and their directory ids."""

    def __init__(self, config: RaftConfig) -> None:
        self._timeout_ticks = config.learner_timeout_ticks
        self._count_max = config.learners_max
        self._heard: dict[PeerId, int] = {}
        self._directories: dict[PeerId, DirectoryId] = {}
        """Peer id -> directory id of its last sign of life, for all in `_heard`."""

    def note(self, peer_id: PeerId, tick: int, directory_id: DirectoryId) -> bool:
        """Note a sign of life; return whether there was room to remember the peer."""
        self.forget_silent(tick)
        if peer_id not in self._heard and len(self._heard) >= self._count_max:
            return False
        self._heard[peer_id] = tick
        self._directories[peer_id] = directory_id
        return True

    def forget_silent(self, tick: int) -> None:
        """Forget learners that were silent for too long."""
        is_paired = len(self._heard) == len(self._directories)
        invariant(is_paired, "each learner has a directory", peers=tuple(self._heard))
        oldest = tick - self._timeout_ticks
        for peer_id in [p for p, heard in self._heard.items() if heard < oldest]:
            del self._heard[peer_id], self._directories[peer_id]

    def forget(self, peer_id: PeerId, directory_id: DirectoryId) -> None:
        """Forget a learner that became a voter; the same peer with another directory stays."""
        if self._directories.get(peer_id) == directory_id:
            del self._heard[peer_id], self._directories[peer_id]

    def has(self, peer_id: PeerId) -> bool:
        """Whether this peer was heard lately as a learner."""
        return peer_id in self._heard

    def directory_of(self, peer_id: PeerId) -> DirectoryId:
        """Return the directory id of a learner that was heard lately."""
        return self._directories[peer_id]

    @property
    def peer_ids(self) -> tuple[PeerId, ...]:
        """All learners, in the order in which they were first heard."""
        return tuple(self._heard)
