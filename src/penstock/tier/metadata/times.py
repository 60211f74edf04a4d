"""How long things of the tier may take. All of its safety in time rests on these four.

Source: docs/adr/0117.
"""

from dataclasses import dataclass

from penstock.base.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTimes:
    """Times in ms, the same for all members of a cluster."""

    upload_ms: int = 600_000
    """From the reservation of an id to the end of its upload. A large object over a slow line."""
    skew_ms: int = 300_000
    """For how long after that a put may still be under way: what the store and the network hold."""
    lease_ms: int = 1_800_000
    """For how long a reader uses a manifest that it has read."""
    grace_ms: int = 3_600_000
    """For how long an object stays in the store after its last run is gone."""

    def __post_init__(self) -> None:
        if min(self.upload_ms, self.skew_ms, self.lease_ms) < 1:
            raise ConfigError("the times of the tier are at least 1 ms")
        if self.grace_ms <= self.lease_ms:
            raise ConfigError(
                f"objects must stay for longer ({self.grace_ms} ms) than readers use what they "
                f"know of them ({self.lease_ms} ms)"
            )
