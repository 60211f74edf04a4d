"""Limits, defaults and time-outs of the controller.

Source: Kafka's num.partitions and KIP-578 (limits); RocketMQ's controller for heartbeats.
"""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from penstock.base.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """What topics may ask for, and when a silent broker is replaced."""

    default_partitions: Annotated[int, Ge(1), Le(100_000)] = 1
    """Partitions of a topic that is created without saying how many (Kafka: num.partitions)."""

    default_replication_factor: Annotated[int, Ge(1), Le(32)] = 1
    """Replicas of a topic that is created without saying how many."""

    partitions_per_topic_max: Annotated[int, Ge(1), Le(100_000)] = 10_000
    """Largest partition count of one topic. Every partition costs memory on its node and bytes in
    every Metadata answer."""

    partitions_per_broker_max: Annotated[int, Ge(1), Le(1_000_000)] = 20_000
    """Replicas of partitions that one broker may carry. Kafka sets no limit and can live-lock."""

    sets_per_broker_max: Annotated[int, Ge(1), Le(1_000)] = 16
    """Replica sets that one broker may be a member of before topics stop making new ones for it.
    Every set is a log of its own; sets that an operator makes are not held against this."""

    heartbeat_interval_ms: Annotated[int, Ge(20), Le(60_000)] = 1_000
    """How often a broker sends a heartbeat to every controller (RocketMQ: 1 s)."""

    session_timeout_ms: Annotated[int, Ge(100), Le(600_000)] = 5_000
    """Silence after which a broker counts as dead. A closed connection counts at once, so that this
    bounds only hangs and cut networks. Too short, and a pause of a second moves masterships."""

    probe_timeout_ms: Annotated[int, Ge(10), Le(60_000)] = 300
    """How long an election waits for the candidates to report their logs. It goes on without those
    that do not answer, where the set's acknowledgement policy allows that."""

    election_retry_ms: Annotated[int, Ge(10), Le(60_000)] = 500
    """First wait after an election without a winner; it doubles up to `session_timeout_ms`. When a
    broker registers, or has opened its log, the election is retried at once."""

    transfer_timeout_ms: Annotated[int, Ge(100), Le(600_000)] = 5_000
    """How long a master may take to bring its successor up to its end in a planned transfer; writes
    wait meanwhile."""

    preferred_master_delay_ms: Annotated[int, Ge(-1), Le(86_400_000)] = 30_000
    """How long a preferred master must have been in step before it gets its set back; -1: never.
    Masterships that an operator moved stay where they are."""

    delegation_token_max_lifetime_ms: Annotated[int, Ge(1_000), Le(366 * 86_400_000)] = (
        7 * 86_400_000
    )
    """After so long a delegation token is over whatever its renewers do (Kafka:
    delegation.token.max.lifetime.ms). Who asks for less gets less. Use the same value on all
    controllers."""

    delegation_token_expiry_time_ms: Annotated[int, Ge(1_000), Le(366 * 86_400_000)] = 86_400_000
    """For so long a delegation token is good at first, and after each renewal (Kafka:
    delegation.token.expiry.time.ms). Use the same value on all controllers."""

    delegation_token_expiry_check_interval_ms: Annotated[int, Ge(1_000), Le(86_400_000)] = 60_000
    """How often delegation tokens that are over are removed (Kafka:
    delegation.token.expiry.check.interval.ms). They let nobody in before that either; a look
    through 10,000 takes 1 ms."""

    tiered_topics: bool = False
    """Whether topics may have `remote.storage.enable` (Kafka: remote.log.storage.system.enable). To
    be switched on in every controller once all brokers have an object store (`tier.url`)."""

    def __post_init__(self) -> None:
        if self.session_timeout_ms < 2 * self.heartbeat_interval_ms:
            raise ConfigError(
                "controller.session_timeout_ms is less than two heartbeats: one late heartbeat"
                " would move masterships; raise it or lower controller.heartbeat_interval_ms"
            )
        if self.default_partitions > self.partitions_per_topic_max:
            raise ConfigError(
                "controller.default_partitions is larger than controller.partitions_per_topic_max:"
                " raise the limit or lower the default"
            )
