"""Settings of the broker room."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from annotated_types import Ge, Le


class SlaveReads(StrEnum):
    """Which consumers are sent to slaves; broker/fetch/slave_reads.py."""

    OFF = "off"
    RACK = "rack"
    LAG = "lag"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """How one broker serves requests."""

    audit: bool = False
    """Whether what clients do is folded into rows and written to the internal topic
    __penstock_audit. Use the same value on all brokers."""

    audit_fold_ms: Annotated[int, Ge(100), Le(3_600_000)] = 60_000
    """How long the audit adds up before it writes rows. Shorter folds make more rows, longer ones
    lose more with a process that is killed. Use the same value on all brokers."""

    auto_create_topics: bool = False
    """Create a topic when a client requests its metadata. Convenient for demonstrations; in
    production every misspelt name becomes a topic."""

    client_metrics: bool = False
    """Whether clients are told to push their own metrics (KIP-714), as client-metrics resources
    configure it, and what they push is written to the internal topic __penstock_client_metrics. Use
    the same value on all brokers."""

    client_metrics_bytes_max: Annotated[int, Ge(1024), Le(16 << 20)] = 1 << 20
    """Largest push of a client's own metrics in bytes, as it is sent and unpacked (Kafka:
    telemetry.max.bytes)."""

    fenced_told_ms: Annotated[int, Ge(0), Le(600_000)] = 9_000
    """For how long clients are still told of a broker after it was fenced (Kafka: until its session
    ends, 9 s). librdkafka forgets a broker that it is not told of, and what waits for it may hang;
    one that restarts is back sooner. 0: it is left out at once."""

    fetch_max_bytes: Annotated[int, Ge(1024), Le(256 << 20)] = 8 << 20
    """Largest fetch answer in bytes, whatever the client asks for (Kafka: 55 MiB). A slow consumer
    holds that much memory, and a larger answer does not fit the pooled buffers: memory touched for
    the first time costs more than reading and sending."""

    fetch_read_ahead_bytes: Annotated[int, Ge(0), Le(1 << 34)] = 32 << 20
    """Memory for reading ahead for consumers that are behind, which makes them faster while the
    processor is idle; 0 disables it."""

    fetch_sessions_max: Annotated[int, Ge(0), Le(100_000)] = 1000
    """Incremental fetch sessions (KIP-227) kept at a time; 0 disables sessions. Their memory is
    limited too, to an eighth of the effective `net.unfinished_bytes_max`."""

    fetch_session_idle_ms_max: Annotated[int, Ge(0)] = 120_000
    """A session ends after so long without use; its client opens a new one when it returns. After
    its connection has closed, ten seconds are enough."""

    housekeeping_interval_ms: Annotated[int, Ge(100), Le(3_600_000)] = 60_000
    """How often retention is applied and internal topics are checked (Kafka: 5 minutes)."""

    message_trace_percent: Annotated[float, Ge(0), Le(100)] = 0.0
    """Of so many messages in a hundred it is written to the internal topic __penstock_message_trace
    to which members of share groups, and of RocketMQ's groups that pop, they were delivered, and
    with what result; 0: of none. A hash of their places says of which. Use the same value on all
    brokers. A topic may say otherwise (`penstock.message.trace.percent`)."""

    slave_reads: SlaveReads = SlaveReads.OFF
    """Whether slaves serve consumers, and which: off (none), rack (those in the slave's rack, by
    client.rack and node.rack), lag (those further behind than the page cache is expected to reach).
    What only the object store has slaves read from there. Use the same value on all brokers."""

    slave_read_memory_percent: Annotated[int, Ge(1), Le(95)] = 40
    """Share of the machine's memory that is expected to hold the newest records (RocketMQ: 40).
    With slave_reads=lag, consumers that read older ones are sent to a slave."""
