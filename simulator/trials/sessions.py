"""Random walks of the sessions between brokers and controllers, with the production code.

    links that arrive out of order, late closes, messages on replaced links, heartbeats of an
        earlier session, two processes with one id           ─► ControllerService ─► the controller
    answers and questions of controllers that were replaced     ─► SessionClient     ─► the broker

One session of each broker counts, and only controllers of the newest epoch are relied on. What the
production code passes on to the controller and the broker is compared with a simple model of that.

Source: docs/adr/0064; RocketMQ #11045, #11046.
"""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.base.ids import BrokerId, ControllerEpoch, PeerId, RequestId, SessionId
from penstock.controller.active.liveness import Liveness
from penstock.controller.active.own_pauses import OwnPauses
from penstock.controller.replicated_log import NO_ENTRY, NO_LEADER, Leadership, MachineIndex
from penstock.controller.session import (
    NO_HEARTBEAT,
    Heartbeat,
    HeartbeatAnswer,
    ProbeAnswer,
    ProbeSets,
    ReleasePromises,
    TransferReady,
)
from penstock.runtime.session.client import SessionClient, SessionIdentity, SessionPorts
from penstock.runtime.session.config import SessionConfig
from penstock.runtime.session.service import ControllerService
from simulator.trials.stand_ins import Moment

BROKERS = (1, 2)
PROCESS_BITS = 32
OWNER = "its disks"


class Channel:
    """One end of a session, whose messages are put in by hand."""

    def __init__(self, peer_id: int, session_id: SessionId) -> None:
        self.peer_id = peer_id
        self.session_id = session_id
        self.is_closed = False
        self.said: list[object] = []
        self.on_message: Callable[[Any], None] = _ignored
        self.on_closed: Callable[[str], None] = _ignored

    def start(self, on_message: Callable[[Any], None], on_closed: Callable[[str], None]) -> None:
        """Begin to receive."""
        self.on_message, self.on_closed = on_message, on_closed

    def send(self, message: object) -> None:
        """Keep it."""
        self.said.append(message)

    def close(self, reason: str) -> None:
        """Close it; the owner is notified later."""
        del reason
        self.is_closed = True


