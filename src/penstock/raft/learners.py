"""The learners that a voter has heard of lately.

Learners stand in no configuration. They say hello to every voter, so that a new leader knows at
once whom to feed; who is silent for long is forgotten.

Source: ours. Raft thesis 4.2.1 has learners as a step to becoming a voter; here they are also how
every broker gets the metadata log.
"""

from penstock.raft.config import RaftConfig


class LearnerRegistry:
    """Peer ids with the tick of their last sign of life, and the directory that they have."""

    def __init__(self, config: RaftConfig) -> None:
        self._timeout_ticks = config.learner_timeout_ticks
        self._count_max = config.learners_max
        self._heard: dict[int, int] = {}
        self._directories: dict[int, str] = {}
        """Of those in `_heard`; that of their last sign of life."""

    def note(self, peer_id: int, tick: int, directory_id: str) -> bool:
        """Note a sign of life; return whether the peer is known now: there is a limit."""
        self.forget_silent(tick)
        if peer_id not in self._heard and len(self._heard) >= self._count_max:
            return False
        self._heard[peer_id] = tick
        self._directories[peer_id] = directory_id
        return True

    def forget_silent(self, tick: int) -> None:
        """Forget those that were silent for too long."""
        oldest = tick - self._timeout_ticks
        for peer_id in [p for p, heard in self._heard.items() if heard < oldest]:
            del self._heard[peer_id], self._directories[peer_id]

    def forget(self, peer_id: int, directory_id: str) -> None:
        """Forget one, who became a voter; not the same peer with another directory."""
        if self._directories.get(peer_id) == directory_id:
            del self._heard[peer_id], self._directories[peer_id]

    def has(self, peer_id: int) -> bool:
        """Whether it was heard lately."""
        return peer_id in self._heard

    def directory_of(self, peer_id: int) -> str:
        """Return the directory of one that was heard lately."""
        return self._directories[peer_id]

    @property
    def peer_ids(self) -> tuple[int, ...]:
        """All of them, in the order in which they came."""
        return tuple(self._heard)
