"""Settings of replication between the members of replica sets.

Source: Kafka's `replica.*` settings and RocketMQ's `ha*` settings of the same meaning are named
with each field.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from annotated_types import Ge, Le, Unit

from penstock.base.errors import ConfigError


class FirstSync(StrEnum):
    """Where a slave with an empty log begins."""

    EVERYTHING = "everything"
    """At the oldest record that the master keeps."""
    NEWEST = "newest-segment"
    """At the newest file of the master's log. Faster, but the slave joins the sync-state set only
    when the master has deleted everything older."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    """Settings of one broker's replication links; sizes in bytes, times in milliseconds."""

    replica_lag_time_ms: Annotated[int, Ge(100), Le(600_000), Unit("ms")] = 10_000
    """A slave that has not been caught up for this long leaves the sync-state set. With a short
    time a slow slave delays writes for less long. (replica.lag.time.max.ms,
    haMaxTimeSlaveNotCatchup)"""

    replica_lag_bytes: Annotated[int, Ge(0), Le(1 << 40), Unit("bytes")] = 0
    """A slave that is further behind than this leaves the sync-state set at once; 0: only
    `replica_lag_time_ms` counts. (haMaxGapNotInSync)"""

    disconnect_grace_ms: Annotated[int, Ge(0), Le(60_000), Unit("ms")] = 500
    """How long a member of the sync-state set may be without a connection before it leaves. A
    process that only dropped a link opens it again at once."""

    change_retry_ms: Annotated[int, Ge(10), Le(60_000), Unit("ms")] = 200
    """First pause after a change of the sync-state set that the controllers did not record; it
    doubles up to 16 times this."""

    keep_alive_ms: Annotated[int, Ge(50), Le(60_000), Unit("ms")] = 1_000
    """How often a master without data to send sends a keep-alive. (haSendHeartbeatInterval)"""

    link_silence_ms: Annotated[int, Ge(100), Le(600_000), Unit("ms")] = 5_000
    """A link on which nothing has arrived for this long is dead. (haHousekeepingInterval)"""

    reconnect_ms: Annotated[int, Ge(1), Le(60_000), Unit("ms")] = 20
    """First pause before a lost link is dialled again; it doubles up to `reconnect_ms_max`, also
    where links are made and last no longer than that."""

    reconnect_ms_max: Annotated[int, Ge(1), Le(600_000), Unit("ms")] = 1_000
    """Longest pause between two attempts. (reconnect.backoff.max.ms)"""

    dial_timeout_ms: Annotated[int, Ge(50), Le(60_000), Unit("ms")] = 2_000
    """For connecting to a master and for the handshake."""

    run_bytes: Annotated[int, Ge(4096), Le(16 << 20), Unit("bytes")] = 256 << 10
    """Log bytes in one message, at most. (haTransferBatchSize)"""

    in_flight_bytes: Annotated[int, Ge(65_536), Le(1 << 30), Unit("bytes")] = 4 << 20
    """Bytes sent and not yet acknowledged, for each set and slave. Bounds memory, and keeps a set
    that catches up from delaying the other sets on the same link."""

    copy_bytes_per_second: Annotated[int, Ge(0), Le((1 << 63) - 1), Unit("bytes/s")] = 0
    """How much this broker, as the master of its sets, sends in a second to all members together
    that are not in step: new, moved, wiped or left behind. 0: without a bound. Members of the
    sync-state set are never held up. Keep it above what producers write to the sets that are
    copied, or a copy does not end. (leader.replication.throttled.rate)"""

    first_sync: FirstSync = FirstSync.EVERYTHING
    """Where a slave with an empty log begins. `newest-segment` copies little at first, but the
    slave joins the sync-state set, and can be elected, only once its master has deleted everything
    older. It copies everything where `log.level0_ms` or `log.level0_bytes` is set, under `quorum`
    and `k-of-n`, which elect members out of step too, and where it is in step already.
    (syncFromLastFile)"""

    lease_ms: Annotated[int, Ge(100), Le(600_000), Unit("ms")] = 4_000
    """A master that has heard neither from the active controller nor from enough members for this
    long answers no reads, and under policies that do not wait for the whole sync-state set it
    confirms nothing. Keep it 800 ms below the controllers' session time-out, so that it ends before
    another master is elected (800 ms is how long a cut-off controller may still act as the active
    one); and above three times `keep_alive_ms`, since a member's acknowledgement counts from the
    keep-alive before it."""

    is_lease_wanted: bool = True
    """Whether masters need the lease. Without it a cut-off master goes on answering reads and
    confirming (availability first); what it confirmed alone is cut later, and reported."""

    def __post_init__(self) -> None:
        """Check the relations between fields."""
        if self.link_silence_ms < 2 * self.keep_alive_ms:
            raise ConfigError(
                f"link_silence_ms ({self.link_silence_ms}) must be at least twice keep_alive_ms "
                f"({self.keep_alive_ms}), or idle links are taken for dead ones"
            )
        if self.in_flight_bytes < self.run_bytes:
            raise ConfigError(
                f"in_flight_bytes ({self.in_flight_bytes}) must hold a run of run_bytes "
                f"({self.run_bytes})"
            )
        if self.reconnect_ms_max < self.reconnect_ms:
            raise ConfigError(
                f"reconnect_ms_max ({self.reconnect_ms_max}) must not be below reconnect_ms "
                f"({self.reconnect_ms})"
            )
