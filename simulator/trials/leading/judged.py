"""A mastership on plain bytes together with its model: how it begins, and its checks.

    on_confirmed, a proposed change, after each event ─► the model ─► findings

Beside the model (checks/masters/mastership.py) it tracks promises, and changes that are overdue.
The events are in slaves.py and walk.py.
"""

from dataclasses import replace
from enum import Enum, auto
from functools import partial
from random import Random
from typing import Any

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import (
    BrokerId,
    LeaderEpoch,
    Position,
    ReplicaId,
    ReplicaSetId,
    SyncStateSetEpoch,
)
from penstock.controller.commands.command import ChangeSyncStateSet
from penstock.controller.metadata.image import ReplicaSetImage
from penstock.replica.change_request import recorded_in
from penstock.replica.master_set import MasterSet
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.alignment import LogShape
from penstock.replication.config import ReplicationConfig
from penstock.replication.promise import Promise
from penstock.replication.sync_state import Change, Process
from penstock.runtime.ha.server import HaServer
from simulator.checks.masters.mastership import Asked, Log, Mastership
from simulator.checks.promised import Promised
from simulator.trials.leading.cast import Slave, broker_of, times_of
from simulator.trials.stand_ins import Moment, PlainLink, PlainLog

MEMBERS_MAX = 6
"""Some bounds are met with many members only."""


class Mood(Enum):
    """What there is much of in a walk."""

    NONE = auto()
    ANY = auto()
    DEAF = auto()
    """The controllers record nothing, and send no answer."""
    RESTLESS = auto()
    """Slaves greet, and are gone again."""
    RESUMING = auto()
    """The master was there before, and waits for all to agree."""


