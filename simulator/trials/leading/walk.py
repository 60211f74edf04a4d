"""A random walk of a master: the production code, on a log of plain bytes.

    a mastership of a run ─► its set, members, policy ─► HaServer, MasterSet, member, promise
        slaves that connect, leave, lag, lose their logs, send late, repeated or forged messages
        controllers that record, refuse, do not answer, are full, or answer after the image changed
        clocks that jump, pauses with old messages after them ─► each decision is checked

Decisions are checked by the model that is used for each master of a run
(checks/masters/mastership.py), and here: who follows, what must be refused, promises, and changes
that are overdue.

The run is not affected. The slave's side is in following.py.

Source: docs/adr/0064.
"""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.base.ids import BrokerId, ControllerEpoch, LeaderEpoch, ReplicaSetId, RequestId
from penstock.controller.commands.command import ChangeSyncStateSet
from penstock.controller.errors import (
    MetadataQueueFull,
    MetadataTimeout,
    NotReplica,
    StaleSyncStateSet,
)
from penstock.replica.change_request import ask_for, change_command
from penstock.replication.promise import Asker
from simulator.trials.leading.judged import Mood
from simulator.trials.leading.slaves import Slaves

WRITES = (0, 1, 40, 700)
BACKOFF_MAX = 4
"""Pauses between changes double so often."""


