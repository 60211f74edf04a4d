"""What takes the metrics of clients, as those see it who hand them over and who tell its numbers.

Source: KIP-714.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from penstock.audit.row import Who
from penstock.telemetry.instances import Instances
from penstock.telemetry.subscriptions import Asked


class Push(NamedTuple):
    """What a client sends."""

    instance_id: UUID | None
    subscription_id: int
    is_last: bool
    codec: int
    metrics: bytes


class MetricsSink(Protocol):
    """Numbers of rows are since the start."""

    bytes_max: int
    """Of a push, packed and unpacked."""
    instances: Instances
    results: dict[tuple[str, str], int]
    """By request (get, push) and result, how many since the start."""

    @property
    def written(self) -> int:
        """Rows confirmed."""

    @property
    def dropped(self) -> int:
        """Rows that found no room."""

    @property
    def is_stuck(self) -> bool:
        """Whether rows wait and no partition for them is led here."""

    @property
    def pinned_bytes(self) -> int:
        """What clients pin here, approximately."""

    def __len__(self) -> int:
        """Return how many rows wait."""

    def get(self, given: UUID | None, client: Mapping[str, str]) -> tuple[UUID, Asked]:
        """Return the id of a client instance and what is asked of it. Raises TelemetryError."""

    async def push(self, push: Push, who: Who, client: Mapping[str, str], pace: Any) -> None:
        """Take what a client sends; `pace` gives others a turn. Raises TelemetryError."""

    def expire(self, now_ms: int) -> None:
        """Forget instances that are idle, and write some of what waits."""

    def end(self) -> None:
        """Write what waits, as the process stops."""