class Brain:
    """Records what a controller is told about brokers."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, int]] = []
        self.liveness = Liveness(1_000, OwnPauses(1_000))

    def on_leadership(self, leadership: Leadership) -> None:
        """Nothing comes of it."""

    def is_owner(self, broker_id: int, identity: str) -> bool:
        """Whether it has the disks."""
        del broker_id
        return identity == OWNER

    def on_session_opened(self, broker_id: int, session_id: SessionId) -> None:
        """Note it."""
        self.told.append(("opened", broker_id, session_id))
        self.liveness.opened(BrokerId(broker_id), SessionId(session_id), 0)

    def on_session_closed(self, broker_id: int, session_id: SessionId) -> None:
        """Note it."""
        self.told.append(("closed", broker_id, session_id))
        self.liveness.closed(BrokerId(broker_id), SessionId(session_id))

    def on_heartbeat(self, broker_id: int, heartbeat: Heartbeat) -> HeartbeatAnswer | None:
        """Note whether it counts."""
        if self.liveness.heard(BrokerId(broker_id), heartbeat.session_id, heartbeat.incarnation, 0):
            self.told.append(("heard", broker_id, heartbeat.session_id))
        return None

    def on_answer(self, broker_id: int, answer: ProbeAnswer | TransferReady) -> None:
        """Note it; the request says on which session it came."""
        self.told.append(("word", broker_id, answer.request_id))


@dataclass(slots=True)
class Driver:
    """A controller that leads."""

    leadership: Leadership = field(
        default_factory=lambda: Leadership(PeerId(9), ControllerEpoch(1), is_leader=True)
    )
    applied_index: MachineIndex = NO_ENTRY


class ServiceWalk:
    """The controller's end. `run` yields what is wrong, up to the first step that is."""

    def __init__(self, draw: Random) -> None:
        self._random = draw
        self._brain = Brain()
        self._service = ControllerService(
            own_id=BrokerId(9),
            driver=Driver(),  # type: ignore[arg-type]
            make_brain=lambda _: self._brain,  # type: ignore[arg-type, return-value]
            spawn=_dropped,
            operators=None,  # type: ignore[arg-type]  # no operator asks in this walk
        )
        self._channels: dict[int, list[Channel]] = {one: [] for one in BROKERS}
        self._counted: dict[int, Channel] = {}
        self._rivals: list[Channel] = []
        """Of processes that are not known to be the broker."""
        self._numbers = dict.fromkeys(BROKERS, 5)
        self._process = 1

    def run(self, steps: int) -> Iterator[str]:
        """Go."""
        events = {self._open: 3, self._close: 2, self._heartbeat: 6, self._word: 3}
        kinds, weights = list(events), list(events.values())
        for _ in range(steps):
            (event,) = self._random.choices(kinds, weights)
            broker_id = self._random.choice(BROKERS)
            self._brain.told.clear()
            expected = event(broker_id)
            told = [one for one in self._brain.told if one[0] != "opened"]
            if told != expected:
                yield f"{event.__name__.strip('_')} of {broker_id}: is told {told}, not {expected}"
                return
            if wrong := self._wrong_way(broker_id):
                yield wrong
                return

    def _wrong_way(self, broker_id: int) -> str:
        """Check the link on which a message to a broker is sent."""
        channels = self._channels[broker_id]
        for channel in channels:
            channel.said.clear()
        self._service.send(
            BrokerId(broker_id),
            ReleasePromises(request_id=RequestId(1), controller_epoch=ControllerEpoch(1), sets=()),
        )
        reached = [channel.session_id for channel in channels if channel.said]
        counted = self._counted.get(broker_id)
        if reached == ([] if counted is None else [counted.session_id]):
            return ""
        known = None if counted is None else counted.session_id
        return f"speaks to {broker_id} on {reached}, and its session is {known}"

    def _open(self, broker_id: int) -> list[tuple[str, int, int]]:
        """A link arrives: the newest of its process, an older one, or one of another process."""
        draw = self._random
        self._numbers[broker_id] += 1
        number = self._numbers[broker_id] - draw.choice((0, 0, 0, 2, 3))
        if draw.random() < 0.2:
            self._process += 1
        process = draw.choice((self._process, self._process, max(1, self._process - 1)))
        channel = Channel(broker_id, SessionId(process << PROCESS_BITS | number))
        if channel.session_id in {one.session_id for one in self._channels[broker_id]}:
            return []
        self._channels[broker_id].append(channel)
        self._service.on_channel(channel)
        before = self._counted.get(broker_id)
        if before is not None and before.session_id >> PROCESS_BITS != process:
            self._rivals.append(channel)
        elif before is None or before.session_id < channel.session_id:
            self._counted[broker_id] = channel
        return []

    def _close(self, broker_id: int) -> list[tuple[str, int, int]]:
        """The end of a link is heard of: the newest, or one that was replaced."""
        channels = self._channels[broker_id]
        if not channels:
            return []
        channel = channels.pop(self._random.randrange(len(channels)))
        channel.is_closed = True
        channel.on_closed("the walk ends it")
        if channel in self._rivals:
            self._rivals.remove(channel)
        if self._counted.get(broker_id) is not channel:
            return []
        del self._counted[broker_id]
        return [("closed", broker_id, channel.session_id)]

    def _heartbeat(self, broker_id: int) -> list[tuple[str, int, int]]:
        """A heartbeat of this session, or one of another that comes late."""
        draw, channels = self._random, self._channels[broker_id]
        if not channels:
            return []
        channel = draw.choice(channels)
        session_id = draw.choice((channel.session_id, channel.session_id, channels[0].session_id))
        identity = OWNER if draw.random() < 0.8 else "of somebody else"
        before = self._counted.get(broker_id)
        is_rival = channel in self._rivals
        channel.on_message(
            Heartbeat(
                session_id=SessionId(session_id),
                broker_id=BrokerId(broker_id),
                incarnation="copy",
                sets=(),
                identity=identity,
            )
        )
        if before is not channel and not is_rival:
            return []
        if identity != OWNER:
            if before is not channel:
                return []
            del self._counted[broker_id]
            self._rivals.append(channel)
            return [("closed", broker_id, channel.session_id)]
        if is_rival:
            self._rivals.remove(channel)
        self._counted[broker_id] = channel
        return [("heard", broker_id, session_id)] if session_id == channel.session_id else []

    def _word(self, broker_id: int) -> list[tuple[str, int, int]]:
        """An answer comes, perhaps on a session that was replaced."""
        draw, channels = self._random, self._channels[broker_id]
        if not channels:
            return []
        channel = draw.choice(channels)
        request_id = channel.session_id & 0xFFFF
        ready = TransferReady(request_id=RequestId(request_id), is_ready=False)
        channel.on_message(
            draw.choice((ready, ProbeAnswer(request_id=RequestId(request_id), reports=())))
        )
        if self._counted.get(broker_id) is not channel:
            return []
        return [("word", broker_id, request_id)]


