"""Check: an applied entry changes a replica set only as the rules allow.

    the set before ─► an entry ─► the set after:  epochs do not fall, and rise with what they number
                                                  a new master was a candidate, or the election is
                                                      marked as unclean, which was allowed
                                                  a new master or member in step is alive
                                                  a member that registered another log is not in
                                                      step

The rules are written here independently of the controller. A process that installed a snapshot has
skipped changes, so that step is not checked.

Source: docs/adr/0013; Raft 3 (one leader for each term), KIP-903 (logs, not brokers).
"""

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Mapping

from penstock.base.ids import BrokerId
from penstock.controller.metadata.image import NO_MASTER, BrokerImage, ReplicaSetImage

Process = tuple[str, int]
"""Host, and the number of the process there."""


class SetChanges:
    """See the module."""

    def __init__(self) -> None:
        self._before: dict[tuple[Process, int], tuple[int, ReplicaSetImage]] = {}
        """(process, set) -> (index of the entry, the set behind it)."""
        self._changed_at: dict[int, list[int]] = defaultdict(list)
        """Set -> indexes of all entries that have changed it, ascending."""

    def changed(
        self,
        process: Process,
        index: int,
        after: ReplicaSetImage,
        brokers: Mapping[BrokerId, BrokerImage],
    ) -> Iterator[str]:
        """Note what an entry made of a set in one process; yield what it may not have done."""
        set_id = after.replica_set_id
        indexes = self._changed_at[set_id]
        at = bisect_right(indexes, index)
        if not at or indexes[at - 1] != index:
            insort(indexes, index)
        known = self._before.get((process, set_id))
        self._before[process, set_id] = index, after
        if known is None or known[0] >= index:
            return
        is_next = bisect_right(indexes, index - 1) == bisect_right(indexes, known[0])
        if is_next:
            yield from (
                f"set {set_id}: {broken_rule}"
                for broken_rule in broken_rules(known[1], after, brokers)
            )


def broken_rules(
    before: ReplicaSetImage, after: ReplicaSetImage, brokers: Mapping[BrokerId, BrokerImage]
) -> Iterator[str]:
    """Yield the rules that a change breaks; `brokers` are those behind the entry."""
    yield from _epochs(before, after)
    if after.master != NO_MASTER and after.leader_epoch != before.leader_epoch:
        yield from _election(before, after, brokers)
    for member in sorted({*after.sync_state_set} - {*before.sync_state_set}):
        broker = brokers.get(member)
        if member not in after.replica_ids or broker is None or broker.is_fenced:
            yield f"{member} gets in step and is not alive, or has no log"
    for member, replica_id in sorted(after.replica_ids.items()):
        is_other = before.replica_ids.get(member, replica_id) != replica_id
        if is_other and member in after.sync_state_set and len(after.sync_state_set) > 1:
            yield f"{member} has registered another log and stays in step"


def _epochs(before: ReplicaSetImage, after: ReplicaSetImage) -> Iterator[str]:
    if not before.leader_epoch <= after.leader_epoch <= before.leader_epoch + 1:
        yield f"the leader epoch goes from {before.leader_epoch} to {after.leader_epoch}"
    if after.sync_state_set_epoch < before.sync_state_set_epoch:
        yield f"the epoch of the sync-state set falls to {after.sync_state_set_epoch}"
    is_same = set(after.sync_state_set) == set(before.sync_state_set)
    if not is_same and after.sync_state_set_epoch == before.sync_state_set_epoch:
        yield "another sync-state set has the same epoch"
    known = before.replica_ids
    is_other_log = any(after.replica_ids.get(one, known[one]) != known[one] for one in known)
    if is_other_log and after.sync_state_set_epoch == before.sync_state_set_epoch:
        yield "a member has registered another log, and the sync-state set has the same epoch"
    if after.master not in {before.master, NO_MASTER} and after.leader_epoch == before.leader_epoch:
        yield f"epoch {after.leader_epoch} has another master, {after.master}"
    if not {*after.sync_state_set} <= {*after.replicas}:
        yield f"{after.sync_state_set} are in step, and {after.replicas} are members"


def _election(
    before: ReplicaSetImage, after: ReplicaSetImage, brokers: Mapping[BrokerId, BrokerImage]
) -> Iterator[str]:
    broker = brokers.get(after.master)
    if broker is None or broker.is_fenced:
        yield f"{after.master} is elected and is not alive"
    is_unclean = after.unclean_epoch == after.leader_epoch
    if is_unclean and not before.is_unclean_allowed:
        yield f"{after.master} is elected uncleanly, and nobody has allowed it"
    if not is_unclean and before.leader_epoch >= 0 and after.master not in before.candidates:
        yield f"{after.master} is elected and was no candidate: {before.candidates}"
