"""What every measured broker has in common, whoever made it."""

from typing import Protocol


class Broker(Protocol):
    """A running broker: NodeProcess, StubProcess or KafkaProcess."""

    bootstrap: str

    def cpu_seconds(self) -> float:
        """Return the CPU time of its process so far."""
