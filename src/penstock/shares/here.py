"""The shares that are coordinated here: which can be used now, and why another can not.

    key ─► its partition ─► shown here? ─► lease of the mastership ─► read? ─► room? ─► its ledger

Of the memory that there is those that take most wait first:

    all shares take    less than half │ less than the bound │ more
    a large one            grows      │ goes on in the cells that it has
    another one            grows      │ grows               │ goes on in the cells that it has

A share that does not grow hands out what came back, and new records as far as its last cells go;
members without records give their numbers to new ones. It grows again when others have less.

Source: Kafka `SharePartitionManager.getOrCreateSharePartition`. Ours: the lease
(ADR 0096), and the bound of memory: Kafka bounds the number of shares and of records in flight.
"""

from collections.abc import Iterator
from dataclasses import replace

from penstock.coordinator.masterships import Masterships
from penstock.coordinator.partitions import Partitions
from penstock.shares.cells import CELLS
from penstock.shares.config import ShareConfig, SharePolicy
from penstock.shares.ledger import Ledger
from penstock.shares.messages import Groups, Unavailable
from penstock.shares.shard import ShareShard
from penstock.shares.share import Share
from penstock.shares.state import NO_EPOCH, ShareKey
from penstock.shares.table import Shares

SMALL_CHUNKS = 2
"""Most chunks of a share that is not large: a window of 4,096 offsets may touch two."""


class SharesHere:
    """Finds ledgers in the tables of the shown partitions, and makes new ones there."""

    __slots__ = ("_config", "_groups", "_masterships", "_partitions", "_shard")

    def __init__(
        self,
        config: ShareConfig,
        groups: Groups,
        partitions: Partitions,
        shard: ShareShard,
        masterships: Masterships,
    ) -> None:
        self._config = config
        self._groups = groups
        self._partitions = partitions
        self._shard = shard
        self._masterships = masterships

    def found(  # noqa: PLR0911  one answer for each reason
        self,
        key: ShareKey,
        *,
        makes: bool = False,
        is_question: bool = False,
        is_own: bool = False,
    ) -> tuple[Shares, Ledger] | Unavailable:
        """Return a share that can be used now, or why there is none.

        What the coordinator does of its own accord is only written, so that it needs no lease, and
        must not be dropped, so that it is not refused where too much waits for the log.
        """
        partition = self._groups.internal_partition_of(key)
        shares = None if partition is None else self._shard.by_partition.get(partition)
        if shares is None or partition is None:
            is_owned = partition is not None and self._partitions.state(partition) is not None
            return Unavailable.LOADING if is_owned else Unavailable.NOT_HERE
        if shares.is_lost or not (is_own or self._masterships.is_certain(partition)):
            return Unavailable.NOT_HERE
        if key in shares.unreadable:
            return Unavailable.UNREADABLE
        needs_room = not is_own and not is_question
        if needs_room and shares.tally.count >= self._config.updates_under_way_max:
            return Unavailable.FULL
        ledger = shares.ledgers.get(key)
        if ledger is None:
            if not makes:
                return Unavailable.NOT_STARTED
            is_crowded = self.memory_bytes >= self._config.memory_bytes_max
            if is_crowded or len(shares.ledgers) >= self._config.shares_max:
                return Unavailable.TOO_MANY
            ledger = shares.ledgers[key] = Ledger(_new_share(key), shares.tally)
        if ledger.share.tenure[0] == NO_EPOCH:
            ledger.share.begin_tenure(shares.epoch)
        return (shares, ledger) if ledger.has_room or not needs_room else Unavailable.FULL

    def shows(self, shares: Shares) -> bool:
        """Whether these are what is coordinated of their partition."""
        return self._shard.by_partition.get(shares.partition) is shares and not shares.is_lost

    def has(self, shares: Shares, ledger: Ledger) -> bool:
        """Whether the ledger is still that of its share."""
        return self.shows(shares) and shares.ledgers.get(ledger.share.key) is ledger

    def policy_of(self, ledger: Ledger) -> SharePolicy:
        """Return what a group asks for, within the memory that there is."""
        share, most = ledger.share, self._config.memory_bytes_max
        return _within(self._groups.policy_of(share.key), share, self.memory_bytes, most)

    def keys(self) -> Iterator[ShareKey]:
        """Yield the shares that are coordinated here."""
        for shares in [*self._shard.by_partition.values()]:
            yield from [*shares.ledgers]

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of all shares that are coordinated here."""
        return sum([one.tally.memory_bytes for one in self._shard.by_partition.values()])


def _new_share(key: ShareKey) -> Share:
    share = Share(key)
    share.is_live = True
    return share


def _within(policy: SharePolicy, share: Share, used_bytes: int, bytes_max: int) -> SharePolicy:
    """Return what a share may do while all shares together take so much memory."""
    is_large = len(share.chunks) > SMALL_CHUNKS
    if used_bytes < (bytes_max // 2 if is_large else bytes_max):
        return policy
    has_cells = share.base < share.end
    stop = -(-share.end // CELLS) * CELLS if has_cells else share.base
    return replace(
        policy,
        window_max=min(policy.window_max, stop - share.base),
        members_max=min(policy.members_max, len(share.members.names) - 1),
    )
