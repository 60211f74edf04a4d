"""The Raft driver: files, timers and links around the core in penstock.raft.

storage = RaftStorage(disk, "metadata", own_id=1, first=first)
log = RaftLog(1, storage, PeerTransport(...), RaftPorts(...), RaftLogConfig())
log.start(machine)
"""

from penstock.runtime.raft.config import RaftLogConfig
from penstock.runtime.raft.ports import RaftPorts
from penstock.runtime.raft.raft_log import RaftLog
from penstock.runtime.raft.storage import RaftStorage
from penstock.runtime.raft.transport import FRAME_BYTES_MAX, PURPOSE, PeerTransport

__all__ = [
    "FRAME_BYTES_MAX",
    "PURPOSE",
    "PeerTransport",
    "RaftLog",
    "RaftLogConfig",
    "RaftPorts",
    "RaftStorage",
]
