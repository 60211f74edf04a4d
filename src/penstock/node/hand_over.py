"""Controlled shutdown: hands over masterships and the lead of the metadata log.

    SIGTERM ─► heartbeat "stopping" ─► the active controller transfers ─► nothing led here
            ─► another controller leads the metadata log ─► stop

Clients then see only the pause of a transfer. If their connections closed first, they would ask for
the new leader before it is known, and wait for their own backoff. Masterships that no member takes
over within HAND_OVER_SECONDS are elected after the node is gone. For controllers, too, the next
leader is chosen while the old one still answers, and not by election time-outs.

Source: KAFKA-1155 and KIP-631 (controlled shutdown by heartbeat); Raft thesis 3.10 (transfer).
"""

import asyncio
import logging

from penstock.base.errors import PlatformError
from penstock.base.ids import ReplicaSetId
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.replicated_log import NO_LEADER
from penstock.replica.replica_set import Role
from penstock.runtime.raft.raft_log import RaftLog
from penstock.runtime.replica_manager import ReplicaManager
from penstock.runtime.session.client import SessionClient

HAND_OVER_SECONDS = 2.0
POLL_SECONDS = 0.005
LEAD_SECONDS = 2.0
"""At most two election time-outs: a successor that needs longer will not succeed."""
SILENT_MS_MAX = 1_000
"""A controller silent for longer is not chosen: it may be stopping as well."""

log = logging.getLogger(__name__)


async def hand_over(sessions: SessionClient, manager: ReplicaManager, image: ClusterImage) -> None:
    """Wait until other members lead the sets that they can lead; bounded in time."""
    if sessions.active_id == NO_LEADER or not _led(manager, image):
        return
    sessions.announce_stop()
    try:
        async with asyncio.timeout(HAND_OVER_SECONDS):
            while _led(manager, image):  # noqa: ASYNC110  three places end it
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        log.warning("stops as master of sets %s: no member took them over", _led(manager, image))
    else:
        log.info("masterships handed over")


async def hand_lead_over(metadata_log: RaftLog) -> None:
    """Wait until another controller leads, if this one leads and there is another; bounded."""
    status = metadata_log.status()
    able = [
        peer
        for peer in status.peers
        if peer.is_voter and peer.peer_id != status.own_id and 0 <= peer.silent_ms < SILENT_MS_MAX
    ]
    if not metadata_log.leadership.is_leader or not able:
        return
    best = min(able, key=lambda one: (one.lag_entries, one.silent_ms))
    outcome: asyncio.Future[PlatformError | None] = asyncio.get_running_loop().create_future()

    def done(error: PlatformError | None) -> None:
        if not outcome.done():
            outcome.set_result(error)

    metadata_log.voters.transfer(best.peer_id, done)
    try:
        async with asyncio.timeout(LEAD_SECONDS):
            error = await outcome
    except TimeoutError:
        log.warning("stops as the active controller: %d did not take over", best.peer_id)
        return
    if error is None:
        log.info("controller=%d leads now", best.peer_id)
    else:
        log.warning("stops as the active controller: %s", error)


def _led(manager: ReplicaManager, image: ClusterImage) -> list[ReplicaSetId]:
    """Return the sets that are led here and that another member could lead."""
    if not image.is_failover_enabled:
        return []
    able = {
        broker_id
        for broker_id, broker in image.brokers.items()
        if broker_id != manager.broker_id and not (broker.is_fenced or broker.is_draining)
    }
    return [
        set_id
        for set_id, member in manager.members.items()
        if member.role is Role.MASTER and able & set(image.replica_sets[set_id].sync_state_set)
    ]
