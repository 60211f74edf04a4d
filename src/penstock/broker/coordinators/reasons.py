"""What an error of an append means for a write of the group coordinator."""

from collections.abc import Sequence

from penstock.base.errors import PlatformError
from penstock.broker.errors import InvalidTransaction, VerificationRefused
from penstock.coordinator.unwritten import Unwritten
from penstock.replication.errors import (
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    ReplicationError,
)
from penstock.storage.errors import BatchTooLargeForLog, LogBusy, LogFollows, ProducerFenced

_REASONS: Sequence[tuple[tuple[type[PlatformError], ...], Unwritten]] = (
    ((NotEnoughReplicas, NotEnoughReplicasAfterAppend), Unwritten.TOO_FEW_IN_STEP),
    ((ReplicationError, LogBusy, LogFollows), Unwritten.OVERTAKEN),
    ((BatchTooLargeForLog,), Unwritten.TOO_LARGE),
    ((ProducerFenced,), Unwritten.FENCED),
    ((InvalidTransaction, VerificationRefused), Unwritten.NOT_IN_TRANSACTION),
    ((PlatformError,), Unwritten.FAILED),
)
"""The first match counts."""


def reason_of(error: PlatformError) -> Unwritten:
    """Return why a write that raised `error` is not confirmed."""
    return next(reason for kinds, reason in _REASONS if isinstance(error, kinds))
