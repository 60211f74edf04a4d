"""Limits and times of the group coordinator.

A field is read when it is needed; nothing copies it.

Source: Kafka's broker settings, whose names stand with each field. Fields ending in `_ms` are
milliseconds, in `_bytes` bytes.
"""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from penstock.base.errors import ConfigError

NEVER_EXPIRE_MS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The coordinator of consumer groups of one broker."""

    partition_count: Annotated[int, Ge(1), Le(1_000)] = 16
    """Partitions of the internal topic; fixed once it exists. (offsets.topic.num.partitions; 50)"""

    session_timeout_min_ms: Annotated[int, Ge(1)] = 6_000
    """Shortest session of a member; a shorter one is refused with INVALID_SESSION_TIMEOUT.
    (group.min.session.timeout.ms)"""

    session_timeout_max_ms: Annotated[int, Ge(1)] = 1_800_000
    """Longest session of a member, refused likewise. (group.max.session.timeout.ms)"""

    initial_rebalance_delay_ms: Annotated[int, Ge(0)] = 500
    """How long the first join of an empty group waits for more members; each newcomer prolongs it,
    at most to the rebalance timeout. (group.initial.rebalance.delay.ms; 3000)"""

    new_member_join_timeout_ms: Annotated[int, Ge(1)] = 300_000
    """A newcomer whose join is parked this long is removed: its client has gone or will retry."""

    group_size_max: Annotated[int, Ge(1)] = 4_096
    """Members of one group; ids given out count as well. (group.max.size; unlimited)"""

    groups_max: Annotated[int, Ge(1)] = 100_000
    """Groups of this coordinator; further ones are refused with POLICY_VIOLATION."""

    group_id_bytes_max: Annotated[int, Ge(1), Le(32_767)] = 1_024
    """Longest group id. The record formats allow 32767, and each record carries it."""

    member_metadata_bytes_max: Annotated[int, Ge(1)] = 65_536
    """All protocols of one JoinGroup together; more is refused with INVALID_REQUEST."""

    members_bytes_max: Annotated[int, Ge(1)] = 256 * 1024 * 1024
    """What groups, their members and their positions may take in memory, over all groups of this
    coordinator. Above it joins that would add to it hear COORDINATOR_LOAD_IN_PROGRESS, and clients
    ask again. Above half of it commits that make a group hear POLICY_VIOLATION. Never more than
    three eighths of `net.unfinished_bytes_max`, of which it is a part."""

    record_bytes_max: Annotated[int, Ge(1)] = 1024 * 1024
    """What the metadata and the assignments of one group's members may take together, since they
    are written as one record; the leader's SyncGroup hears MESSAGE_TOO_LARGE above it. Kafka has
    the same bound by message.max.bytes."""

    member_protocols_max: Annotated[int, Ge(1)] = 64
    """Protocols one member may offer; more is refused with INVALID_REQUEST."""

    offset_metadata_bytes_max: Annotated[int, Ge(0), Le(32_767)] = 4_096
    """Text beside a committed offset; more is refused with OFFSET_METADATA_TOO_LARGE.
    (offset.metadata.max.bytes)"""

    offsets_bytes_max: Annotated[int, Ge(0)] = 256 * 1024 * 1024
    """What committed positions may take in memory, at about 400 bytes each and their metadata; one
    group half of it, groups without members three quarters together. Above it positions that would
    add to it hear INVALID_COMMIT_OFFSET_SIZE, and those that are there can be committed on. Never
    more than two thirds of `groups.members_bytes_max`, of which it is a part."""

    offsets_retention_ms: Annotated[int, Ge(NEVER_EXPIRE_MS)] = 7 * 24 * 3_600 * 1_000
    """How long offsets of an empty group are kept, from the last commit on; -1: for ever.
    (offsets.retention.minutes)"""

    expiry_check_interval_ms: Annotated[int, Ge(1)] = 600_000
    """How often offsets that are too old are looked for. (offsets.retention.check.interval.ms)"""

    writes_in_flight_max: Annotated[int, Ge(1)] = 20_000
    """Journal writes not yet confirmed; above it writers get COORDINATOR_NOT_AVAILABLE."""

    rewrite_after_bytes: Annotated[int, Ge(1)] = 16 * 1024 * 1024
    """A partition of the internal topic is rewritten when it grew by this much (and by as much
    as its live records take), since no compaction removes what was superseded."""

    rewrite_after_pinned_bytes: Annotated[int, Ge(1)] = 64 * 1024 * 1024
    """They are also rewritten when closed log files of this size together are needed by nobody
    else (and by twice what lives in them): a few positions must not keep files of dead data."""

    unread_bytes_max: Annotated[int, Ge(0)] = 16 * 1024 * 1024
    """Records of one partition that this version can not read, kept in memory for its rewrites.
    A partition with more of them is not rewritten: they stay in its log, as does the rest."""

    def __post_init__(self) -> None:
        """Check what the fields must be to one another."""
        if self.session_timeout_min_ms > self.session_timeout_max_ms:
            raise ConfigError(
                "groups.session_timeout_min_ms must not be above groups.session_timeout_max_ms"
            )
