"""A random walk of a slave: the production code of following, on a log of plain bytes.

    masterships, one after the other, each with a log of its own ─► FollowedSet, member, align
        links that end, answers that come late or on no link, frames of an earlier mastership
        a log that takes a part, is slow to sync and to cut; promises ─► each message is checked

Bytes that a slave acknowledges are durable there and equal to its master's. It cuts exactly to
where both logs are equal, and nothing that is confirmed, and begins only after its master has
answered on this link. Without further faults it gets everything, and acknowledges it.

Installs are tested by the trials of disks; a walk ends when one begins.

Source: docs/adr/0064.
"""

from collections.abc import Callable, Iterator
from random import Random

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, LeaderEpoch, Position, ReplicaId, ReplicaSetId
from penstock.replica.follow_parts import FollowParts, FollowStats
from penstock.replica.followed_set import FollowedSet, State
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.alignment import LogShape
from penstock.replication.config import ReplicationConfig
from penstock.replication.epochs import EpochStart
from penstock.replication.messages import (
    Acknowledge,
    Begin,
    HaMessage,
    Hello,
    HelloAnswer,
    LogRun,
    ManifestWanted,
    Reason,
    Refused,
)
from simulator.trials.stand_ins import SEGMENT_BYTES, Moment, PlainLog, common_end

MASTER, SLAVE, SET = 1, 2, ReplicaSetId(1)
WRITES = (1, 40, 700, 16_384)
HEAVY = 65_536
ROUNDS = 40
"""In peace: a round is a greeting, a cut, a run, or a sync."""


class CutLog(PlainLog):
    """A log that keeps where it was cut to."""

    def __init__(self, epochs: list[tuple[int, int]], end: int) -> None:
        super().__init__(epochs, 0, end)
        self.cuts: list[int] = []

    def truncate(self, position: int, done: Callable[[PlatformError | None], None]) -> None:
        """Note it."""
        self.cuts.append(position)
        super().truncate(position, done)


