"""What a change of members or policy does to the promise that an election finds every record.

A confirmed record is on at least `copies_held` of a set's `candidates`, so that

    candidates - copies_held + 1

answers hold one that has it: two crowds that are together larger than the whole share somebody.
Taking a member away, a lost log, a larger or differently counted policy breaks the sum for records
confirmed before, by a rule that is gone. Two means restore it:

1. **The sync-state set becomes the master alone.** A master has everything that it confirmed.
   Others come back, usually within one round trip, by the ordinary way: the master adds them when
   it has seen that they hold everything up to the confirm position.
2. **A floor**: until that many are back, the set remembers that old records may be on only
   `copies_floor` candidates, and elections ask for the more answers. Floor 0: somebody may have
   held the only copy, and only an operator can elect then.

The change itself, the new set and the new floor are one entry with a new sync-state set epoch, so
that the master takes them up together and an older report of its is refused. A change that leaves
`copies_held` high enough costs nothing.

Two duties remain with the master, for every change of the sync-state set that it asks for: each
confirmed record satisfies the rule as it will be after the change before the change is asked for,
and until the answer is there records are confirmed by both rules (KIP-497's maximal set).

Source: Gifford 1979 (overlapping counts); Raft 4.1 and KIP-497 for changes in flight. Our own: none
of the systems we know changes the counts of a running set.
"""

from dataclasses import replace

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import ReplicaSetId, SyncStateSetEpoch
from penstock.controller.metadata.image import NO_EPOCH, NO_FLOOR, NO_MASTER, ReplicaSetImage
from penstock.controller.metadata.records import (
    CopiesFloorChanged,
    MetadataRecord,
    SyncStateSetChanged,
)

NOBODY = -1


def after_change(
    before: ReplicaSetImage,
    *,
    replicas: tuple[int, ...] | None = None,
    policy: AckPolicy | None = None,
    lost: int = NOBODY,
) -> ReplicaSetImage:
    """Return the set after its members or policy changed, with a new sync-state set epoch.

    Args:
        before: the set; a mastership that ends in the same entry has ended in it.
        replicas: the new members, None for no change.
        policy: the new policy, None for no change.
        lost: a member whose copies count no more: removed, or its log is gone. Never the master.
    """
    assert lost in {NOBODY, *before.replicas}
    assert lost == NOBODY or lost != before.master
    changed = replace(
        before,
        replicas=before.replicas if replicas is None else replicas,
        policy=policy or before.policy,
        sync_state_set=tuple(one for one in before.sync_state_set if one != lost),
        sync_state_set_epoch=before.sync_state_set_epoch + 1,
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


def _held_after(before: ReplicaSetImage, after: ReplicaSetImage, lost: int) -> int:
    """Return how many candidates of `after` at least hold any record confirmed so far."""
    kinds = before.policy.kind, after.policy.kind
    if kinds == (PolicyKind.ASYNC, PolicyKind.ASYNC):
        return len(after.candidates)  # nothing is promised, so nothing can be broken
    if kinds[0] is PolicyKind.ALL and before.copies_floor == NO_FLOOR:
        return sum(one in after.sync_state_set for one in after.candidates)
    held = before.copies_held - (lost in before.candidates)
    missing = [one for one in before.candidates if one not in after.candidates and one != lost]
    return held - len(missing)


def raised_floor(replica_set: ReplicaSetImage) -> int:
    """Return the floor once everybody in the sync-state set has shown that it holds everything."""
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
                replica_set_id=ReplicaSetId(after.replica_set_id),
                sync_state_set=after.sync_state_set,
                sync_state_set_epoch=SyncStateSetEpoch(after.sync_state_set_epoch),
            )
        )
    if before.copies_floor != after.copies_floor:
        records.append(
            CopiesFloorChanged(
                replica_set_id=ReplicaSetId(after.replica_set_id), copies_floor=after.copies_floor
            )
        )
    return records
