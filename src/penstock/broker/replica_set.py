"""A member of a replica set: the log, who has acknowledged it, and who waits for that.

    append ──► log.end_position ──► durable (fsync or page cache, by flush policy)
                                        │ acknowledge(self)
    purgatory ◄── confirm position ◄────┘   lowest over the sync-state set
    fetch waiters ◄── partitions that became readable

Two queues, because two promises are asked for: `acks=1` waits until the master itself has the
bytes as durable as the flush policy says, `acks=all` until the whole sync-state set has.

Source: architecture "Replica set: the rules"; RocketMQ confirm offset. Elections and the HA stream
are not here: this class is told its epoch and its members.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from penstock.base.ids import LeaderEpoch, Offset, Position, ReplicaId, ReplicaSetId
from penstock.broker.purgatory import AckQueue
from penstock.replication.confirm import ConfirmTracker
from penstock.replication.epochs import EpochHistory
from penstock.storage.partition_log import PartitionLog
from penstock.storage.set_log import SetLog


class Watched(Protocol):
    """A partition whose fetch waiters want to know when its end becomes readable."""

    def wake(self) -> None: ...


class ReplicaSetMember:
    """This broker's replica of one set; master of it while `leader_epoch` is the newest."""

    __slots__ = (
        "_own_id",
        "_visible",
        "confirm",
        "confirm_position",
        "epochs",
        "in_sync_count",
        "leader_epoch",
        "log",
        "on_fenced",
        "replica_set_id",
        "waiting_for_all",
        "waiting_for_master",
    )

    def __init__(self, replica_set_id: ReplicaSetId, own_id: ReplicaId, log: SetLog) -> None:
        self.replica_set_id = replica_set_id
        self.log = log
        self.leader_epoch = LeaderEpoch(-1)
        self.epochs = EpochHistory(log.epochs)
        self.confirm = ConfirmTracker((own_id,), Position(0))
        self.confirm_position = 0
        self.in_sync_count = 1
        self.waiting_for_all = AckQueue()
        self.waiting_for_master = AckQueue()
        self.on_fenced: Callable[[ReplicaSetMember, Exception], None] | None = None
        self._own_id = own_id
        self._visible: deque[tuple[int, Watched]] = deque()
        log.on_durable = self._on_durable
        log.on_fenced = self._on_log_fenced

    def begin_mastership(self, leader_epoch: LeaderEpoch, members: tuple[ReplicaId, ...]) -> None:
        """Become master: record the epoch, and confirm what the own log already holds.

        A new master raises the confirm position to its own log end (row H-26): cutting there
        would cut what an earlier master may have acknowledged. What of that is not durable yet
        is confirmed when it is.
        """
        self.log.begin_epoch(leader_epoch)
        start = Position(self.log.epochs[-1][1])
        self.epochs.begin(leader_epoch, start)
        self.leader_epoch = leader_epoch
        self.confirm = ConfirmTracker(members, Position(min(start, self.log.durable_position)))
        self.in_sync_count = len(members)
        self._confirmed(self.confirm.position)
        self._on_durable()

    def watch(self, end_position: int, partition: Watched) -> None:
        """Wake the partition's fetch waiters once `end_position` is confirmed."""
        if not self.log.is_fenced:
            self._visible.append((end_position, partition))

    def high_watermark(self, log: PartitionLog) -> Offset:
        """First offset (exclusive end) of the partition that is not confirmed yet."""
        if log.last_end_position <= self.confirm_position:
            return Offset(log.log_end_offset)
        return Offset(self.log.offset_at_position(log, self.confirm_position))

    def _on_durable(self) -> None:
        durable = self.log.durable_position
        self.waiting_for_master.release(durable)
        if self.confirm.acknowledge(self._own_id, Position(durable)):
            self._confirmed(self.confirm.position)

    def _confirmed(self, confirmed: int) -> None:
        self.confirm_position = confirmed
        self.waiting_for_all.release(confirmed)
        visible = self._visible
        while visible and visible[0][0] <= confirmed:
            visible.popleft()[1].wake()

    def _on_log_fenced(self, error: Exception) -> None:
        self.waiting_for_master.fail_all()
        self.waiting_for_all.fail_all()
        self._visible.clear()
        if self.on_fenced is not None:
            self.on_fenced(self, error)
