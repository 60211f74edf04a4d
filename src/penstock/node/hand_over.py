"""Handing masterships over before a node that was told to stop does so.

    SIGTERM ─► heartbeat "stopping" ─► the active controller transfers ─► nothing led here ─► stop

A client then sees the pause of a transfer. If its connections closed first, it would ask the others
who leads before they know, and wait out its own back-off. What nobody can take over, or not in
HAND_OVER_SECONDS, is elected anew when the node has gone.

Source: KAFKA-1155 and KIP-631 (controlled shutdown by heartbeat).
"""

import asyncio
import logging

from penstock.broker.replica_set import Role
from penstock.controller.image import ClusterImage
from penstock.controller.replicated_log import NO_LEADER
from penstock.runtime.replica_manager import ReplicaManager
from penstock.runtime.session_client import SessionClient

HAND_OVER_SECONDS = 2.0
POLL_SECONDS = 0.005

log = logging.getLogger(__name__)


async def hand_over(sessions: SessionClient, manager: ReplicaManager, image: ClusterImage) -> None:
    """Wait until others lead what they can lead; bounded."""
    if sessions.active_id == NO_LEADER or not _led(manager, image):
        return
    sessions.announce_stop()
    try:
        async with asyncio.timeout(HAND_OVER_SECONDS):
            while _led(manager, image):  # noqa: ASYNC110  three places end it
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        log.warning("stops as master of sets %s: nobody took them over", _led(manager, image))
    else:
        log.info("handed its masterships over")


def _led(manager: ReplicaManager, image: ClusterImage) -> list[int]:
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
