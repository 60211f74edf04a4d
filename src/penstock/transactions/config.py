"""Limits and times of the transaction coordinator.

Fields ending in `_ms` are milliseconds. Source: Kafka's broker settings, named with each field.
"""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """The coordinator of transactions of one broker."""

    partition_count: Annotated[int, Ge(1), Le(1_000)] = 16
    """Partitions of the internal topic; fixed once it exists.
    (transaction.state.log.num.partitions; 50)"""

    timeout_max_ms: Annotated[int, Ge(1)] = 900_000
    """Longest time that a producer may ask for before its transaction is aborted; a longer one is
    refused with INVALID_TRANSACTION_TIMEOUT. (transaction.max.timeout.ms)"""

    id_expiration_ms: Annotated[int, Ge(1)] = 7 * 24 * 3_600 * 1_000
    """How long an id without an open transaction is kept after its last use.
    (transactional.id.expiration.ms)"""

    expiry_check_interval_ms: Annotated[int, Ge(1)] = 3_600_000
    """How often ids are checked. (transaction.remove.expired.transaction.cleanup.interval.ms)"""

    ids_max: Annotated[int, Ge(1)] = 100_000
    """Transactional ids of this coordinator, some 800 bytes each and their names; further ones are
    refused with POLICY_VIOLATION."""

    ids_bytes_max: Annotated[int, Ge(1)] = 96 * 1024 * 1024
    """Memory of these ids together, in bytes; further ones are refused with POLICY_VIOLATION. It is
    enough for `ids_max` of them with names of 200 characters."""

    id_bytes_max: Annotated[int, Ge(1), Le(32_767)] = 1_024
    """Longest transactional id; a longer one is refused with
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""

    partitions_max: Annotated[int, Ge(1), Le(5_000)] = 5_000
    """Partitions of one transaction; more are refused with POLICY_VIOLATION."""

    partitions_together_max: Annotated[int, Ge(1)] = 100_000
    """Partitions of all open transactions of this coordinator together, some 300 bytes each; a
    transaction that would exceed it is told COORDINATOR_NOT_AVAILABLE, and clients retry."""

    retry_ms: Annotated[int, Ge(1)] = 1_000
    """Pause before a record that ends a transaction is written again, after it was refused."""

    writes_in_flight_max: Annotated[int, Ge(1)] = 20_000
    """Journal writes not yet confirmed; more are refused with COORDINATOR_NOT_AVAILABLE."""

    rewrite_after_bytes: Annotated[int, Ge(1)] = 16 * 1024 * 1024
    """A partition of the internal topic is rewritten when it has grown by this much, and by as much
    as its live records take."""

    rewrite_after_pinned_bytes: Annotated[int, Ge(1)] = 64 * 1024 * 1024
    """Partitions are also rewritten when they alone keep closed log files of this total size."""

    unread_bytes_max: Annotated[int, Ge(0)] = 16 * 1024 * 1024
    """Records of one partition that this version cannot read, kept in memory for rewrites."""
