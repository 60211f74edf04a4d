"""Requests to the controllers to change a sync-state set, and what each outcome means.

Every request ends in one of five outcomes. `NOT_TAKEN` is returned only if the change is certainly
not recorded; after any other failure it may be recorded still, so the change stays requested
(replication/sync_state.py).

Source: KIP-497 (AlterPartition), whose lost answers leave the change in flight.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.commands.command import ChangeSyncStateSet, JoiningReplica
from penstock.controller.errors import (
    MetadataQueueFull,
    MetadataUnavailable,
    RefusedCommand,
    StaleLeaderEpoch,
    StaleSyncStateSet,
)
from penstock.controller.metadata.image import ReplicaSetImage
from penstock.replication.sync_state import Change, Outcome, Recorded

log = logging.getLogger(__name__)

Submit = Callable[[ChangeSyncStateSet], Awaitable[Any]]


def change_command(
    replica_set_id: ReplicaSetId, master: BrokerId, change: Change
) -> ChangeSyncStateSet:
    """Return the command that requests `change` for a set which `master` leads."""
    return ChangeSyncStateSet(
        replica_set_id=replica_set_id,
        master=master,
        leader_epoch=change.leader_epoch,
        sync_state_set_epoch=change.sync_state_set_epoch,
        sync_state_set=change.sync_state_set,
        joining=tuple(JoiningReplica(**one._asdict()) for one in change.joining),
    )


async def ask_for(
    command: ChangeSyncStateSet, submit: Submit, answered: Callable[[Outcome], None]
) -> None:
    """Submit the command once; `answered` is called exactly once, also on cancellation."""
    outcome = Outcome.UNKNOWN
    try:
        await submit(command)
        outcome = Outcome.RECORDED
    except (StaleSyncStateSet, StaleLeaderEpoch):
        outcome = Outcome.STALE
    except RefusedCommand as error:
        log.warning("set=%d sync-state set refused: %s", command.replica_set_id, error)
        outcome = Outcome.REFUSED
    except MetadataQueueFull:
        outcome = Outcome.NOT_TAKEN
    except MetadataUnavailable:
        outcome = Outcome.UNKNOWN
    finally:
        answered(outcome)


def recorded_in(image: ReplicaSetImage) -> Recorded:
    """Return the fields of the image that a mastership needs."""
    return Recorded(
        replicas=image.replicas,
        sync_state_set=image.sync_state_set,
        sync_state_set_epoch=image.sync_state_set_epoch,
        policy=image.policy,
        replica_ids=image.replica_ids,
    )
