"""Times and limits of the sessions between brokers and controllers.

Settings for operators are in ControllerConfig, which every process has; the rest are constants with
their reasons.

Source: RocketMQ's controller mode (heartbeats each second, removal after some seconds), Kafka's
broker.heartbeat.interval.ms and broker.session.timeout.ms.
"""

from dataclasses import dataclass
from typing import Annotated, Self

from annotated_types import Ge, Le

from penstock.base.errors import ConfigError
from penstock.controller.config import ControllerConfig
from penstock.runtime.session.messages import FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """Settings of a broker's sessions; fields ending in `_ms` are milliseconds."""

    heartbeat_interval_ms: Annotated[int, Ge(10), Le(60_000)] = 1_000
    """How often a broker sends a heartbeat to every controller."""

    silence_ms: Annotated[int, Ge(20), Le(600_000)] = 5_000
    """Time without a heartbeat answer after which a controller is dialled anew."""

    dial_timeout_ms: Annotated[int, Ge(10), Le(60_000)] = 2_000
    """Time limit for connecting to a controller, including the handshake."""

    redial_min_ms: Annotated[int, Ge(1), Le(60_000)] = 100
    """Wait before the second attempt to reach a controller; it doubles with every failure."""

    redial_max_ms: Annotated[int, Ge(1), Le(60_000)] = 500
    """Longest wait between two attempts. A controller that returns and is elected before a broker
    has found it does not know that broker, and waits a whole session time-out for it."""

    command_timeout_ms: Annotated[int, Ge(100), Le(600_000)] = 30_000
    """Time limit for a change of metadata, including finding the active controller and replay here;
    below the 40 s and more that Kafka clients wait."""

    commands_max: Annotated[int, Ge(1), Le(100_000)] = 1_000
    """Changes of one broker in flight; further ones are refused at once."""

    frame_bytes_max: Annotated[int, Ge(1_024), Le(1 << 30)] = FRAME_BYTES_MAX
    """Largest message accepted from a controller: the status of a large cluster."""

    def __post_init__(self) -> None:
        """Check the relations between fields. Raises ConfigError."""
        if self.silence_ms < 2 * self.heartbeat_interval_ms:
            raise ConfigError("session.silence_ms must be twice session.heartbeat_interval_ms")
        if self.redial_min_ms > self.redial_max_ms:
            raise ConfigError("session.redial_min_ms must not be above session.redial_max_ms")

    @classmethod
    def of(cls, config: ControllerConfig) -> Self:
        """Return the settings that fit the controllers' session time-out."""
        return cls(
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            silence_ms=config.session_timeout_ms,
        )
