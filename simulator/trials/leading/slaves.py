"""The actions of slaves in a walk of a master, and the delivery of their messages."""

from penstock.base.ids import BrokerId, LeaderEpoch, Position, ReplicaId, ReplicaSetId
from penstock.replication.messages import (
    NOT_SAID,
    Acknowledge,
    Begin,
    Goodbye,
    HaMessage,
    Hello,
    HelloAnswer,
    KeepAlive,
    LogRun,
    Refused,
)
from simulator.trials.leading.cast import Slave, broker_of
from simulator.trials.leading.judged import Judged
from simulator.trials.stand_ins import PlainLink, common_end


class Slaves(Judged):
    """See the module."""

    def _slave(self) -> Slave:
        return self._random.choice(list(self._slaves.values()))

    def _connect(self, slave: Slave | None = None) -> None:
        """A slave greets, on a new link or the one it has; one that it leaves may end later."""
        slave = slave or self._slave()
        if slave.link is None or self._random.random() < 0.3:
            if slave.link is not None:
                slave.older.append(slave.link)
            slave.link = PlainLink(slave.broker_id)
            slave.read_ms = NOT_SAID
            self._server.on_link(slave.link)  # type: ignore[arg-type]
            slave.unsaid.clear()
        slave.is_streaming = False
        # It agrees with the master's log as far as it has any; what it has besides is cut first.
        epoch, replica_id = (
            self._image.leader_epoch,
            self._truth.replica_ids[BrokerId(slave.broker_id)],
        )
        if self._random.random() < 0.15:
            epoch = LeaderEpoch(epoch + self._random.choice((-1, 1)))
        if self._random.random() < 0.1:
            replica_id = ReplicaId(replica_id - 1)
        shape = slave.shape()
        self._say(
            slave,
            Hello(self._member.replica_set_id, epoch, replica_id, slave.incarnation, shape),
        )

    def _say(self, slave: Slave, message: HaMessage) -> None:
        slave.unsaid.append(message)

    def _leave(self) -> None:
        """A link ends: the present one, or one that was left before."""
        slave = self._slave()
        if slave.older and self._random.random() < 0.6:
            self._close(slave, slave.older.pop(0))
        elif slave.link is not None:
            link, slave.link = slave.link, None
            self._close(slave, link)

    def _close(self, slave: Slave, link: PlainLink) -> None:
        self._lost(slave, link)
        if link is slave.link or slave.link is None:
            slave.is_streaming = False
            slave.unsaid.clear()
        link.close("the walk ends it")

    def _greet_and_go(self) -> None:
        """A slave that is not there greets, and is gone before it follows."""
        slave = self._slave()
        if slave.link is not None:
            return
        self._connect(slave)
        link = slave.link
        self._arrives(slave, slave.unsaid.pop(0))
        if link is not None and link.is_open:
            slave.link = None
            self._close(slave, link)

    def _restart(self) -> None:
        """Another process of a slave; the controllers know of it at once, or later."""
        slave = self._slave()
        slave.process += 1
        if slave.link is not None:
            slave.older.append(slave.link)
            slave.link = None
        slave.unsaid.clear()
        slave.is_streaming = False
        if self._random.random() < 0.3:  # of a log that is flushed later
            slave.end = max(slave.start, slave.end - self._random.choice((1, 100, 700)))
            slave.epochs = tuple(epoch for epoch in slave.epochs if epoch[1] < slave.end)
        if self._random.random() < 0.7:
            self._register(slave)

    def _register(self, slave: Slave) -> None:
        broker = self._brokers[BrokerId(slave.broker_id)]
        epoch = broker.broker_epoch + 1
        self._brokers[BrokerId(slave.broker_id)] = broker_of(
            slave.broker_id, slave.incarnation, epoch
        )

    def _wipe(self) -> None:
        """A slave comes back without its log: the controllers know another one of it."""
        slave, one = self._slave(), self._truth
        self._restart_of(slave)
        slave.epochs, slave.start, slave.end = (), 0, 0
        in_step = tuple(who for who in one.sync_state_set if who != slave.broker_id)
        self._record(
            sync_state_set=in_step,
            replica_ids={**one.replica_ids, slave.broker_id: one.next_replica_id},
            next_replica_id=one.next_replica_id + 1,
        )

    def _restart_of(self, slave: Slave) -> None:
        slave.process += 1
        if slave.link is not None:
            link, slave.link = slave.link, None
            if self._random.random() < 0.5:
                self._close(slave, link)
            else:
                slave.older.append(link)
        slave.unsaid.clear()
        slave.is_streaming = False
        self._register(slave)

    def _deliver(self) -> None:
        """What one slave has said arrives; and what it was sent since is read there."""
        slave = self._slave()
        self._hear(slave)
        for _ in range(self._random.choice((1, 1, 2, 5))):
            if slave.unsaid and slave.link is not None:
                self._arrives(slave, slave.unsaid.pop(0))
                self._clock.run()
        self._hear(slave)

    def _arrives(self, slave: Slave, message: HaMessage) -> None:
        link, model, now_ms = slave.link, self._model, self._clock.now_ms
        assert link is not None
        who = slave.broker_id
        is_now = getattr(message, "leader_epoch", -1) == model.leader_epoch
        is_his = self._greeted_on.get(who) is link
        match message:
            case Hello():
                if is_his and message.leader_epoch >= model.leader_epoch:
                    model.gone(who, now_ms)
                    del self._greeted_on[who]
                slave.hello = message
            case Begin() if is_now and is_his:
                model.begun(who, message.position, message.whole_from)
            case Acknowledge() if is_now and is_his:
                model.acknowledged(who, message.position, message.read_ms)
            case Goodbye() if is_now and is_his:
                model.gone(who, now_ms)
        model.sees(self._image, self._log_now(), now_ms)
        link.hear(message)
        self._hear(slave)

    def _hear(self, slave: Slave) -> None:
        """A slave reads what was sent."""
        link = slave.link
        if link is None:
            return
        said, link.said = link.said, []
        for message in said:
            self._told(slave, link, message)
        if not link.is_open and slave.link is link:
            self._lost(slave, link)
            slave.link = None
            slave.is_streaming = False
            slave.unsaid.clear()

    def _lost(self, slave: Slave, link: PlainLink) -> None:
        """A link has ended: its slave does not follow any more."""
        if self._greeted_on.get(slave.broker_id) is link:
            self._model.gone(slave.broker_id, self._clock.now_ms)
            del self._greeted_on[slave.broker_id]

    def _told(self, slave: Slave, link: PlainLink, message: HaMessage) -> None:
        who, now = slave.broker_id, self._clock.now_ms
        match message:
            case HelloAnswer():
                self._greets(slave, link, message)
            case LogRun() if slave.is_streaming and message.leader_epoch == self._epoch:
                self._fed(slave, message)
            case KeepAlive():
                slave.read_ms = message.said_ms
            case Refused() if message.leader_epoch == self._epoch:
                if self._greeted_on.get(who) is link:
                    self._model.gone(who, now)
                    del self._greeted_on[who]
                slave.is_streaming = False

    def _greets(self, slave: Slave, link: PlainLink, message: HelloAnswer) -> None:
        """A master has told a slave of its log: by that one cuts its own."""
        hello, who = slave.hello, slave.broker_id
        assert hello is not None
        if hello.leader_epoch != self._image.leader_epoch:
            self._found(f"greets a slave of epoch {hello.leader_epoch} in {self._epoch}")
        if hello.replica_id != self._image.replica_ids.get(BrokerId(who)):
            self._found(f"greets log {hello.replica_id} of {who}, which is not registered")
        equal = common_end(slave.shape(), self._shape())
        if self._is_resuming and equal < slave.end:
            self._found(f"resumes, and lets {who} cut from {slave.end} to {equal}")
        if message.leader_epoch != self._epoch:
            return
        self._model.gone(who, self._clock.now_ms)
        self._model.greeted(who, hello.replica_id, hello.incarnation, self._clock.now_ms)
        self._greeted_on[who] = link
        position = equal
        is_other = equal < slave.end and hello.shape == slave.shape()
        if is_other and self._random.random() < 0.3:
            self._begin_uncut(slave, link)
        if slave.start > position or position < self._log.start_position:  # installs, here at once
            slave.start = self._log.start_position
            position = self._log.durable_position
        slave.end = position
        slave.epochs = tuple(one for one in self._log.epochs if one[1] < slave.end)
        slave.is_streaming = True
        slave.sent = position
        if position == hello.shape.end_position and slave.start == hello.shape.start_position:
            self._say(
                slave,
                Begin(
                    ReplicaSetId(self._set_id),
                    LeaderEpoch(self._epoch),
                    Position(position),
                    Position(slave.start),
                ),
            )
        else:  # the log is another one than it has told of: it greets anew
            shape = slave.shape()
            epoch, replica_id = self._epoch, hello.replica_id
            slave.is_streaming = False
            self._say(
                slave,
                Hello(
                    ReplicaSetId(self._set_id),
                    LeaderEpoch(epoch),
                    replica_id,
                    slave.incarnation,
                    shape,
                ),
            )

    def _begin_uncut(self, slave: Slave, link: PlainLink) -> None:
        """A slave begins behind where the logs are equal."""
        link.hear(
            Begin(
                ReplicaSetId(self._set_id),
                LeaderEpoch(self._epoch),
                Position(slave.end),
                Position(slave.start),
            )
        )
        session = self._master_set.sessions.get(BrokerId(slave.broker_id))
        if session is not None and session.is_streaming:
            self._found(f"lets {slave.broker_id} go on at {slave.end}, where the logs differ")

    def _fed(self, slave: Slave, message: LogRun) -> None:
        end = message.position + len(message.data)
        if message.data and message.position == slave.end:
            if not slave.epochs or slave.epochs[-1][0] < message.frames_epoch:
                slave.epochs = (*slave.epochs, (message.frames_epoch, message.position))
            slave.end = end
        slave.sent = max(slave.sent, end)
        if self._random.random() < 0.7:
            self._say(slave, self._acknowledgement(slave))

    def _acknowledgement(self, slave: Slave) -> Acknowledge:
        set_id, epoch = ReplicaSetId(self._set_id), LeaderEpoch(self._epoch)
        return Acknowledge(set_id, epoch, Position(slave.end), slave.read_ms)

    def _forge(self) -> None:
        """A slave says what can not be, or what was true in a mastership before."""
        slave, draw = self._slave(), self._random
        link = slave.link
        if link is None or not slave.is_streaming or slave.unsaid:
            return
        who, counted = slave.broker_id, self._member.confirm.acknowledged(BrokerId(slave.broker_id))
        session = self._master_set.sessions.get(BrokerId(who))
        if session is None or not session.is_streaming or self._greeted_on.get(who) is not link:
            return
        known = self._model.slave(who)
        if draw.random() < 0.5:
            late: HaMessage = Acknowledge(
                ReplicaSetId(self._set_id), LeaderEpoch(self._epoch - 1), session.next_position
            )
            if draw.random() < 0.3:
                late = Goodbye(ReplicaSetId(self._set_id), LeaderEpoch(self._epoch - 1))
            link.hear(late)
            if not link.is_open or self._master_set.sessions.get(BrokerId(who)) is not session:
                self._found(f"ends the session of {who} by a late {late}")
            if (
                self._member.confirm.acknowledged(BrokerId(who)) != counted
                or known.held < session.acknowledged
            ):
                self._found(f"counts a late {late}")
            return
        beyond = self._log.end_position + draw.choice((1, 500))
        link.hear(
            Acknowledge(ReplicaSetId(self._set_id), LeaderEpoch(self._epoch), Position(beyond))
        )
        if link.is_open:
            self._found(f"takes that {who} holds {beyond}, and its log ends before")
        self._hear(slave)
