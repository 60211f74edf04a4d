"""An independent model of one mastership: what its master may decide, given its messages.

    Hello, Begin, Acknowledge of slaves ─┐
    HeartbeatAnswer of controllers ──────┼─► how far it may confirm ─ whether it may answer reads
    the set in its image ────────────────┘   ─ which sync-state set it may propose

Each rule is written again from the documents, not from the production code, and simply rather than
fast. A decision that the model does not allow is a finding that names the rule. A decision that the
model allows and the master does not take is a finding only if the delay itself is an error.

Source: docs/adr/0013 (policies, elections, the lease), 0025 (changes name logs), 0026 (the lease
begins not held); ARCHITECTURE.md, "Not obvious"; KIP-497 (sets under way), Raft 5.4.2.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId
from penstock.controller.metadata.image import BrokerImage, ReplicaSetImage

Members = tuple[int, ...]

SAMPLES_MAX = 400
"""Ends of the master's log that are remembered, with when each was looked at last."""
OPEN_MAX = 8
"""Largest number of proposed sets; with so many only the present one may be proposed again."""


class Times(NamedTuple):
    """The settings that rules go by, in milliseconds."""

    lease_ms: int
    lag_ms: int
    grace_ms: int
    """Without a connection, after there was one."""
    first_grace_ms: int
    """Without one since the mastership began."""
    slack_ms: int
    """Largest delay of a check."""


class Log(NamedTuple):
    """The master's own log at a moment."""

    kept_from: int
    """Below it (exclusive) no store of the master has anything."""
    end: int
    durable: int
    confirmed: int
    epoch_start: int
    """Where the frame lies that begins the mastership."""


class Asked(NamedTuple):
    """A change as the master asks for it; `joining`: (broker, log, process) of each new one."""

    leader_epoch: int
    set_epoch: int
    members: Members
    joining: tuple[tuple[int, int, int], ...] = ()


@dataclass(slots=True)
class Slave:
    """What one slave has said in this mastership."""

    replica_id: int = -1
    incarnation: str = ""
    held: int = 0
    """Durable there since its last handshake (exclusive)."""
    whole_from: int = 0
    """Below it (exclusive) its stores may lack what the set keeps."""
    is_following: bool = False
    greeted_ms: int = 0
    heard_ms: int | None = None
    """When what it has answered last was sent to it."""
    gone_ms: int = 0
    grace_ms: int = 0
    caught_up_ms: int = 0


def copies_needed(policy: AckPolicy, replicas: int, in_step: int) -> int:
    """Return how many must hold a record: the table in docs/adr/0013 and its first rule."""
    match policy.kind:
        case PolicyKind.ALL:
            return in_step
        case PolicyKind.ADAPTIVE:
            return max(policy.minimum, min(policy.required, in_step))
        case PolicyKind.K_OF_N:
            return min(replicas, policy.required)
        case PolicyKind.QUORUM:
            return replicas // 2 + 1
        case PolicyKind.ASYNC:
            return 1


def answers_needed(policy: AckPolicy, replicas: int, voters: int) -> int:
    """Return the number of answers for an election: enough to include a copy of each record."""
    if policy.kind in {PolicyKind.ALL, PolicyKind.ASYNC}:
        return 1
    return max(1, voters - copies_needed(policy, replicas, voters) + 1)


