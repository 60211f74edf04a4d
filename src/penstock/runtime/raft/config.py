"""Times and limits of the metadata log's Raft group, in milliseconds and bytes.

Source: Raft paper 5.6 (broadcast time << election timeout); Kafka's controller.quorum.* settings.
What counts in ticks, and what is rarely changed, stands in raft/config.py; `core` makes that.
"""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from penstock.base.errors import ConfigError
from penstock.controller.metadata.record_codec import ENTRY_BYTES_MAX
from penstock.raft.config import RaftConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftLogConfig:
    """One member of the metadata log's group. All members should have the same times."""

    tick_ms: Annotated[int, Ge(1), Le(1_000)] = 20
    """How often the core looks at its timers; the other times are rounded to it."""

    heartbeat_ms: Annotated[int, Ge(1), Le(10_000)] = 100
    """How often a leader with nothing to send is heard."""

    election_timeout_min_ms: Annotated[int, Ge(10), Le(60_000)] = 400
    """Silence of the leader after which a voter may stand for election. Too short for the network
    or a busy machine, and leaders change for nothing. A closed connection counts at once."""

    election_timeout_max_ms: Annotated[int, Ge(10), Le(120_000)] = 800
    """Silence after which every voter stands for election; each draws its time between the two."""

    lost_leader_ms_max: Annotated[int, Ge(1), Le(10_000)] = 120
    """Longest wait before an election when the connection to the leader was closed."""

    learner_hello_ms: Annotated[int, Ge(1), Le(60_000)] = 500
    """How often a process without a vote tells the voters that it is there."""

    disk_stall_ms: Annotated[int, Ge(10), Le(600_000)] = 3_000
    """A leader hands over when one operation of its disk takes this long: its heartbeats would go
    on, and nothing could be changed."""

    snapshot_after_bytes: Annotated[int, Ge(1)] = 4 << 20
    """Entries since the last snapshot that make a new one worth its cost; a snapshot larger than
    this waits until the log is as large."""

    readmit_voters: bool = True
    """Whether a voter that is back with an empty directory gets its vote back by itself, once it
    has caught up. Off: with `penstock controller remove` and `add`."""

    proposals_max: Annotated[int, Ge(1), Le(1_000_000)] = 10_000
    """Proposals that may be open; further ones are refused rather than queued."""

    group_bytes_max: Annotated[int, Ge(1_024), Le(256 << 20)] = 16 << 20
    """Proposed bytes that share one write and one fsync; a larger entry goes alone."""

    dial_timeout_ms: Annotated[int, Ge(10), Le(60_000)] = 1_000
    """How long connecting to a peer and shaking hands may take."""

    redial_min_ms: Annotated[int, Ge(1), Le(60_000)] = 50
    """Wait before the first new attempt to reach a peer; it doubles with every failure, and with
    every link that lasts no longer than `redial_max_ms`."""

    redial_max_ms: Annotated[int, Ge(1), Le(60_000)] = 1_000
    """Longest wait between two attempts. It bounds how late a returning peer is noticed."""

    link_buffer_bytes_max: Annotated[int, Ge(1_024), Le(1 << 30)] = 16 << 20
    """Bytes waiting on one link above which messages are dropped; Raft sends them again."""

    def __post_init__(self) -> None:
        """Check what the fields must be to one another."""
        if self.redial_min_ms > self.redial_max_ms:
            raise ConfigError("raft.redial_min_ms must not be above raft.redial_max_ms")
        if self.tick_ms > self.heartbeat_ms:
            raise ConfigError("raft.tick_ms must not be above raft.heartbeat_ms")
        self.core()

    def core(self) -> RaftConfig:
        """Return the core's settings. Raises ConfigError where they contradict each other."""
        return RaftConfig(
            heartbeat_ticks=self._ticks(self.heartbeat_ms),
            election_ticks_min=self._ticks(self.election_timeout_min_ms),
            election_ticks_max=self._ticks(self.election_timeout_max_ms),
            lost_leader_ticks_max=self._ticks(self.lost_leader_ms_max),
            learner_hello_ticks=self._ticks(self.learner_hello_ms),
            learner_timeout_ticks=10 * self._ticks(self.learner_hello_ms),
            entry_bytes_max=ENTRY_BYTES_MAX,
            readmits_voters=self.readmit_voters,
        )

    def _ticks(self, duration_ms: int) -> int:
        return max(1, round(duration_ms / self.tick_ms))
