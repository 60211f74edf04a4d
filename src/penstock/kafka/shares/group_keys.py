"""What is set for a share group, and what holds where nothing is.

Source: Kafka `GroupConfig` (share.record.lock.duration.ms, share.auto.offset.reset,
share.isolation.level).
"""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.broker.broker import Broker
from penstock.configs.group_keys import GROUP_CONFIGS

LOCK_KEY = "share.record.lock.duration.ms"
RESET_KEY = "share.auto.offset.reset"
ISOLATION_KEY = "share.isolation.level"


class ShareGroupKeys(NamedTuple):
    """Of one group, now."""

    lock_ms: int
    """How long a member has a record."""
    reset: str
    """Where a share begins: earliest, latest, or by_duration:PT1H and the like."""
    is_committed: bool
    """Whether records of open and aborted transactions are left out."""


def keys_of(broker: Broker, group: str) -> ShareGroupKeys:
    """Return what is set for a group, or the defaults."""
    kept = broker.share_places.group_keys(group)
    return ShareGroupKeys(
        int(_value(kept, LOCK_KEY)),
        _value(kept, RESET_KEY),
        _value(kept, ISOLATION_KEY) == "read_committed",
    )


def _value(kept: Mapping[str, str], key: str) -> str:
    value = kept.get(key)
    return GROUP_CONFIGS[key].default if value is None else value
