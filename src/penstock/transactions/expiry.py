"""Transactional ids that nobody has used for long are removed; an open transaction keeps its id.

Source: Kafka `TransactionStateManager.removeExpiredTransactionalIds`.
"""

from collections.abc import Callable

from penstock.coordinator.portions import TO_WRITE, Steps
from penstock.transactions.shard import TransactionShard
from penstock.transactions.table import IdTable

LOOKED_TOGETHER = 30
"""Ids that are looked at in one step of 10 us."""


def expire(
    shard: TransactionShard,
    oldest_ms: int,
    remove: Callable[[IdTable, str], None],
    *,
    is_full: Callable[[], bool],
) -> Steps:
    """Remove the ids that were last used before this wall time.

    None is removed while `is_full` says that no more writes are taken.
    """
    for partition, states in [*shard.by_partition.items()]:
        for number, name in enumerate([*states.values]):
            if number % LOOKED_TOGETHER == 0:
                yield 1
            if shard.by_partition.get(partition) is not states:
                break
            if _is_expired(states, name, oldest_ms) and not is_full():
                remove(states, name)
                yield TO_WRITE


def _is_expired(states: IdTable, name: str, oldest_ms: int) -> bool:
    one = states.values.get(name)
    if one is None or not one.is_idle or one.update_ms >= oldest_ms:
        return False
    return not states.is_in_flight(name)
