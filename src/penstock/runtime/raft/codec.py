"""Raft messages on a link: which class has which number.

Source: docs/formats/raft-log.md, "Messages"; the classes are those of raft/messages.py. How a frame
is built and checked stands in runtime/peer_codec.py.
"""

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
from penstock.runtime.peer_codec import MessageCodec

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
)
