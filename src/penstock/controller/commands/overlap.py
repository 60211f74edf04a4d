"""How a change of members or policy keeps the guarantee that an election finds every record.

A confirmed record is on at least `copies_held` of a set's `candidates`, so that

    candidates - copies_held + 1

answers include one that has it: two subsets that are together larger than the whole intersect.
Removing a member, a lost log, and a policy that counts more or other copies break this for records
that were confirmed under the earlier rule. Two measures restore it:

1. **The sync-state set becomes the master alone.** A master has everything that it confirmed.
   The others are added again by the usual change, mostly within one round trip: as soon as the
   master has seen that they hold everything up to the confirm position.
2. **A floor**: until enough members are back, the set records that old records may be on only
   `copies_floor` candidates, and elections need more answers accordingly. Floor 0: the only copy
   may have been lost, and only an operator can elect.

The change itself, the new set and the new floor are one entry with a new sync-state set epoch, so
that the master applies them together and its older requests are refused. A change that leaves
`copies_held` high enough needs neither.

Two duties remain with the master for every change of the sync-state set that it requests: each
confirmed record satisfies the rule as it is after the change before the change is requested, and
until the answer arrives records are confirmed by both rules (KIP-497's maximal set).

Source: Gifford 1979 (overlapping quorums); Raft thesis 4.1 and KIP-497 for changes in flight. The
floor is our own: no system that we know of changes the counts of a running set.
"""

from dataclasses import replace

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, SyncStateSetEpoch
from penstock.controller.metadata.image import NO_EPOCH, NO_FLOOR, NO_MASTER, ReplicaSetImage
from penstock.controller.metadata.records import (
    CopiesFloorChanged,
    MetadataRecord,
    SyncStateSetChanged,
)

NOBODY = BrokerId(-1)


def after_change(
    before: ReplicaSetImage,
    *,
    replicas: tuple[BrokerId, ...] | None = None,
    policy: AckPolicy | None = None,
    lost: BrokerId = NOBODY,
) -> ReplicaSetImage:
    """Return the set after its members or policy changed, with a new sync-state set epoch.

    Args:
        before: the set; a mastership that ends in the same entry has ended in it.
        replicas: the new members, None for no change.
        policy: the new policy, None for no change.
        lost: a member whose copies no longer count: removed, or its log is lost. Never the master.
    """
    assert lost in {NOBODY, *before.replicas}
    assert lost == NOBODY or lost != before.master
    changed = replace(
        before,
        replicas=before.replicas if replicas is None else replicas,
        policy=policy or before.policy,
        sync_state_set=tuple(one for one in before.sync_state_set if one != lost),
        sync_state_set_epoch=SyncStateSetEpoch(before.sync_state_set_epoch + 1),
        copies_floor=NO_FLOOR,
    )
    if before.leader_epoch == NO_EPOCH:
        return replace(changed, sync_state_set=tuple(sorted(changed.replicas)))
    held = _held_after(before, changed, lost)
    if held >= changed.copies_needed:
        return changed
    if before.master == NO_MASTER:
        return replace(changed, copies_floor=max(held, 0))
    alone = replace(changed, sync_state_set=(before.master,))
    return replace(alone, copies_floor=_floor(alone, max(held, 1)))


def _held_after(before: ReplicaSetImage, after: ReplicaSetImage, lost: BrokerId) -> int:
    """Return how many candidates of `after` at least hold any record confirmed so far."""
    kinds = before.policy.kind, after.policy.kind
    if kinds == (PolicyKind.ASYNC, PolicyKind.ASYNC):
        return len(after.candidates)  # this policy guarantees nothing
    if kinds[0] is PolicyKind.ALL and before.copies_floor == NO_FLOOR:
        return sum(candidate in after.sync_state_set for candidate in after.candidates)
    held = before.copies_held - (lost in before.candidates)
    missing = [
        candidate
        for candidate in before.candidates
        if candidate not in after.candidates and candidate != lost
    ]
    return held - len(missing)


def raised_floor(replica_set: ReplicaSetImage) -> int:
    """Return the floor once all of the sync-state set are known to hold every confirmed record."""
    if replica_set.copies_floor == NO_FLOOR:
        return NO_FLOOR
    return _floor(replica_set, max(replica_set.copies_floor, len(replica_set.sync_state_set)))


def _floor(replica_set: ReplicaSetImage, held: int) -> int:
    if not replica_set.policy.counts_replicas and held >= len(replica_set.candidates):
        return NO_FLOOR
    return NO_FLOOR if held >= replica_set.copies_needed else held


def difference(before: ReplicaSetImage, after: ReplicaSetImage) -> list[MetadataRecord]:
    """Return the records that make sync-state set and floor of `before` those of `after`."""
    records: list[MetadataRecord] = []
    if before.sync_state_set_epoch != after.sync_state_set_epoch:
        records.append(
            SyncStateSetChanged(
                replica_set_id=after.replica_set_id,
                sync_state_set=after.sync_state_set,
                sync_state_set_epoch=after.sync_state_set_epoch,
            )
        )
    if before.copies_floor != after.copies_floor:
        records.append(
            CopiesFloorChanged(replica_set_id=after.replica_set_id, copies_floor=after.copies_floor)
        )
    return records
