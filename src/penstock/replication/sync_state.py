"""Who is in step: how the master judges its slaves, and the changes that it asks for.

    leaves   no connection for longer than the grace ─ not caught up for replica_lag_time_ms
             ─ further behind than replica_lag_bytes ─ found dead by the controllers
             ─ back with less than it had acknowledged (policy `all`)
    joins    holds the confirm position ─ and the start of the present mastership ─ and over all
             its stores what the master keeps

    judged ──► Change(both epochs) ──► controllers ──► recorded in the image ──► committed set
                  └─ from here on the proposed set counts as well, see confirm.py

One change at a time. Every attempt is judged anew, after a pause that doubles. A change of unknown
outcome stays proposed, whatever becomes of later ones, until the image shows another epoch:
otherwise positions would be confirmed without a member that may have been recorded. If nothing is
to change any more while such a change may still be recorded, the current set is requested again:
its new epoch voids the others.

A change names the log and the process of each member that joins, as they were when it was judged.
What an earlier log or process of a member held says nothing about the current one (KIP-903).

Under `adaptive` a smaller set needs fewer answers in an election. So enough of the members that
stay must hold the confirmed position; if too few do, those that do not hold it leave too.

Source: RIP-44 and RocketMQ's AutoSwitchHAService (#7219, #9897: one owner, no thread of its own;
the flag that a failed request left set); Kafka's lastCaughtUpTimeMs; KIP-497; KIP-903. It neither
sends nor measures: times and positions are arguments.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import NamedTuple

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Position,
    ReplicaId,
    SyncStateSetEpoch,
)
from penstock.base.invariant import invariant
from penstock.replication.config import ReplicationConfig
from penstock.replication.confirm import START, Membership

BACKOFF_STEPS_MAX = 4
OPEN_MAX = 8
"""Different sets that may still be recorded. With so many, only the current set is requested."""
NO_REPLICA = ReplicaId(-1)
NOT_HEARD = Position(-1)
NO_IDS: Mapping[BrokerId, ReplicaId] = MappingProxyType({})


class Recorded(NamedTuple):
    """What the controllers have recorded of a set."""

    replicas: tuple[BrokerId, ...]
    sync_state_set: tuple[BrokerId, ...]
    sync_state_set_epoch: SyncStateSetEpoch
    policy: AckPolicy
    replica_ids: Mapping[BrokerId, ReplicaId] = NO_IDS
    """The log of each member that has registered one."""


class Process(NamedTuple):
    """A broker's process as the controllers have registered it."""

    incarnation: str
    broker_epoch: BrokerEpoch


ProcessOf = Callable[[BrokerId], Process | None]


class Joining(NamedTuple):
    """A member to be added to the recorded set, by the log and process that were judged."""

    broker_id: BrokerId
    replica_id: ReplicaId
    broker_epoch: BrokerEpoch


class Change(NamedTuple):
    """Ask the controllers to record this set, if both epochs are still current."""

    leader_epoch: LeaderEpoch
    sync_state_set_epoch: SyncStateSetEpoch
    sync_state_set: tuple[BrokerId, ...]
    joining: tuple[Joining, ...] = ()


class Outcome(Enum):
    """What became of a change, according to its answer."""

    RECORDED = auto()
    """The image will show it."""
    STALE = auto()
    """Another set, maybe this one asked for earlier, was recorded: the image will show it."""
    REFUSED = auto()
    """The controller decided against it."""
    NOT_TAKEN = auto()
    """No controller decided on it. Like a refusal it says nothing about an earlier attempt."""
    UNKNOWN = auto()
    """No answer: it may still be recorded."""


class MasterView(NamedTuple):
    """Positions of the master's own log."""

    kept_from: Position
    """Below it (exclusive) the master keeps nothing, in no store."""
    log_end: Position
    confirm_position: Position
    epoch_start: Position


