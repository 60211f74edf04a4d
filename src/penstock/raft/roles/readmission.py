"""How a voter that lost its directory gets its vote back: by two changes of the voters.

    runs with another directory, caught up,   ─► its seat is vacant ─► the new directory votes
    the old one silent for election_ticks_max        (committed)              (committed)

Never in one change: with C of {A, B, C} replaced at once, {B, C} of the old voters and {A, new C}
of the new ones are majorities without a common member. The vacant seat is part of the
configuration, so that the next leader can finish the work.

The old directory must have been silent for all that time: if two processes run under one id,
neither is evicted.

Source: Raft thesis 4.1 (one at a time); KIP-1186 (a controller that joins by itself removes the
voter with its own id and another directory first). ADR 0027.
"""

from penstock.raft.configuration import Configuration
from penstock.raft.core import Core
from penstock.raft.errors import ChangeRefused
from penstock.raft.roles import members
from penstock.raft.roles.replication import Replicator


def next_step(core: Core, replicator: Replicator) -> Configuration | None:
    """Return the configuration that comes next, None if nothing can be done now."""
    if not core.config.readmits_voters:
        return None
    try:
        return _next_step(core, replicator)
    except ChangeRefused:
        return None  # not caught up, or another change is under way: try at a later tick


def _next_step(core: Core, replicator: Replicator) -> Configuration | None:
    for peer_id, address in core.configuration.vacant:
        if peer_id in replicator.peers:
            voter = members.NewVoter(peer_id, address)
            return members.with_voter(core, replicator.peers, voter)
    for peer_id, since in replicator.lost_since.items():
        if core.ticks - since >= core.config.election_ticks_max:
            return members.with_vacancy(core, replicator, peer_id)
    return None
