"""Limits and times of the group coordinator.

A field is read when it is needed and never copied. Fields ending in `_ms` are milliseconds, in
`_bytes` or `_bytes_max` bytes.

Source: Kafka's broker settings, named with each field.
"""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from penstock.base.errors import ConfigError

NEVER_EXPIRE_MS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The coordinator of groups of one broker."""

    partition_count: Annotated[int, Ge(1), Le(1_000)] = 16
    """Partitions of the internal topic; fixed once it exists. (offsets.topic.num.partitions; 50)"""

    session_timeout_min_ms: Annotated[int, Ge(1)] = 6_000
    """Shortest session of a member; a shorter one is refused with INVALID_SESSION_TIMEOUT.
    (group.min.session.timeout.ms)"""

    session_timeout_max_ms: Annotated[int, Ge(1)] = 1_800_000
    """Longest session of a member, refused likewise. (group.max.session.timeout.ms)"""

    initial_rebalance_delay_ms: Annotated[int, Ge(0)] = 500
    """How long the first join of an empty group waits for more members. Each newcomer prolongs it,
    up to the rebalance timeout. (group.initial.rebalance.delay.ms; 3000)"""

    new_member_join_timeout_ms: Annotated[int, Ge(1)] = 300_000
    """A new member whose join is parked for this long is removed: its client is gone or retries."""

    group_size_max: Annotated[int, Ge(1)] = 4_096
    """Members of one group; ids handed out count as well. (group.max.size; unlimited)"""

    share_group_size_max: Annotated[int, Ge(1), Le(1_000)] = 200
    """Members of one share group. (group.share.max.size)"""

    share_session_timeout_ms: Annotated[int, Ge(1)] = 45_000
    """How long a member of a share group may be silent, unless its group has the key
    share.session.timeout.ms. (group.share.session.timeout.ms)"""

    share_heartbeat_interval_ms: Annotated[int, Ge(1)] = 5_000
    """How often a member of a share group speaks at least, unless its group has the key
    share.heartbeat.interval.ms; every second where that is not too much for the coordinator.
    (group.share.heartbeat.interval.ms)"""

    groups_max: Annotated[int, Ge(1)] = 100_000
    """Groups of this coordinator; further ones are refused with POLICY_VIOLATION."""

    group_id_bytes_max: Annotated[int, Ge(1), Le(32_767)] = 1_024
    """Longest group id. The record formats allow 32767, and each record carries it."""

    member_metadata_bytes_max: Annotated[int, Ge(1)] = 65_536
    """All protocols of one JoinGroup together; more is refused with INVALID_REQUEST."""

    members_bytes_max: Annotated[int, Ge(1)] = 256 * 1024 * 1024
    """Memory for groups, their members and their positions, of all groups of this coordinator.
    Above it joins that add a member are refused with COORDINATOR_LOAD_IN_PROGRESS, and clients
    retry. Above half of it commits that create a group are refused with POLICY_VIOLATION. Never
    more than three eighths of `net.unfinished_bytes_max`, of which it is a part."""

    record_bytes_max: Annotated[int, Ge(1)] = 1024 * 1024
    """Metadata and assignments of one group's members together, since they are one record. A
    larger SyncGroup of the leader is refused with MESSAGE_TOO_LARGE. Kafka has the same bound by
    message.max.bytes."""

    member_protocols_max: Annotated[int, Ge(1)] = 64
    """Protocols one member may offer; more is refused with INVALID_REQUEST."""

    offset_metadata_bytes_max: Annotated[int, Ge(0), Le(32_767)] = 4_096
    """Text beside a committed offset; more is refused with OFFSET_METADATA_TOO_LARGE.
    (offset.metadata.max.bytes)"""

    offsets_bytes_max: Annotated[int, Ge(0)] = 256 * 1024 * 1024
    """Memory for committed positions, about 400 bytes each and their metadata. One group may use
    half of it, groups without members together three quarters. Above it new positions are refused
    with INVALID_COMMIT_OFFSET_SIZE; commits of existing ones are still accepted. Never more than
    two thirds of `groups.members_bytes_max`, of which it is a part."""

    offsets_retention_ms: Annotated[int, Ge(NEVER_EXPIRE_MS)] = 7 * 24 * 3_600 * 1_000
    """How long offsets of an empty group are kept after its last commit; -1: forever.
    (offsets.retention.minutes)"""

    expiry_check_interval_ms: Annotated[int, Ge(1)] = 600_000
    """How often groups are checked for expired offsets. (offsets.retention.check.interval.ms)"""

    writes_in_flight_max: Annotated[int, Ge(1)] = 20_000
    """Journal writes not yet confirmed; more are refused with COORDINATOR_NOT_AVAILABLE."""

    rewrite_after_bytes: Annotated[int, Ge(1)] = 16 * 1024 * 1024
    """A partition of the internal topic is rewritten when it has grown by this much, and by as
    much as its live records take, since no compaction removes superseded records."""

    rewrite_after_pinned_bytes: Annotated[int, Ge(1)] = 64 * 1024 * 1024
    """Partitions are also rewritten when they alone keep closed log files of this total size, and
    of twice their live records: a few positions must not keep large files of dead data."""

    unread_bytes_max: Annotated[int, Ge(0)] = 16 * 1024 * 1024
    """Records of one partition that this version cannot read, kept in memory for rewrites. A
    partition with more of them is not rewritten, so that they stay in its log."""

    def __post_init__(self) -> None:
        """Check the relations between fields."""
        if self.session_timeout_min_ms > self.session_timeout_max_ms:
            raise ConfigError(
                "groups.session_timeout_min_ms must not be above groups.session_timeout_max_ms"
            )
        if self.share_heartbeat_interval_ms >= self.share_session_timeout_ms:
            raise ConfigError(
                "groups.share_heartbeat_interval_ms must be below groups.share_session_timeout_ms"
            )
