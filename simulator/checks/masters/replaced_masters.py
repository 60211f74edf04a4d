"""Check: a master that was replaced answers reads only as long as its lease may hold.

    a newer mastership has confirmed more ─► the older master may answer for a while ─► finding

Its answers are stale. It may give them until it learns of its successor, or until its lease is
over, counted from the moment at which the successor was ahead. A process that was paused together
with its clock is not checked for that long after it resumed (docs/adr/0026).

Source: docs/reliability.md, "a master that was replaced answers no reads"; Gray and Cheriton 1989.
"""

from penstock.replica.replica_set import ReplicaSetMember, Role
from simulator.run.server import Server
from simulator.run.topology import LEASE_MS

PATIENCE_S = (LEASE_MS + 250) / 1_000
"""The lease, and the largest delay of a check."""


class ReplacedMasters:
    """See the module. One for all sets of a run."""

    def __init__(self) -> None:
        self._ahead: dict[int, tuple[int, int]] = {}
        """Set -> (newest leader epoch that has confirmed anything, up to where)."""
        self._since_s: dict[tuple[str, int, int, int], float] = {}
        """(host, number of its process, set, epoch) -> when it was seen to answer too long."""

    def look(self, server: Server, member: ReplicaSetMember, now_s: float) -> str:
        """Look at one member; return what is wrong."""
        if member.role is not Role.MASTER:
            return ""
        set_id, epoch = member.replica_set_id, member.leader_epoch
        newest, confirmed = self._ahead.get(set_id, (-1, 0))
        if epoch >= newest:
            if member.confirm_position > confirmed or epoch > newest:
                self._ahead[set_id] = epoch, max(member.confirm_position, confirmed)
            return ""
        key = (server.name, server.starts, set_id, epoch)
        is_answering = member.may_read is None or member.may_read()
        is_old = member.confirm_position < confirmed and is_answering
        if not is_old or server.is_paused or _has_stood_still(server, now_s):
            self._since_s.pop(key, None)
            return ""
        since_s = self._since_s.setdefault(key, now_s)
        if now_s - since_s < PATIENCE_S:
            return ""
        return (
            f"{server.name}: set {set_id} answers reads as of {member.confirm_position} in epoch"
            f" {epoch}, {now_s - since_s:.2f} s after epoch {newest} had confirmed {confirmed}"
        )


def _has_stood_still(server: Server, now_s: float) -> bool:
    return any(now_s - woken_s < PATIENCE_S for woken_s in server.woken_s)