@dataclass(slots=True)
class Slave:
    """What the master knows of one slave in this mastership."""

    replica_id: ReplicaId = NO_REPLICA
    """Log (`replica_id`) and process (`incarnation`) of its last handshake."""
    incarnation: str = ""
    acknowledged: Position = NOT_HEARD
    """Durable end (exclusive) since its last handshake; -1 before that."""
    whole_from: Position = START
    """From where on (inclusive) it has what the set keeps, whatever store has it."""
    is_connected: bool = False
    gone_ms: int = 0
    """When its connection was lost, or the mastership began."""
    grace_ms: int = 0
    caught_up_ms: int = 0
    """The last time at which it held everything that the master then had."""
    mark_position: Position = START
    mark_ms: int = 0
    """The master's end at `mark_ms`. Once it acknowledges this, the slave was caught up then."""


class SyncStateKeeper:
    """Judges slaves for one mastership. `membership` is what positions are confirmed by."""

    def __init__(
        self,
        own_id: BrokerId,
        recorded: Recorded,
        *,
        leader_epoch: LeaderEpoch,
        config: ReplicationConfig,
        now_ms: int,
    ) -> None:
        """Begin a mastership: all recorded members count as in step, with time to connect."""
        self._own_id = own_id
        self._leader_epoch = LeaderEpoch(leader_epoch)
        self._config = config
        self._recorded = recorded
        self._open: tuple[tuple[BrokerId, ...], ...] = ()
        """Sets that were requested and may still be recorded, without the recorded one."""
        self._asked: tuple[BrokerId, ...] | None = None
        """The requested set whose answer is awaited."""
        self._was_open = False
        """Whether an earlier request for that set may still be recorded."""
        self._asked_epoch = recorded.sync_state_set_epoch
        self._is_answered = False
        self._retry_at_ms = now_ms
        self._failures = 0
        self.slaves: dict[BrokerId, Slave] = {}
        self._made: tuple[tuple[Recorded, tuple[tuple[BrokerId, ...], ...]], Membership]
        self._made = (recorded, ()), _membership(recorded, ())
        """What `membership` was last made of, and the result: every read of a client needs it."""
        self._follow_replicas(now_ms)

    @property
    def membership(self) -> Membership:
        """The sets that positions are confirmed by; the same object until they change."""
        recorded, proposed = self._recorded, self._open
        made_of, membership = self._made
        if made_of[0] is not recorded or made_of[1] is not proposed:
            membership = _membership(recorded, proposed)
            self._made = (recorded, proposed), membership
        return membership

    def greeted(self, broker_id: BrokerId) -> None:
        """Note a slave's Hello: what it holds is not known until it follows.

        It may be about to copy the log anew. It stays in the set until its grace time is over.
        """
        slave = self.slaves.get(broker_id)
        if slave is not None:
            slave.acknowledged = NOT_HEARD

    def connected(  # noqa: PLR0913  what a handshake says
        self,
        broker_id: BrokerId,
        *,
        replica_id: ReplicaId,
        incarnation: str,
        whole_from: Position,
        position: Position,
        log_end: Position,
        now_ms: int,
    ) -> None:
        """Note the end of a handshake: the slave holds the log durably up to `position`."""
        slave = self.slaves.get(broker_id)
        if slave is None:
            return
        invariant(position <= log_end, "a slave begins inside its master's log", at=position)
        slave.replica_id, slave.incarnation = ReplicaId(replica_id), incarnation
        slave.is_connected = True
        slave.whole_from = whole_from
        slave.acknowledged = position
        slave.mark_position, slave.mark_ms = log_end, now_ms

    def disconnected(self, broker_id: BrokerId, now_ms: int) -> None:
        """Note that a slave's connection is closed."""
        slave = self.slaves.get(broker_id)
        if slave is not None and slave.is_connected:
            slave.is_connected = False
            slave.gone_ms = now_ms
            slave.grace_ms = self._config.disconnect_grace_ms

    def acknowledged(
        self, broker_id: BrokerId, position: Position, log_end: Position, now_ms: int
    ) -> None:
        """Note that a slave is durable up to `position` while the master ends at `log_end`."""
        slave = self.slaves.get(broker_id)
        if slave is None:
            return
        invariant(position <= log_end, "a slave holds no more than its master", at=position)
        slave.acknowledged = position
        self._follow_up(slave, log_end, now_ms)

    def recorded(self, recorded: Recorded, now_ms: int) -> tuple[BrokerId, ...]:
        """Take over the recorded set; requests with an older epoch are void.

        Returns the brokers that have another log by now, or are no members any more: nothing that
        they acknowledged counts.
        """
        invariant(self._own_id in recorded.sync_state_set, "a master is in step", me=self._own_id)
        before, after = self._recorded.sync_state_set_epoch, recorded.sync_state_set_epoch
        invariant(after >= before, "a recorded set is not older", before=before, after=after)
        if after != before:
            self._open = ()
            self._is_answered = False
            self._failures = 0
        self._recorded = recorded
        replaced = tuple(
            broker_id
            for broker_id, slave in self.slaves.items()
            if slave.replica_id not in {NO_REPLICA, recorded.replica_ids.get(broker_id)}
        )
        for broker_id in replaced:
            del self.slaves[broker_id]
        self._follow_replicas(now_ms)
        return replaced

    def answered(self, outcome: Outcome, now_ms: int) -> None:
        """Take the answer to the last change."""
        assert self._asked is not None, "one answer for each change"
        asked, self._asked = self._asked, None
        if outcome is Outcome.RECORDED:
            self._is_answered = self._asked_epoch == self._recorded.sync_state_set_epoch
            return
        if outcome in {Outcome.REFUSED, Outcome.NOT_TAKEN} and not self._was_open:
            self._open = tuple(members for members in self._open if members != asked)
        pause_ms = self._config.change_retry_ms << min(self._failures, BACKOFF_STEPS_MAX)
        self._failures += 1
        self._retry_at_ms = now_ms + pause_ms

    def next_change(
        self,
        view: MasterView,
        now_ms: int,
        *,
        unwanted: Collection[BrokerId] = (),
        dead: Collection[BrokerId] = (),
        process_of: ProcessOf,
    ) -> Change | None:
        """Return a change to request now, or None. Its answer must be given to `answered`.

        `unwanted` brokers do not join: they are being drained. `dead` brokers do not join and have
        to leave: the controllers would not elect them. `process_of` returns the process that the
        controllers have registered for a broker.
        """
        for slave in self.slaves.values():
            if slave.is_connected:
                self._follow_up(slave, view.log_end, now_ms)
        if self._asked is not None or self._is_answered or now_ms < self._retry_at_ms:
            return None
        present = tuple(sorted(self._recorded.sync_state_set))
        barred = {*unwanted, *dead, *self._unregistered(process_of)}
        wanted = self._judge(view, now_ms, barred, dead)
        if len(self._open) >= OPEN_MAX and wanted not in self._open:
            wanted = present
        if wanted == present and not self._open:
            return None
        self._asked, self._was_open = wanted, wanted in self._open
        if wanted != present and not self._was_open:
            self._open = (*self._open, wanted)
        invariant(self._own_id in wanted, "a master asks for a set with itself", wanted=wanted)
        epoch = SyncStateSetEpoch(self._recorded.sync_state_set_epoch)
        self._asked_epoch = epoch
        return Change(self._leader_epoch, epoch, wanted, self._joining(wanted, process_of))

    def is_in_step(self, broker_id: BrokerId) -> bool:
        """Whether the recorded sync-state set has this broker."""
        return broker_id in self._recorded.sync_state_set

    def _judge(
        self,
        view: MasterView,
        now_ms: int,
        barred: Collection[BrokerId],
        dead: Collection[BrokerId],
    ) -> tuple[BrokerId, ...]:
        recorded = self._recorded.sync_state_set
        wanted = [self._own_id]
        for broker_id, slave in self.slaves.items():
            if broker_id in recorded:
                stays = broker_id not in dead and self._stays(slave, view, now_ms)
            else:
                stays = broker_id not in barred and self._may_join(slave, view)
            if stays:
                wanted.append(broker_id)
        if self._recorded.policy.kind is PolicyKind.ADAPTIVE:
            wanted = list(self._safe_under_adaptive(wanted, view))
        return tuple(sorted(wanted))

    def _unregistered(self, process_of: ProcessOf) -> Iterator[BrokerId]:
        """Yield the slaves whose log or process is not the one that the controllers know."""
        for broker_id, slave in self.slaves.items():
            process = process_of(broker_id)
            is_known = process is not None and process.incarnation == slave.incarnation
            if not is_known or slave.replica_id != self._recorded.replica_ids.get(broker_id):
                yield broker_id

    def _joining(self, wanted: tuple[BrokerId, ...], process_of: ProcessOf) -> tuple[Joining, ...]:
        joining = []
        for broker_id in wanted:
            process = process_of(broker_id)
            if broker_id not in self._recorded.sync_state_set and process is not None:
                replica_id = self.slaves[broker_id].replica_id
                joining.append(
                    Joining(BrokerId(broker_id), replica_id, BrokerEpoch(process.broker_epoch))
                )
        return tuple(joining)

    def _stays(self, slave: Slave, view: MasterView, now_ms: int) -> bool:
        config = self._config
        if not slave.is_connected and now_ms - slave.gone_ms >= slave.grace_ms:
            return False
        if now_ms - slave.caught_up_ms >= config.replica_lag_time_ms:
            return False
        has_lost = 0 <= slave.acknowledged < view.confirm_position
        if has_lost and self._recorded.policy.kind is PolicyKind.ALL:
            return False
        lag = view.log_end - max(slave.acknowledged, 0)
        is_known = slave.acknowledged >= 0 and config.replica_lag_bytes > 0
        return not is_known or lag <= config.replica_lag_bytes

    @staticmethod
    def _may_join(slave: Slave, view: MasterView) -> bool:
        return (
            slave.is_connected
            and slave.whole_from <= view.kept_from
            and slave.acknowledged >= view.confirm_position
            and slave.acknowledged > view.epoch_start
        )

    def _safe_under_adaptive(self, wanted: list[BrokerId], view: MasterView) -> Iterator[BrokerId]:
        """Yield the members that stay, so that every election among them finds what is confirmed.

        What an earlier master confirmed lies below the start of this mastership.
        """
        confirmed = max(view.confirm_position, view.epoch_start)
        holders = [
            broker_id
            for broker_id in wanted
            if broker_id == self._own_id or self.slaves[broker_id].acknowledged >= confirmed
        ]
        needed = self._recorded.policy.copies_needed(len(self._recorded.replicas), len(wanted))
        is_smaller = not set(self._recorded.sync_state_set) <= set(wanted)
        yield from wanted if len(holders) >= needed or not is_smaller else holders

    def _follow_up(self, slave: Slave, log_end: Position, now_ms: int) -> None:
        if slave.acknowledged >= log_end:
            slave.caught_up_ms = now_ms
        elif slave.acknowledged < slave.mark_position:
            return
        else:
            slave.caught_up_ms = max(slave.caught_up_ms, slave.mark_ms)
        slave.mark_position, slave.mark_ms = log_end, now_ms

    def _follow_replicas(self, now_ms: int) -> None:
        """Keep one entry for each other member; removed members are forgotten."""
        known, self.slaves = self.slaves, {}
        for broker_id in self._recorded.replicas:
            if broker_id == self._own_id:
                continue
            self.slaves[broker_id] = known.get(broker_id) or Slave(
                gone_ms=now_ms, grace_ms=self._config.dial_timeout_ms, caught_up_ms=now_ms
            )


def _membership(recorded: Recorded, proposed: tuple[tuple[BrokerId, ...], ...]) -> Membership:
    return Membership(
        replicas=recorded.replicas,
        committed=recorded.sync_state_set,
        proposed=proposed,
        policy=recorded.policy,
    )
