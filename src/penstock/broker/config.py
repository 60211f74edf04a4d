"""Settings of the broker room."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from annotated_types import Ge, Le


class SlaveReads(StrEnum):
    """Whom consumers are sent to slaves for; broker/fetch/slave_reads.py."""

    OFF = "off"
    RACK = "rack"
    LAG = "lag"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """What one broker does with requests."""

    auto_create_topics: bool = False
    """Create a topic when a client asks for its metadata. Convenient for demonstrations; in
    production a misspelt name then becomes a topic."""

    fetch_max_bytes: Annotated[int, Ge(1024), Le(256 << 20)] = 8 << 20
    """Bytes one fetch answer may hold, whatever the client asks for (Kafka: 55 MiB). A slow
    consumer holds that much memory, and a larger answer does not fit the buffers that are used
    again: memory touched for the first time costs more than reading and sending."""

    fetch_read_ahead_bytes: Annotated[int, Ge(0), Le(1 << 34)] = 32 << 20
    """Memory for records that are read before a consumer that is behind asks for them, which makes
    it faster while a processor is idle; 0 switches that off."""

    fetch_sessions_max: Annotated[int, Ge(0), Le(100_000)] = 1000
    """Incremental fetch sessions (KIP-227) kept at a time; 0 switches sessions off. What they take
    in memory is bounded too, by an eighth of what `net.unfinished_bytes_max` comes to."""

    fetch_session_idle_ms_max: Annotated[int, Ge(0)] = 120_000
    """A session that nobody has used for so long ends; its client makes a new one when it is back.
    Ten seconds are enough where its connection has closed."""

    housekeeping_interval_ms: Annotated[int, Ge(100), Le(3_600_000)] = 60_000
    """How often retention is applied and the internal topic looked at (Kafka: 5 minutes)."""

    slave_reads: SlaveReads = SlaveReads.OFF
    """Whether slaves serve consumers, and which: off (nobody), rack (those in the slave's rack,
    by client.rack and node.rack), lag (those further behind than memory is trusted with). Set it
    alike on all brokers."""

    slave_read_memory_percent: Annotated[int, Ge(1), Le(95)] = 40
    """Share of the machine's memory that is trusted to hold the newest records (RocketMQ: 40).
    With slave_reads=lag, who reads further back is sent to a slave."""
