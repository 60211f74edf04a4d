"""Limits and defaults of the controller. Source: Kafka's num.partitions and KIP-578 (limits)."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from penstock.base.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """What commands are checked against."""

    default_partitions: Annotated[int, Ge(1), Le(100_000)] = 1
    """Partitions of a topic that is created without saying how many (Kafka: num.partitions)."""

    default_replication_factor: Annotated[int, Ge(1), Le(32)] = 1
    """Replicas of a topic that is created without saying how many."""

    partitions_per_topic_max: Annotated[int, Ge(1), Le(100_000)] = 10_000
    """Largest partition count of one topic. Every partition costs memory on its node and bytes in
    every Metadata answer."""

    partitions_per_broker_max: Annotated[int, Ge(1), Le(1_000_000)] = 20_000
    """Replicas of partitions that one broker may carry. Kafka sets no limit and can live-lock."""

    def __post_init__(self) -> None:
        if self.default_partitions > self.partitions_per_topic_max:
            raise ConfigError(
                "controller.default_partitions is larger than controller.partitions_per_topic_max:"
                " raise the limit or lower the default"
            )