class Broker:
    """Notes what controllers bring about here."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def reports(self) -> tuple[()]:
        """There is nothing to report."""
        return ()

    def probe(self, request: ProbeSets) -> tuple[()]:
        """Note it."""
        self.told.append(f"binds itself to epoch {request.controller_epoch}")
        return ()

    def note_controller(self, sent_ms: int, *, is_caught_up: bool) -> None:
        """Note it."""
        del sent_ms, is_caught_up
        self.told.append("has a lease")

    async def register(self) -> None:
        """Nothing comes of it."""


@dataclass(slots=True)
class Session:
    """A broker's session to one controller."""

    controller_id: int
    session_id: int = 1
    unanswered_count: int = 0

    def send(self, message: object) -> None:
        """Drop the message."""

    def heartbeats(self, now_ms: int) -> None:
        """Each answer names its own."""

    def sent_ms_of(self, answer: HeartbeatAnswer) -> int | None:
        """Return it as it stands there."""
        return None if answer.sent_ms == NO_HEARTBEAT else answer.sent_ms


class ClientWalk:
    """The broker's end; within a running loop. `run` yields what is wrong."""

    def __init__(self, draw: Random) -> None:
        self._random = draw
        self._broker = Broker()
        ports = SessionPorts(
            security=None,  # type: ignore[arg-type]
            clock=Moment(),
            randomness=_Zero(),  # type: ignore[arg-type]
            owner=self._broker,  # type: ignore[arg-type]
            log=Driver(),  # type: ignore[arg-type]
            local=None,
            spawn=_dropped,
        )
        identity = SessionIdentity(broker_id=BrokerId(1), incarnation="copy", cluster_id=str)
        self._client = SessionClient(identity, SessionConfig(), ports)
        self._epoch, self._active = ControllerEpoch(-1), NO_LEADER

    def run(self, steps: int) -> Iterator[str]:
        """Go."""
        draw = self._random
        for _ in range(steps):
            session = Session(draw.choice((101, 102, 103)))
            epoch = ControllerEpoch(max(0, self._epoch + draw.choice((-2, -1, 0, 0, 0, 1))))
            self._broker.told.clear()
            if draw.random() < 0.3:
                wrong = self._probe(session, epoch)
            else:
                wrong = self._answer(session, epoch)
            if wrong:
                yield wrong
                return

    def _probe(self, session: Session, epoch: ControllerEpoch) -> str:
        question = ProbeSets(request_id=RequestId(1), controller_epoch=epoch, sets=())
        self._client.on_session_message(session, question)  # type: ignore[arg-type]
        if bool(self._broker.told) is not (epoch >= self._epoch):
            return f"asked in epoch {epoch}, having heard of {self._epoch}: {self._broker.told}"
        return ""

    def _answer(self, session: Session, epoch: ControllerEpoch) -> str:
        active = PeerId(self._random.choice((session.controller_id, 101, 102, NO_LEADER)))
        sent_ms = self._random.choice((0, NO_HEARTBEAT))
        answer = HeartbeatAnswer(
            active_id=active, controller_epoch=epoch, applied_index=NO_ENTRY, sent_ms=sent_ms
        )
        is_news = epoch > self._epoch or (epoch == self._epoch and active != NO_LEADER)
        if is_news:
            self._epoch, self._active = epoch, active
        self._client.on_session_message(session, answer)  # type: ignore[arg-type]
        believed = self._client.controller_epoch, self._client.active_id
        if believed != (self._epoch, self._active):
            return f"believes {believed}, and has heard of {self._epoch, self._active}"
        gives = is_news and active == session.controller_id and sent_ms != NO_HEARTBEAT
        if bool(self._broker.told) is not gives:
            return f"{answer} of {session.controller_id}: {self._broker.told}"
        return ""


class _Zero:
    def below(self, limit: int) -> int:
        """Return the least."""
        del limit
        return 0

    def uniform(self, least: float, most: float) -> float:
        """Return the least."""
        del most
        return least


def _dropped(name: str, work: Coroutine[Any, Any, None]) -> None:
    del name
    work.close()


def _ignored(_: Any) -> None:
    """Stand in for a callback that nobody has set."""