class LeadingWalk(Slaves):
    """See the module. `run` yields what is wrong, up to the first step that is."""

    def run(self, steps: int) -> Iterator[str]:
        """Go."""
        events = {
            self._write: 8,
            self._deliver: 40,
            self._connect: 10,
            self._leave: 3,
            self._restart: 2,
            self._wipe: 1,
            self._forge: 4,
            self._advance: 10,
            self._stand_still: 1,
            self._answer: 8,
            self._record_late: 3,
            self._change_set: 2,
            self._change_broker: 2,
            self._controller: 5,
            self._promises: 2,
            self._hand_over: 1,
            self._succeed: 1,
        }
        events |= self._changed_weights()
        kinds, weights = list(events), list(events.values())
        for _ in range(steps):
            (event,) = self._random.choices(kinds, weights)
            self._done.append(event.__name__.strip("_"))
            event()
            self._clock.run()
            for slave in self._slaves.values():
                self._hear(slave)
            self._look()
            if self._wrong:
                yield f"{self._wrong[0]}, after {' '.join(self._done[-30:])}"
                return

    def _changed_weights(self) -> dict[Callable[[], None], int]:
        match self._mood:
            case Mood.DEAF:
                quiet = (self._wipe, self._change_set, self._succeed, self._record_late)
                much = {self._answer: 30, self._change_broker: 15, self._advance: 30}
                return dict.fromkeys(quiet, 0) | much
            case Mood.RESTLESS:
                return {self._greet_and_go: 40, self._deliver: 25, self._advance: 40}
            case Mood.RESUMING:
                return {self._restart: 6, self._promises: 8, self._succeed: 0, self._connect: 20}
            case _:
                return {}

    # --- time, the own log ---------------------------------------------------------------------

    def _write(self) -> None:
        if self._member.is_master:
            self._log.append(self._random.choice(WRITES))
        self._log.sync(self._random.randint(self._log.durable_position, self._log.end_position))
        if self._random.random() < 0.05:
            start = self._log.start_position
            confirmed = self._member.confirm_position
            self._log.start_position = max(start, min(confirmed, start + 60))

    def _advance(self) -> None:
        """Time passes, in small steps, with a tick in each; slaves that follow go on saying so."""
        is_restless = self._mood is Mood.RESTLESS
        step_ms = max(1, self._config.lease_ms // (20 if is_restless else 5))
        for _ in range(self._random.choice((1, 1, 2, 8))):
            self._clock.now_ms += self._random.choice((1, step_ms))
            for slave in self._slaves.values():
                if slave.is_streaming and not slave.unsaid and self._random.random() < 0.7:
                    self._say(slave, self._acknowledgement(slave))
            self._tick()

    def _tick(self) -> None:
        self._clock.run()
        self._model.sees(self._image, self._log_now(), self._clock.now_ms)
        asked = self._asking
        self._server.tick()
        for who, link in list(self._greeted_on.items()):
            if not link.is_open:
                self._lost(self._slaves[BrokerId(who)], link)
        if asked is None and self._asking is None:
            self._look_at_what_is_due()

    def _stand_still(self) -> None:
        """The process is paused or cut off; then all delayed messages arrive."""
        lease_ms = self._config.lease_ms
        if self._random.random() < 0.5:
            self._clock.now_ms += lease_ms + self._random.choice((1, lease_ms))
        else:
            for _ in range(12):
                self._clock.now_ms += max(1, lease_ms // 5)
                self._tick()
            if self._master_set.may_read():
                return  # nobody is needed
        for slave in self._slaves.values():
            while slave.unsaid and slave.link is not None:
                self._arrives(slave, slave.unsaid.pop(0))
                self._look_at_lease()
            self._hear(slave)
            slave.unsaid.clear()
        self._tick()

    # --- controllers ---------------------------------------------------------------------------

    def _answer(self) -> None:
        """A controller answers, or is not heard."""
        change, draw = self._asking, self._random
        if change is None:
            return
        command = change_command(ReplicaSetId(self._set_id), self._own_id, change)
        error: Exception | None = None
        match 4 if self._mood is Mood.DEAF else draw.randrange(6):
            case 0 | 1 if self._is_current(command):
                self._take(command)
            case 2:
                error = MetadataQueueFull(1)
            case 3 if self._is_current(command):
                error = NotReplica(self._own_id, ReplicaSetId(self._set_id))
            case _:
                if self._is_current(command):
                    self._doubtful.append(command)
                    error = MetadataTimeout(1)
                else:
                    error = StaleSyncStateSet(1, 2)
        if isinstance(error, MetadataQueueFull | NotReplica | StaleSyncStateSet):
            some = change.sync_state_set
            if self._model.under_way[some]:
                self._model.under_way[some] -= 1
        is_late = error is None and draw.random() < 0.5
        if not is_late:
            self._see_image()
        self._asking = None
        if error is not None:
            pause_ms = self._config.change_retry_ms << min(self._failures, BACKOFF_MAX)
            self._failures += 1
            self._due_ms = self._clock.now_ms + pause_ms
        _finish(ask_for(command, partial(_answer_with, error), self._master_set.answered))
        self._see_image()

    def _is_current(self, command: ChangeSyncStateSet) -> bool:
        one = self._truth
        return (command.leader_epoch, command.sync_state_set_epoch) == (
            one.leader_epoch,
            one.sync_state_set_epoch,
        ) and all(
            one.replica_ids.get(each.broker_id) == each.replica_id
            and self._brokers[each.broker_id].broker_epoch == each.broker_epoch
            for each in command.joining
        )

    def _take(self, command: ChangeSyncStateSet) -> None:
        self._record(sync_state_set=command.sync_state_set, is_seen=False)

    def _record_late(self) -> None:
        """A change without an answer is recorded now."""
        while self._doubtful:
            command = self._doubtful.pop(self._random.randrange(len(self._doubtful)))
            if self._is_current(command):
                self._take(command)
                if self._asking is None or self._random.random() < 0.5:
                    self._see_image()
                return

    def _change_set(self) -> None:
        """An operator changes the policy or the members."""
        one, draw = self._truth, self._random
        if draw.random() < 0.7:
            self._record(policy=self._policy(len(one.replicas)))

    def _change_broker(self) -> None:
        who = self._slave().broker_id
        broker, draw = self._brokers[BrokerId(who)], self._random
        if draw.random() < 0.5:
            broker = replace(broker, is_fenced=not broker.is_fenced)
        else:
            broker = replace(broker, is_draining=not broker.is_draining)
        self._brokers[BrokerId(who)] = broker
        if draw.random() < 0.5:
            self._register(self._slaves[BrokerId(who)])

    def _controller(self) -> None:
        """The active controller answers a heartbeat, perhaps late; the image may be behind it."""
        sent_ms = self._clock.now_ms - self._random.choice((0, 1, self._config.lease_ms // 2))
        is_caught_up = self._random.random() < 0.5
        if self._image is not self._truth:
            is_caught_up = False
        self._model.controller_answered(
            self._image,
            self._clock.now_ms,
            sent_ms=sent_ms,
            is_caught_up=is_caught_up,
            is_paused=self._master_set.handing_over.is_open,
        )
        self._master_set.note_controller(sent_ms, is_caught_up=is_caught_up)

    def _promises(self) -> None:
        """Controllers ask before an election, and tell later that nothing comes of it."""
        draw, epoch = self._random, self._epoch
        self._requests += 1
        asker = Asker(
            ControllerEpoch(draw.choice((5, 5, 4))),
            RequestId(self._requests - draw.choice((0, 0, 1, 2))),
        )
        if draw.random() < 0.5:
            epoch -= draw.choice((0, 0, 1))
            self._promise.make(LeaderEpoch(epoch), asker)
            self._promised.asked(epoch, asker)
            return
        self._promise.release(LeaderEpoch(epoch), asker)
        self._promised.released(epoch, asker)
        self._master_set.go_on(asker)

    def _hand_over(self) -> None:
        """A controller starts a transfer: no more writes until it ends."""
        if not self._is_resuming and self._member.is_master:
            self._requests += 1
            self._master_set.handing_over.begin(
                Asker(ControllerEpoch(5), RequestId(self._requests))
            )

    def _succeed(self) -> None:
        """It is elected again: a new mastership on the same log, and the same links."""
        if self._asking is not None:
            return
        epoch = self._truth.leader_epoch + 1
        self._truth = replace(self._truth, leader_epoch=LeaderEpoch(epoch))
        self._server.unlead(ReplicaSetId(self._set_id))
        self._image = self._truth
        self._member.resign(epoch)  # type: ignore[arg-type]
        for slave in self._slaves.values():
            if slave.link is not None:
                slave.link.said.clear()
            slave.is_streaming = False
            slave.unsaid.clear()
        self._lead(is_resuming=False)


async def _answer_with(error: Exception | None, command: ChangeSyncStateSet) -> None:
    del command
    if error is not None:
        raise error


def _finish(work: Coroutine[Any, Any, None]) -> None:
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("a question waits that was answered")