class Judged:
    """See the module."""

    def __init__(
        self, replica_set: ReplicaSetImage, config: ReplicationConfig, draw: Random
    ) -> None:
        self._random = draw
        self._mood = draw.choice(list(Mood))
        self._wrong: list[str] = []
        self._done: list[str] = []
        self._config = config
        self._clock = Moment(draw.choice((0, 30, 10_000)))
        self._own_id = (
            replica_set.master
            if replica_set.master in replica_set.sync_state_set
            else replica_set.sync_state_set[0]
        )
        self._truth = self._drawn_set(replica_set)
        """The set as the controllers have it."""
        self._image = self._truth
        """The set as the master knows it."""
        self._brokers = {who: broker_of(who, f"{who}-1", 1) for who in self._truth.replicas}
        self._slaves = {who: Slave(who) for who in self._truth.replicas if who != self._own_id}
        is_resuming = self._mood is Mood.RESUMING
        self._log = PlainLog(self._drawn_epochs(is_resuming), draw.choice((0, 0, 60)), 600)
        self._promise, self._promised = Promise(), Promised()
        self._requests = 0
        self._asking: Change | None = None
        self._doubtful: list[ChangeSyncStateSet] = []
        """Changes without an answer, which may be recorded yet."""
        self._failures = 0
        self._due_ms = 0
        self._tracked = 0
        set_id, later = ReplicaSetId(replica_set.replica_set_id), self._clock.call_soon
        member = ReplicaSetMember(set_id, self._own_id, self._log, later)  # type: ignore[arg-type]
        self._member = member
        member.confirm_position = Position(draw.choice((0, 300)))
        member.on_confirmed.append(self._confirmed)
        self._server = HaServer(
            config=config,
            clock=self._clock,
            scheduler=self._clock,
            replica_id_of=lambda _, who: self._image.replica_ids.get(BrokerId(who)),
            newest_epoch_of=lambda _: self._image.leader_epoch,
        )
        self._fill_slaves()
        self._lead(is_resuming=is_resuming)

    def _found(self, text: str) -> None:
        self._wrong.append(text)

    # --- how it begins -------------------------------------------------------------------------

    def _drawn_set(self, replica_set: ReplicaSetImage) -> ReplicaSetImage:
        """Return the set of the run, perhaps with more members, perhaps of another policy."""
        draw, own_id = self._random, self._own_id
        replicas = list(replica_set.replicas)
        more = MEMBERS_MAX if self._mood is Mood.DEAF else draw.choice((0, 0, 1, 3))
        more = max(more, 2 - len(replicas))  # somebody has to follow
        for _ in range(more):
            if len(replicas) < MEMBERS_MAX:
                replicas.append(BrokerId(max(replicas) + 1))
        in_step = {*replica_set.sync_state_set, own_id} & {*replicas}
        if draw.random() < 0.5:
            in_step = {who for who in replicas if draw.random() < 0.6} | {own_id}
        return replace(
            replica_set,
            master=own_id,
            leader_epoch=LeaderEpoch(max(1, replica_set.leader_epoch)),
            replicas=tuple(replicas),
            sync_state_set=tuple(sorted(in_step)),
            policy=replica_set.policy if draw.random() < 0.3 else self._policy(len(replicas)),
            replica_ids={who: ReplicaId(10 + who) for who in replicas},
            next_replica_id=ReplicaId(50),
        )

    def _policy(self, members: int) -> AckPolicy:
        kind = self._random.choice(list(PolicyKind))
        required = self._random.randint(1, members)
        return AckPolicy(kind=kind, required=required, minimum=self._random.randint(1, required))

    def _drawn_epochs(self, is_resuming: bool) -> list[tuple[int, int]]:
        """Return masterships of before; a master that resumes has begun its own."""
        newest = self._truth.leader_epoch
        older = sorted(self._random.sample(range(newest), min(newest, 2)))
        own = [newest] if is_resuming else []
        return [(epoch, 200 * at) for at, epoch in enumerate([*older, *own])]

    def _fill_slaves(self) -> None:
        """Let some have all of the log, some less, some more that was never confirmed."""
        for slave in self._slaves.values():
            slave.start = self._random.choice((0, 0, 0, 60, 120))
            slave.end = max(slave.start, self._random.choice((0, 200, 400, 600, 600, 650)))
            slave.epochs = tuple(epoch for epoch in self._log.epochs if epoch[1] < slave.end)
            if slave.broker_id in self._truth.sync_state_set:
                slave.end = max(slave.end, self._member.confirm_position)

    def _lead(self, *, is_resuming: bool) -> None:
        """Begin a mastership."""
        one, clock = self._image, self._clock
        self._model = Mastership(
            own_id=self._own_id,
            leader_epoch=one.leader_epoch,
            times=times_of(self._config),
            began_ms=clock.now_ms,
            known=self._member.confirm_position,
        )
        self._greeted_on: dict[int, PlainLink] = {}
        self._asking, self._doubtful, self._failures = None, [], 0
        self._due_ms, self._tracked = clock.now_ms, 0
        self._is_resuming = is_resuming
        master_set = self._master_set = MasterSet(
            self._member,
            recorded_in(one),
            one.leader_epoch,
            config=self._config,
            clock=clock,
            submit=self._asks,
            is_resuming=is_resuming,
        )
        master_set.is_promised = partial(self._promise.holds, one.leader_epoch)
        master_set.unwanted = lambda: [n for n, b in self._brokers.items() if b.is_draining]
        master_set.dead = lambda: [n for n, b in self._brokers.items() if b.is_fenced]
        master_set.process_of = self._process_of
        master_set.on_all_aligned = self._all_aligned
        self._server.lead(master_set)
        if not is_resuming:
            self._begin()

    def _begin(self) -> None:
        self._is_resuming = False
        self._model.reached = 0
        self._log_before = self._log.end_position
        self._master_set.begin()

    def _all_aligned(self) -> None:
        self._begin()

    def _process_of(self, who: int) -> Process | None:
        broker = self._brokers.get(BrokerId(who))
        return None if broker is None else Process(broker.incarnation, broker.broker_epoch)

    # --- what the controllers have recorded ----------------------------------------------------

    def _record(self, *, is_seen: bool = True, **changed: Any) -> None:
        epoch = self._truth.sync_state_set_epoch + 1
        self._truth = replace(self._truth, sync_state_set_epoch=SyncStateSetEpoch(epoch), **changed)
        if is_seen:
            self._see_image()

    def _see_image(self) -> None:
        """The master learns what the controllers have recorded."""
        if self._truth is self._image:
            return
        known = self._image.replica_ids
        if self._truth.sync_state_set_epoch != self._image.sync_state_set_epoch:
            self._failures = 0
        self._image = one = self._truth
        for who, link in list(self._greeted_on.items()):
            if one.replica_ids.get(BrokerId(who)) != known.get(BrokerId(who)):
                self._model.gone(who, self._clock.now_ms)
                del self._greeted_on[who], link
        self._model.follow(one)
        self._model.sees(one, self._log_now(), self._clock.now_ms)
        self._master_set.recorded(recorded_in(one))

    # --- what is wrong -------------------------------------------------------------------------

    def _shape(self) -> LogShape:
        log = self._log
        return LogShape(tuple(log.epochs), log.start_position, log.end_position)  # type: ignore[arg-type]

    def _log_now(self) -> Log:
        log = self._log
        return Log(
            kept_from=log.reach.kept_from,
            end=log.end_position,
            durable=log.durable_position,
            confirmed=self._member.confirm_position,
            epoch_start=log.epochs[-1][1] if log.epochs else 0,
        )

    def _confirmed(self, member: ReplicaSetMember) -> None:
        if member.confirm_position <= self._model.known:
            return
        for wrong in self._model.wrong_confirmed(self._image, self._log_now(), self._clock.now_ms):
            self._found(wrong)
        is_alone = self._model.is_alone(self._image) or self._image.policy.kind is PolicyKind.ALL
        if not is_alone and self._promised.holds(self._epoch):
            self._found(f"confirms in epoch {self._epoch}, and has promised not to")

    def _look(self) -> None:
        model, one, now_ms = self._model, self._image, self._clock.now_ms
        model.sees(one, self._log_now(), now_ms)
        if self._is_resuming:
            return
        tracker = self._member.confirm
        goes_by = self._master_set.keeper.membership
        for some in (goes_by, tracker.membership):
            for wrong in model.wrong_sets(one, some.committed, some.proposed):
                self._found(wrong)
            if wrong := model.wrong_recorded(one, some.committed):
                self._found(wrong)
        if tracker.position < self._tracked:
            self._found(f"takes back what enough members hold, {self._tracked}")
        self._tracked = tracker.position
        if self._promise.holds(LeaderEpoch(self._epoch)) is not self._promised.holds(self._epoch):
            self._found(f"a promise for epoch {self._epoch} holds: {self._promised}")
        self._look_at_lease()
        following = {who for who in self._slaves if model.slave(who).is_following}
        sessions = {
            who for who, session in self._master_set.sessions.items() if session.is_streaming
        }
        if sessions != following:
            self._found(f"has {sorted(sessions)} following, and {sorted(following)} do")

    def _look_at_lease(self) -> None:
        if self._is_resuming:
            return
        is_paused = self._master_set.handing_over.is_open
        has = self._model.has_lease(self._image, self._clock.now_ms, is_paused=is_paused)
        if self._master_set.may_read() and not has:
            self._found("answers reads without a lease")

    def _look_at_what_is_due(self) -> None:
        """Check that overdue changes have been proposed."""
        model, one, now_ms = self._model, self._image, self._clock.now_ms
        if self._is_resuming or now_ms < self._due_ms or one is not self._truth:
            return
        log = self._log_now()
        for who in one.sync_state_set:
            wrong = model.overdue(one, self._brokers.get(who), who, log, now_ms)
            if who != self._own_id and wrong:
                self._found(f"does not ask for a set without {who}, {wrong}")
        if open_sets := model.possible(one)[1:]:
            self._found(f"does not end {open_sets}, which may be recorded")

    def _asks(self, master_set: MasterSet, change: Change) -> None:
        del master_set
        model, one = self._model, self._image
        joining = tuple((j.broker_id, j.replica_id, j.broker_epoch) for j in change.joining)
        asked = Asked(
            change.leader_epoch, change.sync_state_set_epoch, change.sync_state_set, joining
        )
        wrongs = model.wrong_change(one, self._brokers, asked, self._log_now(), self._clock.now_ms)
        for wrong in wrongs:
            self._found(wrong)
        model.asked.add(change.sync_state_set)
        model.under_way[change.sync_state_set] += 1
        others = {some for some in model.asked if {*some} != {*one.sync_state_set}}
        if len(others) > 8:
            self._found(f"has asked for {len(others)} sets that may all be recorded")
        if self._asking is not None:
            self._found("asks for two changes at a time")
        self._asking = change

    @property
    def _epoch(self) -> int:
        return self._model.leader_epoch

    @property
    def _set_id(self) -> int:
        return self._member.replica_set_id
