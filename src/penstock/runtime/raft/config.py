"""Times and limits of the metadata log's Raft group, in milliseconds and bytes.

Source: Raft paper 5.6 (broadcast time << election timeout); Kafka's controller.quorum.* settings.
Times counted in ticks and rarely changed limits are in raft/config.py; `core` converts to them.
"""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from penstock.base.errors import ConfigError
from penstock.controller.metadata.record_codec import ENTRY_BYTES_MAX
from penstock.raft.config import RaftConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftLogConfig:
    """Settings of one member of the metadata log's group; all members should use the same times."""

    tick_ms: Annotated[int, Ge(1), Le(1_000)] = 20
    """Period of the core's timers; the other times are rounded to a multiple of it."""

    heartbeat_ms: Annotated[int, Ge(1), Le(10_000)] = 100
    """How often an idle leader sends a heartbeat."""

    election_timeout_min_ms: Annotated[int, Ge(10), Le(60_000)] = 400
    """Silence of the leader after which a voter may start an election; the lower bound of a random
    draw. Too short a value for the network or a busy machine causes needless elections. A closed
    connection to the leader counts as silence at once."""

    election_timeout_max_ms: Annotated[int, Ge(10), Le(120_000)] = 800
    """Upper bound, exclusive, of the random election timeout."""

    lost_leader_ms_max: Annotated[int, Ge(1), Le(10_000)] = 120
    """Longest wait before an election after the connection to the leader was closed."""

    learner_hello_ms: Annotated[int, Ge(1), Le(60_000)] = 500
    """How often an observer (a process without a vote) reports to the voters."""

    disk_stall_ms: Annotated[int, Ge(10), Le(600_000)] = 3_000
    """A leader hands leadership over when one disk operation takes this long: its heartbeats would
    continue while no entry could be committed."""

    snapshot_after_bytes: Annotated[int, Ge(1), Le(1 << 30)] = 4 << 20
    """Entries since the last snapshot after which a new one is taken. After a large snapshot the
    next one waits until the log has grown to the same size. As many bytes of entries stay for peers
    that are a little behind; one that is further behind gets the snapshot."""

    readmit_voters: bool = True
    """Whether a voter that returns with an empty directory regains its vote by itself once it has
    caught up. If off, use `penstock controller remove` and `add`."""

    proposals_max: Annotated[int, Ge(1), Le(1_000_000)] = 10_000
    """Proposals that may be pending; further ones are refused rather than queued."""

    group_bytes_max: Annotated[int, Ge(1_024), Le(256 << 20)] = 16 << 20
    """Bytes of proposals that share one write and one fsync; a larger entry is written alone."""

    dial_timeout_ms: Annotated[int, Ge(10), Le(60_000)] = 1_000
    """Time limit for connecting to a peer, including the handshake."""

    redial_min_ms: Annotated[int, Ge(1), Le(60_000)] = 50
    """First wait before reconnecting to a peer. It doubles after every failure, and after every
    link that lasted no longer than `redial_max_ms`."""

    redial_max_ms: Annotated[int, Ge(1), Le(60_000)] = 1_000
    """Longest wait between two attempts, which bounds how late a returning peer is noticed."""

    link_buffer_bytes_max: Annotated[int, Ge(1_024), Le(1 << 30)] = 16 << 20
    """Bytes queued on one link above which messages are dropped; Raft retransmits them."""

    def __post_init__(self) -> None:
        """Check the relations between fields. Raises ConfigError."""
        if self.redial_min_ms > self.redial_max_ms:
            raise ConfigError("raft.redial_min_ms must not be above raft.redial_max_ms")
        if self.tick_ms > self.heartbeat_ms:
            raise ConfigError("raft.tick_ms must not be above raft.heartbeat_ms")
        self.core()

    def core(self) -> RaftConfig:
        """Return the core's settings, in ticks. Raises ConfigError if they are inconsistent."""
        return RaftConfig(
            heartbeat_ticks=self._ticks(self.heartbeat_ms),
            election_ticks_min=self._ticks(self.election_timeout_min_ms),
            election_ticks_max=self._ticks(self.election_timeout_max_ms),
            lost_leader_ticks_max=self._ticks(self.lost_leader_ms_max),
            learner_hello_ticks=self._ticks(self.learner_hello_ms),
            learner_timeout_ticks=10 * self._ticks(self.learner_hello_ms),
            entry_bytes_max=ENTRY_BYTES_MAX,
            compaction_keep_bytes=self.snapshot_after_bytes,
            readmits_voters=self.readmit_voters,
        )

    def _ticks(self, duration_ms: int) -> int:
        return max(1, round(duration_ms / self.tick_ms))
