"""Names a successor for a leader whose disk hangs.

Its heartbeats would continue, so that it kept leadership, and no entry could be committed.

Source: ours; raft/config.py (`heartbeat_ticks`), `RaftLogConfig.disk_stall_ms`.
"""

import logging

from penstock.base.ids import PeerId
from penstock.raft.raft import Raft
from penstock.raft.ready import Role
from penstock.runtime.raft.config import RaftLogConfig
from penstock.runtime.raft.disk_queue import DiskQueue

log = logging.getLogger(__name__)


class DiskStall:
    """See the module. To be asked at each tick while this member leads."""

    def __init__(self, core: Raft, disk: DiskQueue, config: RaftLogConfig) -> None:
        self._core = core
        self._disk = disk
        self._config = config

    def successor(self) -> PeerId | None:
        """Return the voter to transfer leadership to, None unless one operation takes too long.

        It is the one with the longest log among those that were heard lately. The operation is
        timed anew, so that the next answer comes after another `disk_stall_ms`.
        """
        stalled_ms = self._disk.busy_ticks * self._config.tick_ms
        if stalled_ms < self._config.disk_stall_ms or self._core.role is not Role.LEADER:
            return None
        others = [one for one in self._core.progress if one.is_voter]
        if not others:
            return None
        quiet_ticks = 2 * self._config.core().heartbeat_ticks
        best = min(others, key=lambda one: (one.silent_ticks // quiet_ticks, -one.match_index))
        log.warning("disk busy for %d ms: leadership goes to %d", stalled_ms, best.peer_id)
        self._disk.restart_ticks()
        return best.peer_id
