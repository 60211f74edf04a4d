"""Limits of shares, and what a group asks for.

Fields ending in `_ms` are milliseconds. Source: Kafka's broker and group settings, named with each
field.
"""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from penstock.shares.members import MEMBERS_MAX
from penstock.shares.runs import SPAN_MAX
from penstock.shares.state import TENURE_NONCES


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePolicy:
    """What one group asks for. It may change at any time, and applies to what comes then."""

    deliveries_max: Annotated[int, Ge(0), Le(254)] = 5
    """How often a record is handed out before it is given up; 0: without end.
    (share.delivery.count.limit)"""

    has_dead_letters: bool = False
    """Whether a record that is given up is copied first."""

    in_flight_max: Annotated[int, Ge(1)] = 2_000
    """Records of one share that are handed out. (group.share.partition.max.record.locks)"""

    member_in_flight_max: Annotated[int, Ge(1)] = 2_000
    """Of these, in the hands of one member."""

    window_max: Annotated[int, Ge(1), Le(SPAN_MAX)] = 2_000_000
    """Offsets between the oldest record that is not over and the newest that was handed out; with
    more, only records that came back are handed out. 12 bytes each."""

    members_max: Annotated[int, Ge(1), Le(MEMBERS_MAX)] = 1_000
    """Members that hold records of one share. (group.share.max.size; 200)"""

    pauses_ms: tuple[int, ...] = ()
    """Pause after the first, second, ... failed delivery; the last one holds from there on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConfig:
    """The shares of one broker."""

    record_locks_max: Annotated[int, Ge(100), Le(10_000)] = 2_000
    """Records of one group and partition that are handed out at a time.
    (group.share.partition.max.record.locks)"""

    deliveries_max: Annotated[int, Ge(2), Le(10)] = 5
    """How often a record is handed out before it is given up.
    (group.share.delivery.count.limit)"""

    sessions_max: Annotated[int, Ge(0), Le(100_000)] = 2_000
    """Share sessions of this broker: members that fetch from it. One more waits, and is refused.
    (group.share.max.share.sessions)"""

    shares_max: Annotated[int, Ge(1)] = 10_000
    """Shares of this coordinator, 3 KB each and 50 KB while something is handed out; further ones
    are refused."""

    memory_bytes_max: Annotated[int, Ge(1)] = 256 * 1024 * 1024
    """Memory of all shares of this broker; never more than a quarter of `net.unfinished_bytes_max`,
    beside it. A share with more than 8,000 offsets from its oldest record that is not over gets new
    records while less than half is used, any other one while not all is, and a new one can begin
    only then."""

    lock_max_ms: Annotated[int, Ge(1)] = 12 * 3_600 * 1_000
    """Longest time that a holder may ask for. (group.share.max.record.lock.duration.ms; 60 s)"""

    grace_ms: Annotated[int, Ge(0)] = 5_000
    """After a change of masters a holder has at least this long."""

    retry_ms: Annotated[int, Ge(1)] = 1_000
    """Pause before records that the log has refused are written again."""

    updates_under_way_max: Annotated[int, Ge(1), Le(TENURE_NONCES // 2)] = 50_000
    """Updates of one internal partition that are not confirmed; with more, nothing is done."""

    writes_in_flight_max: Annotated[int, Ge(1)] = 20_000
    """Journal writes that are not confirmed."""

    rewrite_after_bytes: Annotated[int, Ge(1)] = 16 * 1024 * 1024
    """A partition of the internal topic is rewritten when it has grown by this much, and by as much
    as its snapshots take."""

    rewrite_after_pinned_bytes: Annotated[int, Ge(1)] = 64 * 1024 * 1024
    """Partitions are also rewritten when they alone keep closed log files of this total size."""

    unread_bytes_max: Annotated[int, Ge(0)] = 16 * 1024 * 1024
    """Records of one partition that this version cannot read, kept in memory for rewrites."""