@dataclass(slots=True, kw_only=True)
class Mastership:
    """See the module. Times are those of the master's own clock."""

    own_id: int
    leader_epoch: int
    times: Times
    began_ms: int
    slaves: dict[int, Slave] = field(default_factory=dict)
    known: int = 0
    """What was confirmed when it began."""
    reached: int = 0
    """The furthest that the slaves' words have allowed so far."""
    controller_ms: int | None = None
    set_epoch: int = -1
    under_way: Counter[Members] = field(default_factory=Counter)
    """Sets that may be recorded yet, with how many attempts ask for each."""
    asked: set[Members] = field(default_factory=set)
    """All sets that were proposed since the set has its present epoch."""
    ends: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))
    """(time, end of the master's log): who holds an end has caught up with its time."""

    def slave(self, broker_id: int) -> Slave:
        """Return what is known of a slave."""
        found = self.slaves.get(broker_id)
        if found is None:
            grace_ms = self.times.first_grace_ms
            found = self.slaves[broker_id] = Slave(
                gone_ms=self.began_ms, grace_ms=grace_ms, caught_up_ms=self.began_ms
            )
        return found

    # --- what it hears -------------------------------------------------------------------------

    def greeted(self, broker_id: int, replica_id: int, incarnation: str, now_ms: int) -> None:
        """A slave has shaken hands anew: what it held before counts no more."""
        slave = self.slave(broker_id)
        slave.greeted_ms = now_ms
        slave.replica_id, slave.incarnation, slave.held = replica_id, incarnation, 0

    def begun(self, broker_id: int, position: int, whole_from: int) -> None:
        """Its log is a prefix of the master's, durable up to `position`; it was greeted."""
        slave = self.slave(broker_id)
        slave.is_following, slave.held, slave.whole_from = True, position, whole_from
        slave.heard_ms = slave.greeted_ms

    def acknowledged(self, broker_id: int, position: int, read_ms: int) -> None:
        """The slave acknowledges everything below `position`, or repeats that it follows.

        `read_ms`: when the newest message was sent that it had read; negative if it does not say.
        """
        slave = self.slave(broker_id)
        if slave.is_following:
            slave.held = max(slave.held, position)
            slave.heard_ms = max(slave.heard_ms or 0, read_ms)

    def gone(self, broker_id: int, now_ms: int) -> None:
        """It follows no more, as far as the master can know; its bytes are still there."""
        slave = self.slave(broker_id)
        slave.heard_ms = None
        if slave.is_following:
            slave.is_following = False
            slave.gone_ms, slave.grace_ms = now_ms, self.times.grace_ms

    def controller_answered(
        self,
        replica_set: ReplicaSetImage,
        now_ms: int,
        *,
        sent_ms: int,
        is_caught_up: bool,
        is_paused: bool,
    ) -> None:
        """The active controller has counted the master among the living since `sent_ms`.

        With an image that is behind an answer keeps a lease, and gives none.
        """
        if is_caught_up or self.has_lease(replica_set, now_ms, is_paused=is_paused):
            self.controller_ms = max(sent_ms, self.controller_ms or 0)

    def follow(self, replica_set: ReplicaSetImage) -> None:
        """Take the set from the image: a new epoch ends all earlier proposals."""
        if replica_set.sync_state_set_epoch != self.set_epoch:
            self.set_epoch = replica_set.sync_state_set_epoch
            self.under_way.clear()
            self.asked.clear()

    def sees(self, replica_set: ReplicaSetImage, log: Log, now_ms: int) -> None:
        """Look at how far everybody is, now and after each word."""
        self.follow(replica_set)
        self._drop_parts(replica_set, log, now_ms)
        if self.ends and self.ends[-1][1] == log.end:
            self.ends.pop()
        self.ends.append((now_ms, log.end))
        reachable = self.reachable(replica_set, log)
        if reachable > log.epoch_start:
            self.reached = max(self.reached, reachable)
        for broker_id in replica_set.replicas:
            if broker_id != self.own_id:
                self._catch_up(self.slave(broker_id), self.held(replica_set, broker_id))

    def _drop_parts(self, replica_set: ReplicaSetImage, log: Log, now_ms: int) -> None:
        """Let parts of the log neither follow nor count where whoever has one may be elected."""
        for broker_id, slave in self.slaves.items():
            may_be_elected = broker_id not in replica_set.sync_state_set
            is_part = slave.whole_from > log.kept_from
            if replica_set.policy.counts_replicas and may_be_elected and is_part:
                slave.held = 0
                self.gone(broker_id, now_ms)

    def _catch_up(self, slave: Slave, held: int) -> None:
        for time_ms, end in reversed(self.ends):
            if time_ms <= slave.caught_up_ms:
                return
            if end <= held:
                slave.caught_up_ms = time_ms
                return

    # --- what it may confirm, and answer -------------------------------------------------------

    def possible(self, replica_set: ReplicaSetImage) -> tuple[Members, ...]:
        """Return each sync-state set that may be recorded by now."""
        return (
            replica_set.sync_state_set,
            *(some for some, count in self.under_way.items() if count),
        )

    def held(self, replica_set: ReplicaSetImage, broker_id: int) -> int:
        """Return what a slave's registered log holds; what another log held is not there."""
        slave = self.slave(broker_id)
        return (
            slave.held
            if slave.replica_id == replica_set.replica_ids.get(BrokerId(broker_id))
            else 0
        )

    def reachable(self, replica_set: ReplicaSetImage, log: Log) -> int:
        """Return up to where enough members of each possible set hold everything."""
        total, found = len(replica_set.replicas), []
        for some in self.possible(replica_set):
            voters = replica_set.replicas if replica_set.policy.counts_replicas else some
            copies = copies_needed(replica_set.policy, total, len(some))
            held = sorted(
                log.durable if member == self.own_id else self.held(replica_set, member)
                for member in voters
            )
            found.append(held[-copies] if copies <= len(held) else 0)
        return min(found)

    def is_alone(self, replica_set: ReplicaSetImage) -> bool:
        """Whether the master is alone in the recorded set and in every other possible one."""
        if {*self.possible(replica_set)} != {(self.own_id,)}:
            return False
        return (
            not replica_set.policy.counts_replicas
            or copies_needed(replica_set.policy, len(replica_set.replicas), 1) < 2
        )

    def wrong_confirmed(self, replica_set: ReplicaSetImage, log: Log, now_ms: int) -> Iterator[str]:
        """Yield the rules that a confirm position breaks which has just moved."""
        self.sees(replica_set, log, now_ms)
        if log.confirmed <= self.known:
            return
        may_reach = max(self.reached, log.durable if self.is_alone(replica_set) else 0)
        if log.confirmed > max(may_reach, self.known):
            yield (
                f"confirms up to {log.confirmed}, and enough members of"
                f" {self.possible(replica_set)} hold {self.reachable(replica_set, log)}, in a"
                f" mastership from {log.epoch_start} on"
            )
        if replica_set.policy.kind is not PolicyKind.ALL and not self.has_lease(
            replica_set, now_ms, is_paused=False
        ):
            yield f"confirms up to {log.confirmed} without a lease, under {replica_set.policy.kind}"

    def has_lease(self, replica_set: ReplicaSetImage, now_ms: int, *, is_paused: bool) -> bool:
        """Whether no other master can have been elected. `is_paused`: it is handing over."""
        self.follow(replica_set)
        oldest_ms, answered_ms = now_ms - self.times.lease_ms, self.controller_ms
        if not is_paused and answered_ms is not None and answered_ms > oldest_ms:
            return True
        sets = (
            (replica_set.replicas,)
            if replica_set.policy.counts_replicas
            else self.possible(replica_set)
        )
        for voters in sets:
            silent = [who for who in voters if not self._is_heard(who, oldest_ms)]
            if len(silent) >= answers_needed(
                replica_set.policy, len(replica_set.replicas), len(voters)
            ):
                return False
        return True

    def _is_heard(self, broker_id: int, oldest_ms: int) -> bool:
        if broker_id == self.own_id:
            return True
        heard_ms = self.slave(broker_id).heard_ms
        return heard_ms is not None and heard_ms > oldest_ms

    def wrong_recorded(self, replica_set: ReplicaSetImage, committed: Members) -> str:
        """Return what is wrong with the set that the master takes for the recorded one."""
        self.follow(replica_set)
        if {*committed} == {*replica_set.sync_state_set}:
            return ""
        return f"goes by the set {committed}, and {replica_set.sync_state_set} is recorded"

    def wrong_sets(
        self, replica_set: ReplicaSetImage, committed: Members, proposed: tuple[Members, ...]
    ) -> Iterator[str]:
        """Yield errors in the proposed sets that the master counts beside the recorded one."""
        self.follow(replica_set)
        for some in self.possible(replica_set)[1:]:
            if some not in {committed, *proposed}:
                yield f"does not go by {some}, which may have been recorded"
        for some in proposed:
            if some not in self.asked:
                yield f"goes by {some}, which was not asked for since epoch {self.set_epoch}"

    # --- whom it may ask for -------------------------------------------------------------------

    def wrong_change(
        self,
        replica_set: ReplicaSetImage,
        brokers: Mapping[BrokerId, BrokerImage],
        change: Asked,
        log: Log,
        now_ms: int,
    ) -> Iterator[str]:
        """Yield the rules that a change violates which is about to be proposed."""
        self.sees(replica_set, log, now_ms)
        if (change.leader_epoch, change.set_epoch) != (
            self.leader_epoch,
            replica_set.sync_state_set_epoch,
        ):
            yield f"asks in epochs {change.leader_epoch}, {change.set_epoch}"
        if self.own_id not in change.members:
            yield "asks for a set without itself"
        recorded = {*replica_set.sync_state_set}
        named = {broker_id: (log_id, process) for broker_id, log_id, process in change.joining}
        for broker_id in sorted({*change.members} - recorded - {self.own_id}):
            for wrong in self._wrong_joining(
                replica_set, brokers.get(BrokerId(broker_id)), broker_id, log
            ):
                yield f"asks for {broker_id} to join, {wrong}"
            broker = brokers.get(BrokerId(broker_id))
            process = -1 if broker is None else broker.broker_epoch
            if named.get(broker_id) != (replica_set.replica_ids.get(BrokerId(broker_id)), process):
                yield f"asks for {broker_id} to join by the log and process {named.get(broker_id)}"
        yield from self._wrong_members(replica_set, brokers, change.members, log, now_ms)
        if replica_set.policy.kind is PolicyKind.ADAPTIVE and not recorded <= {*change.members}:
            yield from self._wrong_shrinking(replica_set, change.members, log)

    def _wrong_members(
        self,
        replica_set: ReplicaSetImage,
        brokers: Mapping[BrokerId, BrokerImage],
        members: Members,
        log: Log,
        now_ms: int,
    ) -> Iterator[str]:
        """Check that members that stay may stay, and that those that leave must leave."""
        recorded, is_full = (
            {*replica_set.sync_state_set} - {self.own_id},
            len(self.asked) >= OPEN_MAX,
        )
        for broker_id in sorted(recorded & {*members}):
            wrong = self.overdue(replica_set, brokers.get(broker_id), broker_id, log, now_ms)
            if wrong and not is_full:
                yield f"asks for {broker_id} to stay, {wrong}"
        for broker_id in sorted(recorded - {*members}):
            if self._may_stay(replica_set, brokers.get(broker_id), broker_id, log):
                yield f"asks for {broker_id} to leave, which follows and holds everything"

    def _wrong_joining(
        self, replica_set: ReplicaSetImage, broker: BrokerImage | None, broker_id: int, log: Log
    ) -> Iterator[str]:
        slave = self.slave(broker_id)
        if not slave.is_following:
            yield "and it does not follow"
        registered = replica_set.replica_ids.get(BrokerId(broker_id))
        if slave.replica_id != registered:
            yield f"with log {slave.replica_id}, and {registered} is registered"
        if broker is None or slave.incarnation != broker.incarnation:
            yield f"whose process {slave.incarnation} is not the registered one"
        if broker is not None and (broker.is_fenced or broker.is_draining):
            yield "and it is fenced, or being drained"
        if slave.held < log.confirmed:
            yield f"which holds {slave.held} of {log.confirmed} that are confirmed"
        if slave.held <= log.epoch_start:
            yield f"which holds {slave.held}, and the mastership begins at {log.epoch_start}"
        if slave.whole_from > log.kept_from:
            lacks, keeps = slave.whole_from, log.kept_from
            yield f"which may lack what lies below {lacks}, and {keeps} on is kept"

    def overdue(
        self,
        replica_set: ReplicaSetImage,
        broker: BrokerImage | None,
        broker_id: int,
        log: Log,
        now_ms: int,
    ) -> str:
        """Return why a member can not be in step any more; an empty text while it can."""
        slave, times = self.slave(broker_id), self.times
        if broker is not None and broker.is_fenced:
            return "and it is fenced"
        if not slave.is_following and now_ms - slave.gone_ms >= slave.grace_ms + times.slack_ms:
            return f"and it is gone for {now_ms - slave.gone_ms} ms"
        if now_ms - slave.caught_up_ms >= times.lag_ms + times.slack_ms:
            return f"and it is behind for {now_ms - slave.caught_up_ms} ms"
        is_cut = slave.is_following and slave.held < log.confirmed
        if is_cut and replica_set.policy.kind is PolicyKind.ALL:
            return f"and it holds {slave.held} of {log.confirmed} that are confirmed"
        return ""

    def _may_stay(
        self, replica_set: ReplicaSetImage, broker: BrokerImage | None, broker_id: int, log: Log
    ) -> bool:
        slave = self.slave(broker_id)
        is_alive = broker is not None and not broker.is_fenced
        return is_alive and slave.is_following and self.held(replica_set, broker_id) >= log.end

    def _wrong_shrinking(
        self, replica_set: ReplicaSetImage, members: Members, log: Log
    ) -> Iterator[str]:
        """Of fewer members each election must meet one that holds what is confirmed."""
        confirmed = max(log.confirmed, log.epoch_start)
        lacking = [
            member
            for member in members
            if member != self.own_id and self.slave(member).held < confirmed
        ]
        answers = answers_needed(replica_set.policy, len(replica_set.replicas), len(members))
        if len(lacking) >= answers:
            yield f"asks for {members} alone, of which {lacking} lack confirmed records"
