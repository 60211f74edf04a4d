"""Wire numbers of the Raft messages.

Source: docs/formats/raft-log.md, "Messages"; the classes are those of raft/messages.py. Framing
and checks are in runtime/peer_codec.py.
"""

from penstock.raft.config import RaftConfig
from penstock.raft.entry import ENTRY_OVERHEAD_BYTES
from penstock.raft.messages import (
    AppendEntries,
    AppendResponse,
    InstallSnapshot,
    LearnerHello,
    LearnerWelcome,
    Message,
    SnapshotResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from penstock.runtime.long_message import Bounds
from penstock.runtime.peer_codec import MessageCodec

ENTRIES_MAX = RaftConfig().entries_bytes_max // ENTRY_OVERHEAD_BYTES + 1
"""Of one message, were all of them empty; a leader cuts by their bytes."""
VOTERS_MAX = 1_000

SNAPSHOT_BYTES_MAX = 2 << 20
"""Of one chunk, which a leader cuts at 256 KiB, and the voters beside it."""

_SHORT = Bounds(64 << 10)
_VOTERS = {"voters": VOTERS_MAX, "directories": VOTERS_MAX}
_BOUNDS: dict[type, Bounds] = {
    AppendEntries: Bounds(counts={"entries": ENTRIES_MAX}),
    InstallSnapshot: Bounds(SNAPSHOT_BYTES_MAX, _VOTERS | {"vacant": VOTERS_MAX}),
    LearnerWelcome: Bounds(1 << 20, _VOTERS),
    VoteRequest: _SHORT,
    VoteResponse: _SHORT,
    AppendResponse: _SHORT,
    SnapshotResponse: _SHORT,
    TimeoutNow: _SHORT,
    LearnerHello: _SHORT,
}

RAFT_CODEC = MessageCodec[Message](
    {
        1: VoteRequest,
        2: VoteResponse,
        3: AppendEntries,
        4: AppendResponse,
        5: InstallSnapshot,
        6: SnapshotResponse,
        7: TimeoutNow,
        8: LearnerHello,
        9: LearnerWelcome,
    },
    version=1,
    bounds=_BOUNDS,
)
