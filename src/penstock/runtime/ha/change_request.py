"""Asking the controllers for another sync-state set, and what their answer means for the asker.

One question, one answer: a change without an answer stays asked for (replication/sync_state.py),
so every way in which a question can end is one of four outcomes.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.controller.commands import ChangeSyncStateSet
from penstock.controller.errors import (
    MetadataTimeout,
    MetadataUnavailable,
    RefusedCommand,
    StaleLeaderEpoch,
    StaleSyncStateSet,
)
from penstock.controller.image import ReplicaSetImage
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
    except MetadataTimeout:
        outcome = Outcome.UNKNOWN
    except MetadataUnavailable:
        outcome = Outcome.REFUSED  # it was not taken
    finally:
        answered(outcome)


def recorded_in(image: ReplicaSetImage) -> Recorded:
    """Return what the image says of a set, as a mastership needs it."""
    return Recorded(
        replicas=image.replicas,
        sync_state_set=image.sync_state_set,
        sync_state_set_epoch=image.sync_state_set_epoch,
        policy=image.policy,
    )
