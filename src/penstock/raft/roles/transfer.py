"""Leadership transfer: the leader takes no proposals, waits until its successor has caught up, and
lets it campaign.

The successor campaigns with `is_transfer`, so that the others vote although they heard the leader a
moment ago. The message may arrive late: even a transfer that was given up may still end this term.

Source: Raft thesis 3.10.
"""

from penstock.base.ids import PeerId
from penstock.raft.core import Core
from penstock.raft.errors import TransferRefused
from penstock.raft.messages import TimeoutNow
from penstock.raft.ready import NO_PEER
from penstock.raft.roles.progress import Progress


class Transfer:
    """At most one at a time; given up after election_ticks_min."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.to = NO_PEER
        self._until_tick = 0
        self._is_asked = False

    @property
    def is_under_way(self) -> bool:
        """Whether proposals must wait."""
        return self.to != NO_PEER

    def begin(self, to: PeerId) -> None:
        """Begin to hand over to `to`. Raises TransferRefused."""
        core = self._core
        if self.is_under_way and to != self.to:
            raise TransferRefused(f"a transfer to {self.to} is under way: wait for its end")
        if to == core.own_id:
            raise TransferRefused(f"{to} is the leader already")
        if not core.configuration.has(to):
            voters = ", ".join(map(str, core.configuration.voter_ids))
            raise TransferRefused(f"peer {to} does not vote; voters are {voters}")
        if not self.is_under_way:
            self.to = to
            self._until_tick = core.ticks + core.config.election_ticks_min
            self._is_asked = False

    def tick(self) -> None:
        """Give up when it took too long."""
        if self.is_under_way and self._core.ticks >= self._until_tick:
            self.to = NO_PEER

    def maybe_ask(self, target: Progress | None) -> None:
        """Let the successor campaign, once, when it has every entry."""
        core = self._core
        if target is None or self._is_asked or target.match_index < core.log.last_index:
            return
        self._is_asked = True
        core.send(self.to, TimeoutNow(sender=core.own_id, term=core.term))