class FollowingWalk:
    """See the module. `run` yields what is wrong, up to the first step that is."""

    def __init__(self, config: ReplicationConfig, draw: Random) -> None:
        self._config = config
        self._random = draw
        self._clock = Moment(10_000)
        self._wrong: list[str] = []
        self._done: list[str] = []
        self._confirmed = draw.choice((0, 200, 300))
        """What masters have called confirmed: every later one has it."""
        self._master = PlainLog([(1, 0), (3, 200)], 0, 600)
        end = draw.choice((0, 150, 300, 450, 600, 650))
        epochs = [epoch for epoch in self._master.epochs if epoch[1] < end]
        if end > 300 and draw.random() < 0.5:  # a tail that no later master has
            epochs.append((4, draw.choice((300, 310))))
        self._log = CutLog(epochs, end)
        self._log.durable_position = draw.randint(min(end, self._confirmed), end)
        self._member = ReplicaSetMember(SET, SLAVE, self._log, self._clock.call_soon)  # type: ignore[arg-type]
        self._member.confirm_position = Position(min(end, self._confirmed))
        self._is_heavy = draw.random() < 0.2
        """Much comes, and the log takes nothing for a long time."""
        self._log.takes = 0 if self._is_heavy else SEGMENT_BYTES
        self._is_promised = False
        self._is_ended = False
        self._epoch = 4
        self._told = self._shape(self._master)
        """What the master has answered last."""
        self._followed: FollowedSet | None = None
        self._succeed()

    def run(self, steps: int) -> Iterator[str]:
        """Go, and then leave it in peace."""
        events = {
            self._write: 8,
            self._feed: 14,
            self._answer: 10,
            self._take: 8,
            self._sync: 8,
            self._cut: 6,
            self._connect: 4,
            self._late: 3,
            self._refuse: 1,
            self._promise: 2,
            self._time: 6,
            self._succeed: 2,
            self._shrink: 1,
        }
        if self._is_heavy:
            fixed = {self._take: 0, self._succeed: 0, self._late: 0, self._cut: 20}
            events |= fixed | {self._connect: 10, self._answer: 25, self._feed: 20}
        kinds, weights = list(events), list(events.values())
        for _ in range(steps):
            (event,) = self._random.choices(kinds, weights)
            self._step(event.__name__, event)
            if self._wrong or self._is_ended:
                break
        if not (self._wrong or self._is_ended):
            self._in_peace()
        yield from (f"{one}, after {' '.join(self._done[-30:])}" for one in self._wrong[:1])

    def _step(self, name: str, event: Callable[[], object]) -> None:
        self._done.append(name.strip("_"))
        event()
        self._clock.run()
        self._look()

    def _found(self, text: str) -> None:
        self._wrong.append(text)

    # --- the master ----------------------------------------------------------------------------

    def _succeed(self) -> None:
        """Another mastership: its log has what is confirmed, and perhaps not what came behind."""
        if self._followed is not None:
            if self._followed.is_busy:
                return
            self._followed.close()
        self._epoch += 1
        log = self._master
        kept = self._random.choice((log.end_position, self._random.randint(200, log.end_position)))
        kept = max(kept, self._confirmed)
        epochs = [epoch for epoch in log.epochs if epoch[1] < kept]
        self._master = PlainLog([*epochs, (self._epoch, kept)], 0, kept + 8)
        self._is_promised = False
        self._member.become_slave(LeaderEpoch(self._epoch), BrokerId(MASTER))
        parts = FollowParts(
            config=self._config,
            clock=self._clock,
            scheduler=self._clock,
            replica_id=lambda: ReplicaId(7),
            incarnation="copy",
            may_cut_confirmed=lambda: False,
            on_offence=lambda reason: self._found(f"calls it an offence: {reason}"),
            is_promised=lambda _: self._is_promised,
        )
        self._followed = FollowedSet(self._member, LeaderEpoch(self._epoch), parts, FollowStats())
        self._link = 0
        self._connect()

    def _shrink(self) -> None:
        """The master resumes, without the last of what it had; the links to it have ended."""
        log = self._master
        least = max(self._confirmed, log.epochs[-1][1] + 8)
        log.end_position = self._random.randint(least, max(least, log.end_position))
        log.written_position = log.durable_position = log.end_position
        self._connect()

    def _shape(self, log: PlainLog) -> LogShape:
        epochs = tuple(EpochStart(LeaderEpoch(epoch), Position(at)) for epoch, at in log.epochs)
        return LogShape(epochs, Position(log.start_position), Position(log.end_position))

    def _write(self) -> None:
        self._master.append(HEAVY if self._is_heavy else self._random.choice(WRITES))
        if self._random.random() < 0.3:
            self._confirmed = self._random.randint(self._confirmed, self._acknowledged_max())

    def _acknowledged_max(self) -> int:
        """Return what may be confirmed: what the slave has acknowledged in this mastership."""
        return max(self._confirmed, self._acknowledged)

    def _connect(self) -> None:
        """The link ends, if there is one, and another one is there."""
        followed = self._followed
        assert followed is not None
        followed.detach()
        self._link += 1
        self._greeted: list[HelloAnswer] = []
        """Answers that are on their way on this link."""
        self._is_answered = self._is_fed = False
        self._acknowledged, self._fed_to = 0, 0
        link = self._link
        followed.attach(lambda message: self._says(link, message))

    def _answer(self) -> None:
        followed = self._followed
        if self._greeted and followed is not None:
            self._is_answered = True
            answer = self._greeted.pop(0)
            self._told = answer.shape
            followed.on_message(answer)

    def _run(self, position: int, size: int) -> LogRun:
        run = self._master.read_run(position, size, self._master.end_position)
        return LogRun(
            SET,
            LeaderEpoch(self._epoch),
            run.leader_epoch,
            Position(position),
            Position(self._confirmed),
            Position(0),
            Position(SEGMENT_BYTES),
            run.data,
        )

    def _feed(self) -> None:
        """The master sends what comes next, as far as it may be ahead."""
        followed = self._followed
        if not self._is_fed or followed is None:
            return
        room = self._config.in_flight_bytes - (self._fed_to - self._acknowledged)
        run = self._run(
            self._fed_to, min(room, HEAVY if self._is_heavy else self._random.choice(WRITES))
        )
        self._fed_to += len(run.data)
        followed.on_message(run)

    def _refuse(self) -> None:
        if self._followed is not None and self._is_fed:
            self._is_fed = False
            self._greeted.clear()
            self._followed.on_message(
                Refused(SET, LeaderEpoch(self._epoch), Reason.NOT_READY, LeaderEpoch(self._epoch))
            )

    def _late(self) -> None:
        """What a master of before has sent arrives now."""
        followed, end = self._followed, self._log.end_position
        assert followed is not None
        data = memoryview(bytes(self._random.choice((8, 300))))
        epoch = self._epoch - 1
        followed.on_message(
            LogRun(
                SET,
                LeaderEpoch(epoch),
                LeaderEpoch(epoch),
                Position(end),
                Position(0),
                Position(0),
                Position(SEGMENT_BYTES),
                data,
            )
        )
        begun = EpochStart(LeaderEpoch(epoch), Position(0))
        shape = LogShape((begun,), Position(0), Position(end))
        followed.on_message(HelloAnswer(SET, LeaderEpoch(epoch), shape))

    # --- the own disk, time, promises ----------------------------------------------------------

    def _take(self) -> None:
        """The log takes more, to the end or to some place within what waits."""
        self._log.takes = self._random.choice((0, 8, 500, 20_000, SEGMENT_BYTES))
        self._log.on_append_ready()

    def _sync(self) -> None:
        if not self._log.is_busy:
            self._log.sync(self._random.randint(self._log.durable_position, self._log.end_position))

    def _cut(self) -> None:
        self._log.finish()

    def _time(self) -> None:
        assert self._followed is not None
        self._clock.now_ms += self._random.choice((1, 30, 300))
        self._followed.tick()

    def _promise(self) -> None:
        self._is_promised = not self._is_promised

    # --- what the slave says -------------------------------------------------------------------

    def _says(self, link: int, message: HaMessage) -> None:
        if link != self._link:
            self._found(f"speaks on a link that has ended: {message}")
            return
        match message:
            case Hello():
                self._greets(message)
            case Begin():
                self._begins(message)
            case Acknowledge():
                if not self._is_fed:
                    self._found("acknowledges where it does not follow")
                self._holds(message.position)
            case ManifestWanted():
                equal = common_end(self._shape(self._log), self._shape(self._master))
                if equal > 0 or self._log.end_position == 0:
                    self._found(f"copies all, though the logs are equal up to {equal}")
                self._is_ended = True
            case _:
                pass

    def _greets(self, message: Hello) -> None:
        if self._is_fed:
            self._found("greets anew, though all has come in order")
        self._is_fed = self._is_answered = False
        self._greeted = [HelloAnswer(SET, LeaderEpoch(self._epoch), self._shape(self._master))]
        if message.shape.end_position != self._log.end_position:
            self._found(f"tells of another log than its own: {message.shape}")

    def _begins(self, message: Begin) -> None:
        if not self._is_answered:
            self._found("begins before its master has answered on this link")
        if message.position != self._log.end_position:
            self._found(f"begins at {message.position}, and its log ends elsewhere")
        self._holds(message.position)
        self._is_fed, self._fed_to = True, message.position

    def _holds(self, position: int) -> None:
        log = self._log
        if self._is_promised:
            self._found(f"acknowledges {position}, and has promised not to")
        if position > log.durable_position:
            self._found(f"acknowledges {position}, and {log.durable_position} is durable")
        if position < self._acknowledged:
            self._found(f"acknowledges {position}, and before that {self._acknowledged}")
        if common_end(self._shape(log), self._shape(self._master)) < position:
            self._found(f"acknowledges {position}, and its master has other bytes below it")
        self._acknowledged = position

    # --- what is wrong -------------------------------------------------------------------------

    def _look(self) -> None:
        log, followed = self._log, self._followed
        assert followed is not None
        equal = common_end(self._shape(log), self._shape(self._master))
        for position in log.cuts:
            told = common_end(self._shape(log), self._told)
            if log.is_busy and position != told:
                self._found(f"cuts to {position}, and the logs are equal up to {told}")
            if position < self._member.confirm_position:
                self._found(f"cuts to {position}, and more is confirmed")
        log.cuts.clear()
        if self._is_fed and equal < log.end_position:
            self._found(f"has {log.end_position}, and equal to its master's is {equal}")
        if self._member.confirm_position > self._confirmed:
            self._found(f"calls {self._member.confirm_position} confirmed: {self._confirmed} is")
        if followed.state is State.STOPPED:
            self._is_ended = True
            if equal >= self._member.confirm_position:
                self._found(f"stops: {followed.stop_reason}, and all confirmed is equal")

    def _in_peace(self) -> None:
        """End all faults."""
        self._is_promised = False
        for _ in range(ROUNDS):
            self._log.takes = SEGMENT_BYTES
            for event in (self._answer, self._cut, self._log.on_append_ready, self._feed):
                self._step("peace", event)
            self._log.sync(self._log.end_position)
            self._clock.now_ms += self._config.reconnect_ms_max
            self._step("peace", self._followed.tick)  # type: ignore[union-attr]
            if self._wrong or self._is_ended:
                return
        # The master is not written to: what it has is far less than so many runs bring.
        while self._fed_to < self._master.end_position and self._is_fed:
            self._fed_to_the_end()
        held = self._acknowledged
        if held != self._master.end_position:
            self._found(f"is left in peace, and acknowledges {held} of {self._master.end_position}")

    def _fed_to_the_end(self) -> None:
        assert self._followed is not None
        run = self._run(self._fed_to, 65_536)
        self._fed_to += len(run.data)
        self._log.takes = SEGMENT_BYTES
        self._followed.on_message(run)
        self._log.sync(self._log.end_position)
