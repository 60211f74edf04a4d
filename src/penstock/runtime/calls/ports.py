"""What calls need of the node, their limits and their counters."""

from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.base.ids import BrokerId, SessionId
from penstock.base.ports import Clock, Scheduler
from penstock.controller.metadata.image import ClusterImage
from penstock.net.peer import PeerSecurity
from penstock.replication.config import ReplicationConfig


class CallLimits(NamedTuple):
    """Bounds for each broker that is asked, and for each that asks."""

    in_flight: int = 64
    """Calls sent to a broker and not answered yet."""
    queued: int = 1_000
    """Calls that wait for a link, or for earlier ones; one more is refused."""
    served: int = 64
    """Questions of one broker that are worked on at a time; its link is not read meanwhile."""
    served_ms: int = 60_000
    """The longest time that a handler may take."""


USUAL_LIMITS = CallLimits()


@dataclass(slots=True)
class CallStats:
    """Counters for the metrics page."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(question, outcome) -> calls of this broker."""
    in_flight: Counter[str] = field(default_factory=Counter)
    """Question -> calls of this broker that wait for an answer, sent or not."""
    served: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(question, outcome) -> questions that this broker was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPorts:
    """The node, as calls see it."""

    broker_id: BrokerId
    image: ClusterImage
    config: ReplicationConfig
    """Times of links are those of replication."""
    clock: Clock
    scheduler: Scheduler
    security: PeerSecurity
    spawn: Callable[[str, Coroutine[Any, Any, None]], None]
    """Runs a coroutine under supervision (Supervisor.run_once)."""
    new_session_id: Callable[[], SessionId]
    limits: CallLimits = USUAL_LIMITS
    stats: CallStats = field(default_factory=CallStats)

    def address_of(self, broker_id: BrokerId) -> tuple[str, int] | None:
        """Return the replication address that a broker is registered with."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None or not broker.ha_port else (broker.ha_host, broker.ha_port)
