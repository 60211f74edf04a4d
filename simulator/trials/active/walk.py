"""A random walk of the production active controller, with brokers and a log of plain values.

    an image ─► ActiveController, on a copy ─► leads, is replaced, leads again, stands still
        heartbeats, silences, closed links, new processes, failed logs, draining, operators
        answers that are late or never come; a log that is late and leaves the outcome open
        ─► judged.py
    then in peace: each set has a master, silent brokers are fenced, draining ones have no duties

Another controller that leads meanwhile is no more than its commands. A broker says of its logs what
the walk draws: which log is the longest changes between a heartbeat and the answer to a question.

Source: RIP-44; docs/adr/0016. The choice of one election is in controller/active/election.py.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random

from penstock.base.ack_policy import PolicyKind
from penstock.base.errors import PlatformError
from penstock.base.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    ReplicaSetId,
    SessionId,
    TopicId,
)
from penstock.controller import session as s
from penstock.controller.active.controller import ActiveController
from penstock.controller.commands import command as c
from penstock.controller.config import ControllerConfig
from penstock.controller.controller import Controller
from penstock.controller.metadata.image import NO_MASTER, ClusterImage, ReplicaSetImage
from penstock.controller.metadata.record_codec import decode_records, encode_records
from penstock.controller.metadata.snapshot import snapshot_records
from penstock.controller.replicated_log import Leadership
from simulator.trials.active import asks
from simulator.trials.active.judged import Judge
from simulator.trials.active.paper_log import OTHER, OWN, PaperLog
from simulator.trials.stand_ins import Moment

TURN_MS, BEAT_MS, SESSION_MS = 10, 50, 300
TICK_MS = min(BEAT_MS, SESSION_MS // 10)
PEACE_TURNS = 300
OVERDUE_MS = SESSION_MS + 200
"""A silence that a working controller has noticed, and has acted on."""
KINDS = (PolicyKind.ALL, PolicyKind.QUORUM, PolicyKind.K_OF_N)


@dataclass(slots=True)
class Broker:
    """A process as the controller meets it, and its logs as it tells of them."""

    broker_id: BrokerId
    incarnation: str
    session_id: int = 0
    """0: no link."""
    is_mute: bool = False
    beat_ms: int = 0
    """When the last heartbeat was due."""
    failed: dict[ReplicaSetId, LeaderEpoch] = field(default_factory=dict)
    """Set id -> leader epoch that a failed log is told of with."""
    ends: dict[ReplicaSetId, tuple[LeaderEpoch, int]] = field(default_factory=dict)
    """Set id -> last mastership in the log, and its end."""


class ActiveWalk:
    """See the module. Iterate `run` once."""

    def __init__(self, image: ClusterImage, draw: Random) -> None:
        self._random = draw
        self._clock = Moment(1_000_000)
        self._wrong: list[str] = []
        self._trail: list[str] = []
        self._image = ClusterImage(defaults=image.defaults, controller_id=OWN)
        config = ControllerConfig(
            heartbeat_interval_ms=BEAT_MS,
            session_timeout_ms=SESSION_MS,
            probe_timeout_ms=40,
            election_retry_ms=30,
            transfer_timeout_ms=120,
            preferred_master_delay_ms=draw.choice((-1, 150)),
        )
        self._controller = Controller(
            config=config, image=self._image, new_topic_id=lambda: TopicId(draw.randbytes(16))
        )
        self._controller.replay(decode_records(encode_records(snapshot_records(image))))
        self._judge = Judge(self._image, config, self._wrong.append)
        self._log = PaperLog(self._controller, draw, self._judge)
        self._wire: list[tuple[Broker, int, object]] = []
        """Whom a message is for, its link, and the message."""
        self._replies: list[Callable[[], None]] = []
        self._names = self._sessions = 0
        self._brokers = {
            one: Broker(one, known.incarnation) for one, known in self._image.brokers.items()
        }
        for broker in self._brokers.values():
            broker.ends = {set_id: self._some_end() for set_id in self._image.replica_sets}
        self._active = ActiveController(
            own_id=BrokerId(OWN),
            image=self._image,
            config=config,
            clock=self._clock,
            scheduler=self._clock,
            ports=(self._log.submit, self._send),
        )
        self._term, self._is_leading = 1, False
        self._steady_ms = 0
        """For so long it leads, is awake and its log works."""

    def run(self, steps: int) -> Iterator[str]:
        """Go, and then leave it in peace; yield what is wrong first."""
        try:
            self._active.start()
            if self._random.random() < 0.5:
                self._connect_all()
            self._lead()
            ways = self._ways()
            for _ in range(steps):
                (do,) = self._random.choices([one for one, _ in ways], [n for _, n in ways])
                self._step(do)
                if self._wrong:
                    break
            if not self._wrong:
                self._peace()
        except (AssertionError, LookupError, PlatformError) as error:
            self._wrong.append(f"{type(error).__name__}: {error}")
        yield from (f"{one}, after {self._trail[-12:]}" for one in self._wrong[:1])

    def _ways(self) -> list[tuple[Callable[[], None], float]]:
        return [
            (self._turn, 12),
            (self._deliver, 8),
            (self._reply, 5),
            (self._close, 1.5),
            (self._connect, 4),
            (self._mute, 1),
            (self._restart, 1),
            (self._fail_log, 1),
            (self._grow, 3),
            (self._sleep, 0.7),
            (self._stick, 1),
            (self._settle_late, 3),
            (self._lose_lead, 0.6),
            (self._lead, 2),
            (self._operate, 3),
            (self._drain, 1.5),
            (self._policy, 1.5),
            (self._change_set, 2),
            (self._failover, 0.5),
        ]

    def _step(self, do: Callable[[], None]) -> None:
        self._trail.append(do.__name__[1:])
        do()
        self._clock.run()

    # --- time ----------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Some time passes; heartbeats and commands arrive."""
        for _ in range(self._random.choice((1, 2, 5))):
            self._pass()

    def _pass(self) -> None:
        self._clock.now_ms += TURN_MS
        self._judge.passes(TURN_MS)
        is_steady = self._is_leading and self._log.is_quick
        self._steady_ms = self._steady_ms + TURN_MS if is_steady else 0
        self._clock.run()
        self._beat()
        self._log.commit()
        self._clock.run()
        self._look_for_overdue()

    def _beat(self) -> None:
        for broker in self._brokers.values():
            if (
                broker.session_id
                and not broker.is_mute
                and self._clock.now_ms - broker.beat_ms >= BEAT_MS
            ):
                broker.beat_ms = self._clock.now_ms
                self._heartbeat(broker)

    def _heartbeat(self, broker: Broker) -> None:
        reports = tuple(self._report(broker, set_id) for set_id in sorted(broker.ends))
        self._judge.heard(broker.broker_id, broker.incarnation, reports)
        beat = s.Heartbeat(
            session_id=SessionId(broker.session_id),
            broker_id=broker.broker_id,
            incarnation=broker.incarnation,
            sets=reports,
        )
        answer = self._active.on_heartbeat(broker.broker_id, beat)
        if answer is not None and answer.is_registration_wanted:
            self._register(broker)

    def _report(self, broker: Broker, set_id: ReplicaSetId) -> s.SetReport:
        known, (epoch, end) = self._image.replica_sets[set_id], broker.ends[set_id]
        failed_in = broker.failed.get(set_id)
        return s.SetReport(
            replica_set_id=set_id,
            log_id=known.log_ids.get(broker.broker_id, ""),
            role="slave" if failed_in is None else s.FAILED,
            leader_epoch=known.leader_epoch if failed_in is None else failed_in,
            last_log_epoch=epoch,
            log_start_position=0,
            log_end_position=end,
            confirm_position=0,
        )

    def _look_for_overdue(self) -> None:
        """A silent broker is fenced in the end, however often the controller stands still."""
        if self._steady_ms < OVERDUE_MS or not self._image.is_failover_enabled:
            return
        for broker_id, one in self._judge.seen.items():
            is_fenced = self._image.brokers[broker_id].is_fenced
            if one.is_open and one.silent_ms > OVERDUE_MS and not is_fenced:
                self._wrong.append(f"broker {broker_id} is silent for {one.silent_ms} ms, and in")

    def _sleep(self) -> None:
        """The controller stands still, once or, with little between, several times."""
        for _ in range(self._random.choice((1, 1, 6))):
            self._clock.now_ms += self._random.choice((150, 400, 900))
            self._judge.slept(2 * TICK_MS)
            self._clock.run()
            self._pass()

    # --- leading, and the log ------------------------------------------------------------------

    def _lead(self) -> None:
        """Begin a term. What is left by others is gone on with at once."""
        if self._is_leading:
            return
        self._log.settle()
        self._clock.run()
        self._term += 1
        self._is_leading, self._steady_ms = True, 0
        self._log.term_of_own = self._term
        self._judge.leads(self._term)
        self._wire.clear()
        self._active.on_leadership(Leadership(OWN, ControllerEpoch(self._term), is_leader=True))
        self._clock.run()
        asked = {one.replica_set_id for *_, one in self._wire if isinstance(one, s.PrepareTransfer)}
        for replica_set in self._image.replica_sets.values():
            if self._is_to_move(replica_set) and replica_set.replica_set_id not in asked:
                self._wrong.append(
                    f"a new active controller does not go on with draining {replica_set}"
                )

    def _is_to_move(self, replica_set: ReplicaSetImage) -> bool:
        """Whether a draining broker leads it, and there is somebody to take it, for certain."""
        brokers = self._image.brokers
        if replica_set.master == NO_MASTER or not brokers[replica_set.master].is_draining:
            return False
        well = [
            broker for broker in replica_set.sync_state_set if self._is_well(broker, replica_set)
        ]
        targets = [broker for broker in well if not brokers[broker].is_draining]
        return replica_set.master in well and bool(targets)

    def _is_well(self, broker_id: BrokerId, replica_set: ReplicaSetImage) -> bool:
        seen, broker = self._judge.seen[broker_id], self._brokers[broker_id]
        is_heard = seen.is_open and seen.silent_ms + seen.forgiven_ms < SESSION_MS // 2
        known = self._image.brokers[broker_id]
        is_registered = not known.is_fenced and seen.incarnation == known.incarnation
        return is_heard and is_registered and replica_set.replica_set_id not in broker.failed

    def _lose_lead(self) -> None:
        """Another controller leads, and begins a mastership or two."""
        if not self._is_leading:
            return
        self._term += 1
        self._is_leading = False
        self._log.term_of_own = None
        self._active.on_leadership(Leadership(OTHER, ControllerEpoch(self._term), is_leader=False))
        self._log.settle()
        self._clock.run()
        for replica_set in list(self._image.replica_sets.values()):
            pool = [
                each for each in replica_set.candidates if not self._image.brokers[each].is_fenced
            ]
            if pool and self._random.random() < 0.5:
                self._log.apply(asks.mastership(self._random, replica_set, pool))

    def _stick(self) -> None:
        self._log.is_stuck = self._is_leading

    def _settle_late(self) -> None:
        self._log.settle_late()

    # --- brokers -------------------------------------------------------------------------------

    def _some(self) -> Broker:
        return self._random.choice(list(self._brokers.values()))

    def _some_set(self) -> ReplicaSetImage:
        return self._random.choice(list(self._image.replica_sets.values()))

    def _some_end(self) -> tuple[LeaderEpoch, int]:
        return LeaderEpoch(self._random.choice((0, 0, 1))), self._random.randint(1, 50)

    def _connect(self) -> None:
        """A link is there, in the place of an older one or of none; a heartbeat comes first."""
        self._greet(self._some())

    def _greet(self, one: Broker) -> None:
        self._sessions += 1
        one.session_id, one.is_mute = self._sessions, False
        self._judge.opened(one.broker_id)
        self._active.on_session_opened(one.broker_id, SessionId(one.session_id))
        one.beat_ms = self._clock.now_ms
        self._heartbeat(one)

    def _connect_all(self) -> None:
        for broker in self._brokers.values():
            self._greet(broker)

    def _close(self) -> None:
        self._hang_up(self._some())

    def _hang_up(self, one: Broker) -> None:
        if one.session_id:
            closed, one.session_id = one.session_id, 0
            self._judge.closed(one.broker_id)
            self._active.on_session_closed(one.broker_id, SessionId(closed))

    def _mute(self) -> None:
        """Its link stays, and nothing comes."""
        self._some().is_mute = True

    def _restart(self) -> None:
        one = self._some()
        self._hang_up(one)
        self._names += 1
        one.incarnation = f"walk {self._names}"
        one.failed.clear()

    def _register(self, broker: Broker) -> None:
        known = self._image.brokers[broker.broker_id]
        self._log.ask(asks.registration(known, broker.incarnation))

    def _fail_log(self) -> None:
        """A log fails: of the present mastership, or it is told of with an earlier one."""
        one, known = self._some(), self._some_set()
        behind = self._random.choice((0, 0, 1))
        one.failed[known.replica_set_id] = LeaderEpoch(known.leader_epoch - behind)

    def _grow(self) -> None:
        one, known = self._some(), self._some_set()
        one.ends[known.replica_set_id] = self._some_end()

    def _send(self, broker_id: BrokerId, message: object) -> None:
        self._judge.sends(message)
        broker = self._brokers[broker_id]
        if broker.session_id:
            self._wire.append((broker, broker.session_id, message))

    def _deliver(self) -> None:
        """A broker gets what was sent to it, and answers at once or later."""
        if not self._wire:
            return
        one, link, message = self._wire.pop(self._random.randrange(len(self._wire)))
        if isinstance(message, s.ProbeSets):
            known = [
                each.replica_set_id for each in message.sets if each.replica_set_id in one.ends
            ]
            answer = s.ProbeAnswer(
                request_id=message.request_id,
                reports=tuple(self._report(one, set_id) for set_id in known),
            )
            self._replies.append(partial(self._answer, one, link, answer))
        elif isinstance(message, s.PrepareTransfer):
            ready = s.TransferReady(
                request_id=message.request_id, is_ready=self._random.random() < 0.8
            )
            self._replies.append(partial(self._tell_ready, one, link, ready))
        if self._replies and self._random.random() < 0.7:
            self._replies.pop()()

    def _reply(self) -> None:
        if self._replies:
            self._replies.pop(self._random.randrange(len(self._replies)))()

    def _answer(self, broker: Broker, link: int, answer: s.ProbeAnswer) -> None:
        if broker.session_id == link:
            self._judge.answered(answer.request_id, broker.broker_id, answer.reports)
            self._active.on_answer(broker.broker_id, answer)

    def _tell_ready(self, broker: Broker, link: int, answer: s.TransferReady) -> None:
        if broker.session_id == link:
            if answer.is_ready:
                self._judge.ready(answer.request_id)
            self._active.on_answer(broker.broker_id, answer)

    # --- operators, masters --------------------------------------------------------------------

    def _operate(self) -> None:
        """Ask for an election or a transfer; nobody but the active controller takes it."""
        request = asks.operation(self._random, self._image)
        if isinstance(request, s.ElectRequest):
            self._judge.wanted.setdefault(request.replica_set_id, set()).add(request.master)
        self._active.on_operation(request, lambda _: None)

    def _drain(self) -> None:
        self._log.ask(asks.drain(self._random, self._image))

    def _policy(self) -> None:
        self._log.ask(asks.policy(self._random, self._image))

    def _failover(self) -> None:
        self._log.ask(c.SetFailover(is_enabled=self._random.random() < 0.6))

    def _change_set(self) -> None:
        command = asks.change_of_set(self._random, self._image)
        if command is not None:
            self._log.ask(command)

    # --- peace ---------------------------------------------------------------------------------

    def _peace(self) -> None:
        """End all faults; masters take everybody in again."""
        self._trail.append("peace")
        self._log.settle_late()
        self._lead()
        self._log.ask(c.SetFailover(is_enabled=True))
        for broker in self._brokers.values():
            broker.failed.clear()
            broker.ends = dict.fromkeys(broker.ends, (LeaderEpoch(0), 1))
        self._connect_all()
        for turn in range(PEACE_TURNS):
            if turn == PEACE_TURNS // 2:
                self._judge.left.clear()
            if turn % 10 == 0:
                self._change_set()
            self._pass()
            for _ in range(len(self._wire)):
                self._deliver()
            while self._replies:
                self._reply()
            if self._wrong:
                return
        self._look_at_peace()

    def _look_at_peace(self) -> None:
        brokers, sets = self._image.brokers, self._image.replica_sets.values()
        for replica_set in sets:
            if replica_set.master == NO_MASTER:
                self._wrong.append(f"nobody leads {replica_set}, though everybody is there")
        for broker_id, known in brokers.items():
            is_leading = any(replica_set.master == broker_id for replica_set in sets)
            is_in = any(broker_id in replica_set.sync_state_set for replica_set in sets)
            if known.is_draining and is_in and not is_leading and broker_id not in self._judge.left:
                self._wrong.append(f"broker {broker_id} is drained, and is not asked to leave")
