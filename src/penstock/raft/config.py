"""Settings of one Raft member. Times are in ticks; how long one lasts is the driver's choice.

With the ticks of 20 ms that the defaults are meant for: heartbeats every 100 ms, elections after 1
to 2 seconds of silence, and after 20 to 120 ms where the leader's connection was closed.

Source: Raft paper 5.6 and 9.3 (broadcast time << election timeout << time between failures).
"""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le, Unit

from penstock.base.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """All members of a group should have the same settings."""

    heartbeat_ticks: Annotated[int, Ge(1), Le(1000), Unit("ticks")] = 5
    """Time between two heartbeats of a leader."""

    election_ticks_min: Annotated[int, Ge(2), Le(10_000), Unit("ticks")] = 50
    """A voter that heard the leader within this time votes for nobody else."""

    election_ticks_max: Annotated[int, Ge(3), Le(20_000), Unit("ticks")] = 100
    """Silence after which every voter campaigns (exclusive; each draws its own time), and after
    which a leader without answers from a majority steps down."""

    lost_leader_ticks_max: Annotated[int, Ge(1), Le(1000), Unit("ticks")] = 6
    """Longest wait before a campaign when the connection to the leader was closed."""

    entry_bytes_max: Annotated[int, Ge(1024), Le(64 << 20), Unit("bytes")] = 8 << 20
    """Largest payload of one proposal."""

    entries_bytes_max: Annotated[int, Ge(1024), Le(64 << 20), Unit("bytes")] = 256 << 10
    """Entries in one message; one entry always goes, however large."""

    inflight_messages_max: Annotated[int, Ge(1), Le(10_000), Unit("messages")] = 64
    """Messages with entries under way to one peer."""

    inflight_bytes_max: Annotated[int, Ge(1024), Le(1 << 30), Unit("bytes")] = 4 << 20
    """Bytes of entries under way to one peer; one message always goes."""

    uncommitted_bytes_max: Annotated[int, Ge(1024), Le(1 << 30), Unit("bytes")] = 64 << 20
    """Proposals waiting for their commit; beyond it they are refused."""

    apply_bytes_max: Annotated[int, Ge(1024), Le(1 << 30), Unit("bytes")] = 4 << 20
    """Committed entries in one Ready; one entry always goes."""

    snapshot_chunk_bytes: Annotated[int, Ge(1), Le(16 << 20), Unit("bytes")] = 256 << 10
    """Data in one message of a snapshot."""

    snapshot_bytes_max: Annotated[int, Ge(1024), Le(4 << 30), Unit("bytes")] = 1 << 30
    """Largest snapshot that a peer may send; it is put together in memory."""

    compaction_keep_bytes: Annotated[int, Ge(0), Le(1 << 30), Unit("bytes")] = 4 << 20
    """Newest entries up to a snapshot that stay in memory, for peers that are a little behind."""

    learner_hello_ticks: Annotated[int, Ge(1), Le(10_000), Unit("ticks")] = 25
    """Time between two hellos of a learner to every voter."""

    learner_timeout_ticks: Annotated[int, Ge(2), Le(100_000), Unit("ticks")] = 250
    """The leader stops sending entries to a learner that was silent for this long."""

    learners_max: Annotated[int, Ge(1), Le(100_000)] = 1000
    """Learners that one voter remembers."""

    learner_lag_entries_max: Annotated[int, Ge(0), Le(1_000_000), Unit("entries")] = 1000
    """A learner further behind than this does not become a voter: it would hold up commits."""

    readmits_voters: bool = True
    """Whether the leader gives a voter that lost its directory its vote back, once the new one has
    caught up and the old one was silent for election_ticks_max."""

    reads_max: Annotated[int, Ge(1), Le(1_000_000)] = 10_000
    """Consistent reads that wait for a round of heartbeats; more are refused."""

    def __post_init__(self) -> None:
        if not self.heartbeat_ticks < self.election_ticks_min < self.election_ticks_max:
            raise ConfigError(
                "raft needs heartbeat_ticks < election_ticks_min < election_ticks_max:"
                " followers must hear several heartbeats before they campaign"
            )
        if self.learner_hello_ticks >= self.learner_timeout_ticks:
            raise ConfigError("raft.learner_hello_ticks must be below learner_timeout_ticks")
