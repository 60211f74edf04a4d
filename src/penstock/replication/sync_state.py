"""Who is in step: the master's judgement of its slaves, and the changes that it asks for.

    leaves   no connection for longer than the grace ─ not caught up for replica_lag_time_ms
             ─ further behind than replica_lag_bytes ─ found dead by the controllers
             ─ back with less than it had acknowledged (policy `all`)
    joins    holds the confirm position ─ and the start of the present mastership ─ with a log
             that begins no later than the master's

    judged ──► Change(both epochs) ──► controllers ──► recorded in the image ──► committed set
                  └─ from here on the proposed set counts as well, see confirm.py

One change at a time. One whose outcome is not known stays proposed and is asked for again as it
was, until the image or a refusal tells: forgetting it would confirm without a member that may have
been recorded. A refused one is judged anew, after a pause that doubles.

Under `adaptive` a smaller set needs fewer answers in an election. So whoever stays in it must make
that safe: where too few of the rest hold the confirmed position, those who do not leave too.

Source: RIP-44 and RocketMQ's AutoSwitchHAService (rows H-13, H-31; #7219, #9897: one owner, no
thread of its own; the flag that a failed request left set, section 1.14); Kafka's
lastCaughtUpTimeMs; KIP-497. It neither sends nor measures: times and positions are arguments.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.replication.config import ReplicationConfig
from penstock.replication.confirm import Membership

BACKOFF_STEPS_MAX = 4


class Recorded(NamedTuple):
    """What the controllers have recorded of a set."""

    replicas: tuple[int, ...]
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int
    policy: AckPolicy


class Change(NamedTuple):
    """Ask the controllers to record this set, if both epochs are still current."""

    leader_epoch: int
    sync_state_set_epoch: int
    sync_state_set: tuple[int, ...]


class Outcome(Enum):
    """What became of a change, as far as its answer tells."""

    RECORDED = auto()
    """The image will show it."""
    STALE = auto()
    """Another set, maybe this one asked for earlier, was recorded: the image will show it."""
    REFUSED = auto()
    """It was judged and not recorded."""
    UNKNOWN = auto()
    """No answer: it may be recorded yet."""


class MasterView(NamedTuple):
    """Positions of the master's own log."""

    log_start: int
    log_end: int
    confirm_position: int
    epoch_start: int


@dataclass(slots=True)
class Slave:
    """What the master knows of one slave in this mastership."""

    acknowledged: int = -1
    """Durable end (exclusive) since its last handshake; -1 before that."""
    log_start: int = 0
    is_connected: bool = False
    gone_ms: int = 0
    """When its connection was lost, or the mastership began."""
    grace_ms: int = 0
    caught_up_ms: int = 0
    """The last time at which it held everything that the master then had."""
    mark_position: int = 0
    mark_ms: int = 0
    """The master's end at that time: when acknowledged, the slave had caught up with that time."""


