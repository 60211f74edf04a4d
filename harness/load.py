"""How much a workload writes, where to, and how patient its clients are."""

import random
from dataclasses import dataclass

from harness.login import Login
from simulator.history import Rules

FINAL_READER = "final"
"""The consumer that reads everything once more in the end."""


@dataclass(slots=True, kw_only=True)
class Load:
    """How much is written, and where to."""

    topic: str = "history"
    partitions: int = 3
    producers: int = 2
    records_per_second: int = 2000
    """Of each producer."""
    value_bytes: int = 200
    seed: int = 1
    name_prefix: str = "p"
    """Of the producers; two workloads of one topic need two."""
    is_idempotent: bool = True
    has_retries: bool = True
    """False: whatever a broker refuses once counts as failed. Not with idempotence."""
    socket_timeout_ms: int = 10_000
    """How long a client waits for an answer. Nothing else tells it that its broker hangs."""
    metadata_ms: int = 300_000
    """How often clients ask who leads, when nobody tells them anything."""
    batch_bytes_max: int = 1_000_000
    """Of librdkafka; a batch that does not fit into a segment would be refused."""
    direct_brokers: tuple[str, ...] = ()
    """Addresses of brokers that get a reader each which stays with them."""
    stale_seconds_max: float = 0.0
    """How long before a read something must have been acknowledged for the read to have to show
    it."""
    lag_seconds_max: float | None = None
    """Within how long a reader gets what is acknowledged, faults included; None: nobody looks."""

    login: Login | None = None
    """How clients come in; None: by a plain listener. Readers of `direct_brokers` use that."""

    def rules(self) -> Rules:
        """Return what the judge holds a history of this load against."""
        lag = self.lag_seconds_max
        return Rules(
            final_reader=FINAL_READER,
            stale_ns_max=int(self.stale_seconds_max * 1e9),
            lag_ns_max=None if lag is None else int(lag * 1e9),
        )

    def librdkafka(self) -> dict[str, object]:
        """Return the settings by which librdkafka comes in."""
        return {} if self.login is None else self.login.librdkafka()

    def python(self) -> dict[str, object]:
        """Return the same as arguments of kafka-python and aiokafka."""
        return {} if self.login is None else self.login.python()

    def padded(self, value: str, chooser: random.Random) -> str:
        """Return the record's whole value: what it is known by, and some more."""
        return value + "." + "x" * chooser.randrange(self.value_bytes)
