"""Limits and times of the group coordinator.

Source: the names of Kafka's broker settings stand beside each field, with Kafka's default where
ours differs. Fields ending in `_ms` are milliseconds, in `_bytes` bytes.
"""

from dataclasses import dataclass

from penstock.base.errors import ConfigError

NEVER_EXPIRE_MS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Settings of one coordinator; all of them are read when they are needed, none is copied."""

    partition_count: int = 16
    """offsets.topic.num.partitions (Kafka: 50). Fixed once the internal topic exists."""

    session_timeout_min_ms: int = 6_000
    """group.min.session.timeout.ms. A shorter one is refused: INVALID_SESSION_TIMEOUT."""

    session_timeout_max_ms: int = 1_800_000
    """group.max.session.timeout.ms."""

    initial_rebalance_delay_ms: int = 500
    """group.initial.rebalance.delay.ms (Kafka: 3000). How long the first join of an empty group
    waits for more members; each newcomer prolongs it, at most to the rebalance timeout."""

    new_member_join_timeout_ms: int = 300_000
    """A newcomer whose join is parked this long is removed: its client has gone or will retry."""

    group_size_max: int = 4_096
    """group.max.size (Kafka: unlimited). Members of one group; ids given out count as well."""

    groups_max: int = 100_000
    """Groups of this coordinator; further ones are refused with POLICY_VIOLATION."""

    group_id_bytes_max: int = 1_024
    """The record formats allow 32767; nobody needs it, and everybody pays for it in each record."""

    member_metadata_bytes_max: int = 65_536
    """All protocols of one JoinGroup together; more is refused with INVALID_REQUEST."""

    member_protocols_max: int = 64
    """Protocols one member may offer."""

    offset_metadata_bytes_max: int = 4_096
    """offset.metadata.max.bytes; more is refused with OFFSET_METADATA_TOO_LARGE."""

    offsets_retention_ms: int = 7 * 24 * 3_600 * 1_000
    """offsets.retention.minutes. Counts from the last commit, and only while the group is empty;
    -1 keeps offsets for ever."""

    expiry_check_interval_ms: int = 600_000
    """offsets.retention.check.interval.ms."""

    writes_in_flight_max: int = 20_000
    """Journal writes not yet confirmed; above it writers get COORDINATOR_NOT_AVAILABLE."""

    rewrite_after_bytes: int = 16 * 1024 * 1024
    """A partition of the internal topic is rewritten when it grew by this much (and by as much
    as its live records take), since no compaction removes what was superseded."""

    def __post_init__(self) -> None:
        """Check what the fields must be to one another."""
        if self.partition_count < 1:
            raise ConfigError("groups: partition_count must be at least 1")
        if not 0 < self.session_timeout_min_ms <= self.session_timeout_max_ms:
            raise ConfigError("groups: session_timeout_min_ms must be in 1..session_timeout_max_ms")
        if self.initial_rebalance_delay_ms < 0:
            raise ConfigError("groups: initial_rebalance_delay_ms must not be negative")
        if not 0 < self.group_id_bytes_max <= 32_767:
            raise ConfigError("groups: group_id_bytes_max must be in 1..32767")
        if self.expiry_check_interval_ms < 1 or self.offsets_retention_ms < NEVER_EXPIRE_MS:
            raise ConfigError("groups: expiry_check_interval_ms >= 1, offsets_retention_ms >= -1")