class SyncStateKeeper:
    """The judgement for one mastership. `membership` is what confirmations go by."""

    def __init__(
        self,
        own_id: int,
        recorded: Recorded,
        *,
        leader_epoch: int,
        config: ReplicationConfig,
        now_ms: int,
    ) -> None:
        """Begin a mastership: everybody recorded is taken to be in step, with time to connect."""
        self._own_id = own_id
        self._leader_epoch = leader_epoch
        self._config = config
        self._recorded = recorded
        self._proposed: tuple[int, ...] | None = None
        self._is_in_flight = False
        self._is_answered = False
        self._retry_at_ms = now_ms
        self._failures = 0
        self.slaves: dict[int, Slave] = {}
        self._made: tuple[tuple[Recorded, tuple[int, ...] | None], Membership]
        self._made = (recorded, None), _membership(recorded, None)
        """What `membership` was last made of, and itself: every read of a client asks for it."""
        self._follow_replicas(now_ms)

    @property
    def membership(self) -> Membership:
        """The sets that confirmations go by now; the same object until they change."""
        recorded, proposed = self._recorded, self._proposed
        made_of, membership = self._made
        if made_of[0] is not recorded or made_of[1] is not proposed:
            membership = _membership(recorded, proposed)
            self._made = (recorded, proposed), membership
        return membership

    def connected(
        self, broker_id: int, *, log_start: int, position: int, log_end: int, now_ms: int
    ) -> None:
        """A slave has shaken hands and holds the master's log up to `position`, durably."""
        slave = self.slaves.get(broker_id)
        if slave is None:
            return
        slave.is_connected = True
        slave.log_start = log_start
        slave.acknowledged = position
        slave.mark_position, slave.mark_ms = log_end, now_ms

    def disconnected(self, broker_id: int, now_ms: int) -> None:
        """Its connection is gone."""
        slave = self.slaves.get(broker_id)
        if slave is not None and slave.is_connected:
            slave.is_connected = False
            slave.gone_ms = now_ms
            slave.grace_ms = self._config.disconnect_grace_ms

    def acknowledged(self, broker_id: int, position: int, log_end: int, now_ms: int) -> None:
        """It holds the log durably up to `position`, while the master's ends at `log_end`."""
        slave = self.slaves.get(broker_id)
        if slave is None:
            return
        slave.acknowledged = position
        self._follow_up(slave, log_end, now_ms)

    def recorded(self, recorded: Recorded, now_ms: int) -> None:
        """Take over what the image says; whatever was asked for with an older epoch is over."""
        if recorded.sync_state_set_epoch != self._recorded.sync_state_set_epoch:
            self._proposed = None
            self._is_answered = False
            self._failures = 0
        self._recorded = recorded
        self._follow_replicas(now_ms)

    def answered(self, outcome: Outcome, now_ms: int) -> None:
        """Take the answer to the last change."""
        assert self._is_in_flight, "one answer for each change"
        self._is_in_flight = False
        if outcome is Outcome.RECORDED:
            self._is_answered = self._proposed is not None
            return
        if outcome is Outcome.REFUSED:
            self._proposed = None
        pause_ms = self._config.change_retry_ms << min(self._failures, BACKOFF_STEPS_MAX)
        self._failures += 1
        self._retry_at_ms = now_ms + pause_ms

    def next_change(
        self,
        view: MasterView,
        now_ms: int,
        *,
        unwanted: Collection[int] = (),
        dead: Collection[int] = (),
    ) -> Change | None:
        """Judge; return a change to ask for now, or None. Its answer must come to `answered`.

        `unwanted` brokers do not join: they are being drained. Neither do `dead` ones, which also
        leave: the controllers would not elect them.
        """
        for slave in self.slaves.values():
            if slave.is_connected:
                self._follow_up(slave, view.log_end, now_ms)
        if self._is_in_flight or self._is_answered or now_ms < self._retry_at_ms:
            return None
        if self._proposed is None:
            wanted = self._judge(view, now_ms, (*unwanted, *dead), dead)
            if wanted == tuple(sorted(self._recorded.sync_state_set)):
                return None
            self._proposed = wanted
        self._is_in_flight = True
        epoch = self._recorded.sync_state_set_epoch
        return Change(self._leader_epoch, epoch, self._proposed)

    def is_in_step(self, broker_id: int) -> bool:
        """Whether the recorded sync-state set has this broker."""
        return broker_id in self._recorded.sync_state_set

    def _judge(
        self,
        view: MasterView,
        now_ms: int,
        unwanted: Collection[int],
        dead: Collection[int],
    ) -> tuple[int, ...]:
        recorded = self._recorded.sync_state_set
        wanted = [self._own_id]
        for broker_id, slave in self.slaves.items():
            if broker_id in recorded:
                stays = broker_id not in dead and self._stays(slave, view, now_ms)
            else:
                stays = broker_id not in unwanted and self._may_join(slave, view)
            if stays:
                wanted.append(broker_id)
        if self._recorded.policy.kind is PolicyKind.ADAPTIVE:
            wanted = list(self._safe_under_adaptive(wanted, view))
        return tuple(sorted(wanted))

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
            and slave.log_start <= view.log_start
            and slave.acknowledged >= view.confirm_position
            and slave.acknowledged > view.epoch_start
        )

    def _safe_under_adaptive(self, wanted: list[int], view: MasterView) -> Iterator[int]:
        """Yield those who stay, so that every election among them finds what is confirmed.

        What an earlier master has confirmed lies below the start of this mastership.
        """
        confirmed = max(view.confirm_position, view.epoch_start)
        holders = [
            one
            for one in wanted
            if one == self._own_id or self.slaves[one].acknowledged >= confirmed
        ]
        needed = self._recorded.policy.copies_needed(len(self._recorded.replicas), len(wanted))
        is_smaller = not set(self._recorded.sync_state_set) <= set(wanted)
        yield from wanted if len(holders) >= needed or not is_smaller else holders

    def _follow_up(self, slave: Slave, log_end: int, now_ms: int) -> None:
        if slave.acknowledged >= log_end:
            slave.caught_up_ms = now_ms
        elif slave.acknowledged < slave.mark_position:
            return
        else:
            slave.caught_up_ms = max(slave.caught_up_ms, slave.mark_ms)
        slave.mark_position, slave.mark_ms = log_end, now_ms

    def _follow_replicas(self, now_ms: int) -> None:
        """Have an entry for each other member; members that were removed are forgotten."""
        known, self.slaves = self.slaves, {}
        for broker_id in self._recorded.replicas:
            if broker_id == self._own_id:
                continue
            self.slaves[broker_id] = known.get(broker_id) or Slave(
                gone_ms=now_ms, grace_ms=self._config.dial_timeout_ms, caught_up_ms=now_ms
            )


def _membership(recorded: Recorded, proposed: tuple[int, ...] | None) -> Membership:
    return Membership(
        replicas=recorded.replicas,
        committed=recorded.sync_state_set,
        proposed=() if proposed is None else (proposed,),
        policy=recorded.policy,
    )
