"""A member of a replica set: its log, the acknowledgements, and what waits for them.

    role       takes writes   confirm position                       parked requests
    master     yes (*)        held by enough members, see confirm    wait for it
    slave      no             the master's, up to the own end        refused: NOT_LEADER
    idle       no             stays                                  refused: NOT_LEADER

    (*) not while its writes are paused for a transfer: `is_master` is false then, `role` stays

    append ──► log.end_position ──► durable (fsync or page cache, by flush policy)
                                        │ acknowledge(self), acknowledge(slave)
    purgatory ◄── confirm position ◄────┘
    fetch waiters ◄── partitions that became readable

There are two queues, one for each guarantee: `acks=1` waits until the master itself has the bytes
as durable as the flush policy demands, `acks=all` until the policy of the set is met.

Source: ADR 0009; RocketMQ confirm offset. Elections and the links between members are elsewhere:
this class is given its role, its epoch and its members.
"""

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from penstock.base.ids import BrokerId, LeaderEpoch, Offset, Position, ReplicaSetId
from penstock.base.invariant import invariant
from penstock.replica.purgatory import AckQueue, Later
from penstock.replication.confirm import ConfirmTracker, Membership
from penstock.replication.epochs import EpochHistory
from penstock.replication.errors import NotEnoughReplicas, NotMaster
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.index.partition_log import PartitionLog

NO_MASTER = BrokerId(-1)


class Role(StrEnum):
    """The role of this broker in the set."""

    IDLE = "idle"
    """Neither: no role is known yet, or the last one was given up."""
    MASTER = "master"
    SLAVE = "slave"


class Watched(Protocol):
    """A partition to be woken when its end becomes readable."""

    def wake(self) -> None: ...


Listener = Callable[["ReplicaSetMember"], None]


