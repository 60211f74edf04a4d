"""What a leader knows of one peer, and how it sends it entries.

    PROBE ──success──► REPLICATE ──rejected, connection lost──► PROBE
      │ entry before `next_index` is compacted                    ▲
      └────────────────► SNAPSHOT ────durable there───────────────┘

PROBE      where the logs differ is not known: one message at a time
REPLICATE  messages follow each other without waiting, up to a window
SNAPSHOT   chunks, one at a time; entries wait

Source: Raft paper 5.3 (nextIndex, matchIndex), Raft thesis 10.2.1 (pipelining); the three states
are etcd's (tracker/progress.go there).
"""

from collections import deque
from enum import StrEnum

from penstock.base.ids import PeerId
from penstock.base.invariant import invariant
from penstock.raft.configuration import Configuration
from penstock.raft.ids import NO_DIRECTORY, NO_INDEX, DirectoryId, RaftIndex
from penstock.raft.ready import Snapshot


class FeedState(StrEnum):
    """How a peer gets entries."""

    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


class Progress:
    """One peer, seen from the leader."""

    def __init__(
        self,
        peer_id: PeerId,
        next_index: RaftIndex,
        heard_tick: int,
        directory_id: DirectoryId = NO_DIRECTORY,
    ) -> None:
        self.peer_id = peer_id
        self.directory_id = directory_id
        """The directory that this progress is of; with another one the peer starts over."""
        self.state = FeedState.PROBE
        self.match_index = NO_INDEX
        """Everything up to it, inclusive, is durable there. Never falls, except where a learner
        says that it lost its log."""
        self.next_index = next_index
        """The next entry to send; always above match_index."""
        self.may_probe = True
        """In PROBE: whether entries may be sent although the last answer is still out."""
        self.sent_commit_index = 0
        """The commit index that the peer has or is about to get."""
        self.sent_round = 0
        self.acked_round = 0
        self.heard_tick = heard_tick
        """When it last answered; at first when we began to wait for it."""
        self.inflight: deque[tuple[RaftIndex, int]] = deque()
        """In REPLICATE: (last index, bytes) of each message with entries that is under way."""
        self.inflight_bytes = 0
        self.snapshot: Snapshot | None = None
        """In SNAPSHOT: what is being sent."""
        self.snapshot_position = 0
        """The next chunk begins here, in bytes."""
        self.chunk_tick: int | None = None
        """When the chunk under way was sent; None if none is."""

    def counts_in(self, configuration: Configuration) -> bool:
        """Whether this peer is a voter and runs with the directory with which it votes."""
        return configuration.is_voter(self.peer_id, self.directory_id)

    def probe_from(self, next_index: RaftIndex) -> None:
        """Probe, one message at a time, from `next_index` but not below match_index + 1."""
        self._forget_inflight()
        self.state = FeedState.PROBE
        self.snapshot = None
        self.next_index = max(next_index, RaftIndex(self.match_index + 1))
        self.may_probe = True
        self.sent_commit_index = 0

    def replicate(self) -> None:
        """Go on without waiting: the logs are equal up to next_index - 1."""
        is_above = self.next_index > self.match_index
        invariant(is_above, "what is durable is not sent again", peer=self.peer_id)
        self._forget_inflight()
        self.state = FeedState.REPLICATE
        self.snapshot = None

    def send_snapshot(self, snapshot: Snapshot) -> None:
        """Go on with a snapshot."""
        self._forget_inflight()
        self.state = FeedState.SNAPSHOT
        self.snapshot = snapshot
        self.snapshot_position = 0
        self.chunk_tick = None

    def note_sent(self, last_index: RaftIndex, bytes_count: int) -> None:
        """In REPLICATE: note that entries up to `last_index` are under way."""
        is_onward = last_index >= self.next_index
        invariant(is_onward, "entries are sent once, in order", last=last_index, peer=self.peer_id)
        self.inflight.append((last_index, bytes_count))
        self.inflight_bytes += bytes_count
        self.next_index = RaftIndex(last_index + 1)

    def note_match(self, match_index: RaftIndex) -> bool:
        """Note up to where the peer is durable; return whether match_index moved."""
        while self.inflight and self.inflight[0][0] <= match_index:
            self.inflight_bytes -= self.inflight.popleft()[1]
        invariant(self.inflight_bytes >= 0, "more was answered than sent", peer=self.peer_id)
        if match_index <= self.match_index:
            return False
        self.match_index = match_index
        self.next_index = max(self.next_index, RaftIndex(match_index + 1))
        return True

    def is_window_full(self, messages_max: int, bytes_max: int) -> bool:
        """Whether nothing more may be sent before an answer; one message always may."""
        if not self.inflight:
            return False
        return len(self.inflight) >= messages_max or self.inflight_bytes >= bytes_max

    def _forget_inflight(self) -> None:
        self.inflight.clear()
        self.inflight_bytes = 0
