"""Counts how many copies of confirmed records a change may leave, by enumeration.

    every group of members that may hold a record under the present rule ─► a change ─► the rest of
        each group ─► do the answers that an election needs include a member of every group, and is
        no larger number needed?

Sets are small, so all groups can be listed. Groups of records that were confirmed under an earlier
rule are kept separately, while the set's copies floor is raised for them.

Source: docs/adr/0013, the overlap rule; Gifford 1979.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations

from penstock.base.ack_policy import PolicyKind
from penstock.controller.active.election import answers_needed
from penstock.controller.commands import command as c
from penstock.controller.metadata.image import NO_FLOOR, NO_MASTER, ReplicaSetImage
from simulator.checks.masters.mastership import copies_needed
from simulator.checks.set_commands import eligible

Crowd = frozenset[int]
Crowds = frozenset[Crowd]


class CopiesKept:
    """See the module. One for each set of a walk through changes."""

    def __init__(self, replica_set: ReplicaSetImage) -> None:
        held = None if replica_set.copies_floor == NO_FLOOR else replica_set.copies_floor
        self._older: Crowds = frozenset() if held is None else _crowds(replica_set, held)
        """Who may hold what was confirmed by earlier rules."""

    def changed(
        self, before: ReplicaSetImage, after: ReplicaSetImage, command: c.Command[object]
    ) -> Iterator[str]:
        """Follow a change of the set; yield what is wrong with how many it asks from then on."""
        is_first = not self._older
        self._older = _left(self._older | self._of_now(before), before, after, command)
        if after.policy.kind is PolicyKind.ASYNC or after.leader_epoch < 0:
            self._older = frozenset()
            return
        voters, asked = eligible(after, is_unclean=False), answers_needed(after)
        needed = max((len(voters) - len(crowd & {*voters}) + 1 for crowd in self._older), default=1)
        if asked < needed:
            yield (
                f"set {after.replica_set_id}: elections ask {asked} of {voters}, and what was"
                f" confirmed may be on {sorted(map(sorted, self._older))} alone"
            )
        most = max(
            (len(voters) - len(crowd & {*voters}) + 1 for crowd in self._older | _rule(after)),
            default=1,
        )
        if is_first and asked > max(1, most):
            yield f"set {after.replica_set_id}: elections ask {asked} of {voters}, {most} would do"
        if after.copies_floor == NO_FLOOR:
            self._older = frozenset()

    def _of_now(self, replica_set: ReplicaSetImage) -> Crowds:
        return frozenset() if replica_set.leader_epoch < 0 else _rule(replica_set)


def _rule(replica_set: ReplicaSetImage) -> Crowds:
    """Return the smallest crowds that hold a record which the present rule confirms."""
    return _crowds(
        replica_set,
        copies_needed(
            replica_set.policy, len(replica_set.replicas), len(replica_set.sync_state_set)
        ),
    )


def _crowds(replica_set: ReplicaSetImage, size: int) -> Crowds:
    voters = eligible(replica_set, is_unclean=False)
    found = (frozenset(some) for some in combinations(voters, min(size, len(voters))))
    return frozenset(found)


def _left(
    crowds: Iterable[Crowd],
    before: ReplicaSetImage,
    after: ReplicaSetImage,
    command: c.Command[object],
) -> Crowds:
    """Return the members that still have the records that these groups had."""
    if getattr(command, "replica_set_id", before.replica_set_id) != before.replica_set_id:
        return frozenset(crowds)
    master = frozenset({before.master} - {NO_MASTER})
    match command:
        case c.ChangeSyncStateSet() if before.copies_floor == NO_FLOOR:
            return frozenset()  # its master has seen to it that the new rule holds for all
        case c.ChangeSyncStateSet():
            return frozenset(crowd | {*after.sync_state_set} for crowd in crowds)
        case c.BeginMasterships() | c.FenceBrokers():
            return _elected(crowds, before, after, command.masterships)
        case c.RegisterReplica() | c.RemoveReplica() if _is_lost(before, command):
            lost = {command.broker_id}
            return frozenset((crowd | master) - lost for crowd in crowds)
        case _:
            return frozenset(crowd | master for crowd in crowds)


def _is_lost(before: ReplicaSetImage, command: c.RegisterReplica | c.RemoveReplica) -> bool:
    if isinstance(command, c.RemoveReplica):
        return command.broker_id in before.replicas
    return before.log_ids.get(command.broker_id, command.log_id) != command.log_id


def _elected(
    crowds: Iterable[Crowd],
    before: ReplicaSetImage,
    after: ReplicaSetImage,
    masterships: tuple[c.NewMastership, ...],
) -> Crowds:
    begun = {mastership.replica_set_id: mastership for mastership in masterships}.get(
        before.replica_set_id
    )
    if begun is None or begun.master == NO_MASTER:
        return frozenset(crowds)
    if begun.is_unclean:
        return frozenset()
    members = {after.master} if begun.sync_state_set is None else {*after.sync_state_set}
    return frozenset(crowd | members for crowd in crowds)
