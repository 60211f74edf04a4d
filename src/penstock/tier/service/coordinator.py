"""The coordinator of the tier's metadata: commands in, answers out once they are in the log.

It is where the data is: the metadata of a replica set's objects is in an internal partition of that
set, so a master asks itself, and both logs have one fate. An answer may be missing: whoever asked
asks again, and a command that was done is answered as before.

Single owner, as the runtime: all calls come from one thread and nothing blocks.

Source: docs/adr/0121; docs/requirements.md T-2 to T-4. Kafka's RemoteLogMetadataManager over
`__remote_log_metadata` has no state machine at the writer, and so no fence.
"""

from collections.abc import Callable
from typing import TypeVar

from penstock.base.ports import Clock
from penstock.coordinator.journal import Journal
from penstock.coordinator.outbox import Later
from penstock.coordinator.runtime import CoordinatorRuntime, Foundation
from penstock.coordinator.unwritten import Unwritten
from penstock.tier.metadata.commands import Answer, Command, Tick
from penstock.tier.metadata.objects import Due
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.service.config import TierServiceConfig
from penstock.tier.service.shard import TierShard
from penstock.tier.service.table import Applied

A = TypeVar("A")


class TierCoordinator:
    """The tier's metadata of the sets that are led here."""

    def __init__(
        self,
        clock: Clock,
        journal: Journal,
        *,
        cluster_id: bytes,
        config: TierServiceConfig,
        later: Later | None = None,
    ) -> None:
        self._clock = clock
        self._shard = TierShard(lambda: TierMetadata(cluster_id, config.times, config.runs_max))
        self._base: Foundation[int] = Foundation(config.coordinator(), journal, later)
        self.runtime = CoordinatorRuntime(self._base, self._shard)

    def ask(
        self, partition: int, command: Command, reply: Callable[[Answer | Unwritten], None]
    ) -> None:
        """Apply a command in an internal partition; `reply` is called once.

        With an Unwritten nobody knows whether it was done: ask again, there or elsewhere.
        """
        self._do(partition, command, lambda _, answer: answer, reply)

    def metadata(self, partition: int) -> TierMetadata | None:
        """Return what is applied in an internal partition; None: it is not led here, or not loaded.

        It runs ahead of its log: nobody outside of this process may be told of it.
        """
        table = self._shard.by_partition.get(partition)
        return None if table is None or table.is_lost else table.metadata

    def due(self, partition: int, reply: Callable[[list[Due] | Unwritten], None]) -> None:
        """Tell what the store is to delete now; what a failover could undo is not among it."""
        self._do(partition, Tick(), lambda metadata, _: metadata.due(), reply)

    def _do(
        self,
        partition: int,
        command: Command,
        result_of: Callable[[TierMetadata, Answer], A],
        reply: Callable[[A | Unwritten], None],
    ) -> None:
        with self._base.outbox.holding():
            queued = self._base.outbox.wrap(reply)
            table = self._shard.by_partition.get(partition)
            if table is None or table.is_lost:
                queued(Unwritten.NOT_HERE if table is None else Unwritten.OVERTAKEN)
                return
            if self._base.writes.is_full:
                queued(Unwritten.LATE)
                return
            answer = table.metadata.apply(command, table.now_ms(self._clock))
            result = result_of(table.metadata, answer)

            def told(reason: Unwritten | None) -> None:
                queued(result if reason is None else reason)

            before = table.metadata.before()
            if before.is_anything:
                self._base.writes.append(partition, Applied(table, before), told)
            else:
                table.wait(told)
