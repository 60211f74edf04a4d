"""Asking the controllers for another sync-state set, and what their answer means for the asker.

One question, one answer: a change without an answer stays asked for (replication/sync_state.py),
so every way in which a question can end is one of five outcomes. "Not taken" is said only where
that is sure; of everything else the change may be recorded yet.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

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


def change_command(replica_set_id: int, master: int, change: Change) -> ChangeSyncStateSet:
    """Return the command that asks for `change` of a set which `master` leads."""
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
    """Ask once; `answered` is called once, also where this is cancelled."""
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
    """Return what the image says of a set, as a mastership needs it."""
    return Recorded(
        replicas=image.replicas,
        sync_state_set=image.sync_state_set,
        sync_state_set_epoch=image.sync_state_set_epoch,
        policy=image.policy,
        replica_ids=image.replica_ids,
    )
