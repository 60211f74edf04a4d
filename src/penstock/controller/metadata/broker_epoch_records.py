"""The record of the highest broker epoch that left with a removed broker.

Broker epochs of registered brokers stand with them. That of a removed one would be given out again,
and whoever still speaks of the removed registration would be taken to speak of the new one. The
kind may be carried: a release that does not know it gives out epochs above the registered ones.

Source: KIP-631, where a broker epoch is the offset of its record, so never the same again.
"""

from dataclasses import dataclass
from typing import ClassVar

from penstock.base.ids import BrokerEpoch
from penstock.controller.metadata.kinds import RecordKind
from penstock.controller.metadata.levels import CARRIED_LEVEL

REMOVED_BROKERS = "removed-brokers"
"""The only key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEpochReached:
    """Registrations from here on have epochs above `broker_epoch`."""

    KIND: ClassVar = RecordKind.BROKER_EPOCH_REACHED
    LEVEL: ClassVar = CARRIED_LEVEL
    key: str
    broker_epoch: BrokerEpoch