class ReplicaSetMember:
    """This broker's replica of one set. Members are named by broker id.

    Listeners are called on the loop, after the state has changed:
    `on_role_changed`    each become_master, become_slave, resign: fetches must read again
    `on_reopened`        PartitionLog objects were replaced (late truncation, install):
                         look them up again in `log.partitions`
    `on_written`         the log has new bytes that may be sent; `on_confirmed`: the confirm
                         position moved; `on_durable`: log.durable_position moved
    """

    __slots__ = (
        "_pauses",
        "_visible",
        "_watched",
        "confirm",
        "confirm_position",
        "epochs",
        "has_resumed",
        "in_sync_count",
        "is_master",
        "leader_epoch",
        "log",
        "master_id",
        "may_confirm",
        "may_read",
        "on_confirmed",
        "on_durable",
        "on_fenced",
        "on_reopened",
        "on_role_changed",
        "on_written",
        "own_id",
        "replica_set_id",
        "role",
        "waiting_for_all",
        "waiting_for_master",
    )

    def __init__(
        self, replica_set_id: ReplicaSetId, own_id: BrokerId, log: SetLog, later: Later
    ) -> None:
        """`later`: calls a function in another iteration of the event loop."""
        self.replica_set_id = replica_set_id
        self.own_id = own_id
        self.log = log
        self.role = Role.IDLE
        self.is_master = False
        """Whether it takes writes: `role` is MASTER, and writes are not paused for a transfer. A
        master in transfer still confirms and serves reads and slaves: ask `role` about these."""
        self.has_resumed = False
        """As master: whether the log held bytes of this mastership before the role was taken. The
        metadata known here may then be older than the log."""
        self.master_id = NO_MASTER
        self.leader_epoch = LeaderEpoch(-1)
        self.epochs = EpochHistory(log.epochs)
        lone = Membership(replicas=(own_id,), committed=(own_id,))
        self.confirm = ConfirmTracker(lone, Position(0))
        self.confirm_position = log.confirmed_position
        self.in_sync_count = 1
        self.waiting_for_all = AckQueue(later)
        self.waiting_for_master = AckQueue(later)
        self.on_fenced: Callable[[ReplicaSetMember, Exception], None] | None = None
        self.on_role_changed: list[Listener] = []
        self.on_reopened: list[Listener] = []
        self.on_written: list[Listener] = []
        self.on_confirmed: list[Listener] = []
        self.on_durable: list[Listener] = []
        self.may_confirm: Callable[[], bool] | None = None
        """Under policies that need a lease: whether it is held. Set by its owner."""
        self.may_read: Callable[[], bool] | None = None
        """As master of a set with other members: whether no other can have been elected since."""
        self._pauses = 0
        self._visible: deque[tuple[Position, Watched]] = deque()
        self._watched: dict[Watched, Position] = {}
        """Newest position that each partition is queued for: who waits asks again at each wake."""
        self._refuse_parked()
        log.on_written = self._on_written
        log.on_durable = self._on_durable
        log.on_fenced = self._on_log_fenced
        log.on_reopened = self.reopened
        log.follow()

    def least_in_step(self, min_insync_replicas: int) -> int:
        """Return how many members must be in sync for a write with acks=all: the topic's setting,
        at most the set's size (as in Kafka: a default of 2 does not block topics of factor 1), or
        the policy of the set if that is more.
        """
        membership = self.confirm.membership
        return max(min(min_insync_replicas, len(membership.replicas)), membership.policy.minimum)

    def check_in_step(self, min_insync_replicas: int) -> None:
        """Check that a write with acks=all may begin. Raises NotEnoughReplicas."""
        least = self.least_in_step(min_insync_replicas)
        if self.in_sync_count < least:
            raise NotEnoughReplicas(self.in_sync_count, least)

    @property
    def epoch_start(self) -> Position:
        """Position at which the newest mastership in the log starts; 0 before the first."""
        return self.log.epochs[-1][1] if self.log.epochs else Position(0)

    def check_writable(self) -> None:
        """Raise NotMaster unless this broker accepts writes for the set now."""
        if not self.is_master:
            raise NotMaster(self._why_not_writable())

    def check_readable(self) -> None:
        """Raise NotMaster if a master cannot know whether it still is one."""
        if self.may_read is not None and not self.may_read():
            raise NotMaster(
                f"broker {self.own_id} was cut off from the others of set {self.replica_set_id}: "
                "another one may be its master by now"
            )

    def _why_not_writable(self) -> str:
        if self.role is Role.MASTER:
            return f"set {self.replica_set_id} is being handed over to another broker"
        if self.master_id == NO_MASTER:
            return f"set {self.replica_set_id} has no master that is known here"
        return f"the master of set {self.replica_set_id} is broker {self.master_id}"

    def become_master(self, leader_epoch: LeaderEpoch, membership: Membership) -> None:
        """Become master: record the epoch, and confirm what the own log already holds.

        A new master raises the confirm position to its own log end: truncating there would lose
        what an earlier master may have acknowledged. It does so at once if the own copy is enough
        by the policy, otherwise when enough members hold the log up to the new epoch's start. Being
        alone in sync is not enough under a quorum: the others may elect without it. Work as a slave
        must be finished: only this call may append.

        Raises OutOfSpace, LogFenced: the role is not taken.
        """
        invariant(self.own_id in membership.committed, "a master must be in step", me=self.own_id)
        has_resumed = self.log.leader_epoch == leader_epoch
        self.log.begin_epoch(leader_epoch)
        self.has_resumed = has_resumed
        self.log.is_sole_member = membership.replicas == (self.own_id,)
        start = self.log.epochs[-1][1]
        self.epochs = EpochHistory(self.log.epochs)
        known = self.confirm_position
        if membership.is_enough(self.own_id):
            known = max(known, min(start, self.log.durable_position))
        self.confirm = ConfirmTracker(membership, known, epoch_start=start)
        self.leader_epoch = leader_epoch
        self.master_id = self.own_id
        self.in_sync_count = len(membership.committed)
        self.role = Role.MASTER
        self.is_master = True
        self.waiting_for_master.open(self.log.durable_position)
        self.waiting_for_all.open(known)
        self._set_confirmed(known)
        self._on_durable()
        self._tell(self.on_role_changed)

    def become_slave(self, leader_epoch: LeaderEpoch, master_id: BrokerId) -> None:
        """Follow another master: refuse parked requests and writes, let fetches read again."""
        self.log.is_sole_member = False
        self.log.follow()
        self._end_role(Role.SLAVE, leader_epoch, master_id)

    def resign(self, leader_epoch: LeaderEpoch | None = None) -> None:
        """Give up any role, as in a set without a known master."""
        newest = self.leader_epoch if leader_epoch is None else leader_epoch
        self._end_role(Role.IDLE, newest, NO_MASTER)

    def _end_role(self, role: Role, leader_epoch: LeaderEpoch, master_id: BrokerId) -> None:
        invariant(leader_epoch >= self.leader_epoch, "leader epoch went back", to=leader_epoch)
        self.role = role
        self.is_master = False
        self.may_confirm = None
        self.may_read = None
        self.leader_epoch = leader_epoch
        self.master_id = master_id
        self.log.follow()
        self._refuse_parked()
        self._wake_all()
        self._tell(self.on_role_changed)

    def _refuse_parked(self) -> None:
        error = NotMaster(self._why_not_writable())
        self.waiting_for_master.refuse_all(error)
        self.waiting_for_all.refuse_all(error)

    def pause_writes(self) -> int:
        """Accept no writes for now: the mastership is about to be transferred.

        The log takes none from others either, as from retention: the next master begins behind the
        end that it has now. Returns the number to resume with; if another pause has begun since, it
        has no effect.
        """
        assert self.role is Role.MASTER, self.role
        self.is_master = False
        self.log.follow()
        self._pauses += 1
        return self._pauses

    def resume_writes(self, pause: int) -> None:
        """Accept writes again after a failed transfer, unless another pause has begun."""
        if pause == self._pauses and self.role is Role.MASTER:
            self.log.begin_epoch(self.leader_epoch)  # as it has begun, so it takes appends again
            self.is_master = True

    def change_members(self, membership: Membership) -> None:
        """Use another sync-state set, or one that may have been recorded. Master only.

        A set of the master alone that gets a member counts both from here on: its log marks as
        confirmed, and includes in snapshots, only what both hold.
        """
        assert self.role is Role.MASTER
        invariant(self.own_id in membership.committed, "a master stays in step", me=self.own_id)
        self.log.is_sole_member = membership.replicas == (self.own_id,)
        earlier, self.in_sync_count = self.in_sync_count, len(membership.committed)
        asks_more = self._asks_more(membership)
        if self.in_sync_count < earlier:
            self.waiting_for_all.shrunk(self.in_sync_count)
        is_more_reached = self.confirm.change_members(membership)
        if asks_more:
            self.waiting_for_all.shrunk(self.in_sync_count)
        if is_more_reached:
            self.confirm_reached()

    def _asks_more(self, membership: Membership) -> bool:
        """Whether `least_in_step` may be greater with this membership than with the present one."""
        known = self.confirm.membership
        is_larger = len(membership.replicas) > len(known.replicas)
        return is_larger or membership.policy.minimum > known.policy.minimum

    def acknowledge(self, broker_id: BrokerId, position: Position) -> None:
        """Note that a slave holds the log durably up to `position` (exclusive)."""
        assert self.role is Role.MASTER
        if self.confirm.acknowledge(broker_id, position):
            self.confirm_reached()

    def confirm_reached(self) -> None:
        """Master: confirm what enough members hold, unless a lease is needed and not held."""
        reached = self.confirm.position
        if reached <= self.confirm_position or self.role is not Role.MASTER:
            return
        if self.may_confirm is None or self.may_confirm():
            self._set_confirmed(reached)

    def note_master_confirmed(self, position: Position) -> None:
        """Slave: the master has confirmed the log up to `position` (exclusive)."""
        assert self.role is not Role.MASTER
        if self.log.leader_epoch != self.epochs.latest:
            self.epochs = EpochHistory(self.log.epochs)
        confirmed = min(position, self.log.end_position)
        if confirmed > self.confirm_position:
            self._set_confirmed(confirmed)

    def reopened(self) -> None:
        """Adopt a log that was truncated or replaced: read offsets and epochs again."""
        invariant(self.role is not Role.MASTER, "a master's log is never cut")
        self.epochs = EpochHistory(self.log.epochs)
        self.confirm_position = min(self.confirm_position, self.log.end_position)
        self._tell(self.on_reopened)
        self._wake_all()

    def watch(self, end_position: Position, partition: Watched) -> None:
        """Wake the partition's fetch waiters once `end_position` is confirmed."""
        if not self.log.is_fenced and self._watched.get(partition) != end_position:
            self._watched[partition] = end_position
            self._visible.append((end_position, partition))

    def high_watermark(self, log: PartitionLog) -> Offset | None:
        """First offset (exclusive end) of the partition that is not confirmed yet.

        None if memory can not tell: `log.find_offset_at(.., confirm_position, ..)` asks the disk.
        """
        if log.last_end_position <= self.confirm_position:
            return log.log_end_offset
        return self.log.known_offset_at(log, self.confirm_position)

    def _on_written(self) -> None:
        self._tell(self.on_written)

    def _on_durable(self) -> None:
        durable = self.log.durable_position
        if self.role is Role.MASTER:
            self.waiting_for_master.release(durable)
            if self.confirm.acknowledge(self.own_id, durable):
                self.confirm_reached()
        self._tell(self.on_durable)

    def _set_confirmed(self, confirmed: Position) -> None:
        log_end = self.log.end_position
        invariant(confirmed <= log_end, "only what the log has is confirmed", at=confirmed)
        self.confirm_position = confirmed
        self.log.note_confirmed(confirmed)
        if self.role is Role.MASTER:
            self.waiting_for_all.release(confirmed)
        self._wake_readable()
        self._tell(self.on_confirmed)

    def _wake_readable(self) -> None:
        """Wake each partition that has more confirmed bytes, once."""
        visible, watched = self._visible, self._watched
        if not visible:
            return
        readable: dict[Watched, None] = {}
        while visible and visible[0][0] <= self.confirm_position:
            end_position, partition = visible.popleft()
            readable[partition] = None
            if watched.get(partition) == end_position:
                del watched[partition]
        for partition in readable:
            partition.wake()

    def _wake_all(self) -> None:
        """Wake everything that waits for bytes that may never be confirmed."""
        visible, self._visible = self._visible, deque()
        self._watched.clear()
        for partition in dict.fromkeys(partition for _, partition in visible):
            partition.wake()

    def _tell(self, listeners: list[Listener]) -> None:
        for listener in listeners:
            listener(self)

    def _on_log_fenced(self, error: Exception) -> None:
        self.waiting_for_master.fail_all()
        self.waiting_for_all.fail_all()
        self._visible.clear()
        self._watched.clear()
        if self.on_fenced is not None:
            self.on_fenced(self, error)
