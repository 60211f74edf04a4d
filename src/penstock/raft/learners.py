"""The learners that a voter has heard of lately.

Learners stand in no configuration. They say hello to every voter, so that a new leader knows at
once whom to feed; who is silent for long is forgotten.

Source: ours. Raft thesis 4.2.1 has learners as a step to becoming a voter; here they are also how
every broker gets the metadata log.
"""

from penstock.raft.config import RaftConfig


class LearnerRegistry:
    """Peer ids with the tick of their last sign of life."""

    def __init__(self, config: RaftConfig) -> None:
        self._timeout_ticks = config.learner_timeout_ticks
        self._count_max = config.learners_max
        self._heard: dict[int, int] = {}

    def note(self, peer_id: int, tick: int) -> bool:
        """Note a sign of life; return whether the peer is known now: there is a limit."""
        self.forget_silent(tick)
        if peer_id not in self._heard and len(self._heard) >= self._count_max:
            return False
        self._heard[peer_id] = tick
        return True

    def forget_silent(self, tick: int) -> None:
        """Forget those that were silent for too long."""
        oldest = tick - self._timeout_ticks
        for peer_id in [p for p, heard in self._heard.items() if heard < oldest]:
            del self._heard[peer_id]

    def forget(self, peer_id: int) -> None:
        """Forget one, who became a voter."""
        self._heard.pop(peer_id, None)

    def has(self, peer_id: int) -> bool:
        """Whether it was heard lately."""
        return peer_id in self._heard

    @property
    def peer_ids(self) -> tuple[int, ...]:
        """All of them, in the order in which they came."""
        return tuple(self._heard)
