"""Partitions that a client creates, adds or deletes, counted against its quota topic by topic.

    newer versions    a topic beyond the quota is refused: THROTTLING_QUOTA_EXCEEDED
    older versions    every topic is taken, and the client is delayed

The delay is told by the reply (throttled.py). Dry runs do not count. Of topics with the default
number of partitions one is counted before, and the others once it is known how many there are.

Source: KIP-599; Kafka `ControllerMutationQuotaManager.newQuotaFor` (strict and permissive).
Departure: internal topics of streams groups, which are created on demand, are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from penstock.broker.errors import MutationQuotaExceeded
from penstock.kafka.throttled import buckets_of

if TYPE_CHECKING:
    from penstock.base.errors import PlatformError
    from penstock.kafka.context import RequestContext

Item = TypeVar("Item")


def owe(context: RequestContext, partitions: int) -> None:
    """Count partitions that were made, and not counted before."""
    table = context.broker.quotas
    if table is None or partitions <= 0:
        return
    now_ms = context.broker.clock.monotonic_ms()
    bucket = buckets_of(table, context, now_ms).mutations
    if bucket is not None:
        bucket.owe(partitions, now_ms)


def within_quota(
    context: RequestContext,
    items: Sequence[Item],
    refused: list[tuple[Item, PlatformError]],
    count: Callable[[Item], int],
    *,
    is_strict: bool,
) -> list[Item]:
    """Return what may be done; `refused` gets the rest. `count` returns an item's partitions."""
    table = context.broker.quotas
    if table is None:
        return list(items)
    clock = context.broker.clock
    bucket = buckets_of(table, context, clock.monotonic_ms()).mutations
    if bucket is None:
        return list(items)
    passed = []
    for item in items:
        partitions, now_ms = count(item), clock.monotonic_ms()
        if not is_strict:
            bucket.owe(partitions, now_ms)
        elif not bucket.take(partitions, now_ms):
            refused.append((item, MutationQuotaExceeded()))
            continue
        passed.append(item)
    return passed
