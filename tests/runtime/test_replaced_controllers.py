"""A controller of an earlier term still says that it is active: nobody believes it any more."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.base.ids import BrokerId, ControllerEpoch, PeerId, RequestId, SessionId
from penstock.controller.session import NO_HEARTBEAT, NOT_TOLD, HeartbeatAnswer, ProbeSets
from penstock.runtime.io.clock import SystemClock
from penstock.runtime.io.randomness import SystemRandomness
from penstock.runtime.session.channel import SessionChannel
from penstock.runtime.session.client import SessionClient, SessionIdentity, SessionPorts
from penstock.runtime.session.config import SessionConfig
from penstock.runtime.session.link import ControllerSession, SessionDraws
from tests.net.serving import run

CONFIG = SessionConfig()


class Owner:
    """The broker: how often it was told that its lease holds, and what it was asked."""

    def __init__(self) -> None:
        self.leases = 0
        self.sent_ms: list[int] = []
        self.probes: list[int] = []

    def reports(self) -> tuple[()]:
        return ()

    def probe(self, request: ProbeSets) -> tuple[()]:
        self.probes.append(request.request_id)
        return ()

    def note_controller(self, sent_ms: int, *, is_caught_up: bool) -> None:
        assert is_caught_up
        self.leases += 1
        self.sent_ms.append(sent_ms)


class Log:
    """A copy of the metadata log that has everything."""

    applied_index = 1


class Member:
    """A broker's sessions; their links are not there, what controllers say is given in."""

    def __init__(self) -> None:
        self.owner = Owner()
        fakes: dict[str, Any] = {"security": None, "owner": self.owner, "log": Log()}
        ports = SessionPorts(
            clock=SystemClock(),
            local=None,
            randomness=SystemRandomness(),
            spawn=lambda name, work: pytest.fail(f"{name} is not wanted: {work}"),
            **fakes,
        )
        identity = SessionIdentity(broker_id=BrokerId(9), incarnation="run", cluster_id=str)
        self.client = SessionClient(identity, CONFIG, ports)

    def hear(self, controller_id: int, message: Any) -> None:
        self.client.on_session_message(self.session(controller_id), message)

    def session(self, controller_id: int) -> ControllerSession:
        async def open_channel(_: int) -> SessionChannel:
            raise AssertionError("nothing is dialled here")

        return ControllerSession(
            PeerId(controller_id),
            open_channel,
            config=CONFIG,
            clock=SystemClock(),
            events=self.client,
            draws=SessionDraws(lambda: SessionId(1), SystemRandomness().uniform),
        )

    def says_active(self, controller_id: int, controller_epoch: int) -> None:
        self.hear(
            controller_id,
            HeartbeatAnswer(
                active_id=PeerId(controller_id),
                controller_epoch=ControllerEpoch(controller_epoch),
                sent_ms=0,
            ),
        )


def test_the_word_of_a_replaced_controller_keeps_no_lease_and_is_not_believed() -> None:
    async def scenario() -> None:
        member = Member()
        member.says_active(2, 5)
        assert (member.client.active_id, member.client.controller_epoch) == (2, 5)
        assert member.owner.leases == 1
        member.says_active(1, 4)
        assert (member.client.active_id, member.client.controller_epoch) == (2, 5)
        assert member.owner.leases == 1
        member.says_active(2, 5)
        assert member.owner.leases == 2
        member.says_active(1, 6)
        assert (member.client.active_id, member.client.controller_epoch) == (1, 6)
        assert member.owner.leases == 3

    run(scenario())


def test_a_controller_that_names_another_one_keeps_no_lease() -> None:
    async def scenario() -> None:
        member = Member()
        member.hear(1, HeartbeatAnswer(active_id=PeerId(2), controller_epoch=ControllerEpoch(5)))
        assert member.client.active_id == 2
        assert member.owner.leases == 0

    run(scenario())


def test_the_question_of_a_replaced_controller_binds_nobody() -> None:
    async def scenario() -> None:
        member = Member()
        member.says_active(2, 5)
        member.hear(
            1, ProbeSets(request_id=RequestId(7), controller_epoch=ControllerEpoch(4), sets=())
        )
        member.hear(
            2, ProbeSets(request_id=RequestId(8), controller_epoch=ControllerEpoch(5), sets=())
        )
        assert member.owner.probes == [8]

    run(scenario())


def test_an_answer_keeps_the_lease_from_when_its_heartbeat_was_sent() -> None:
    async def scenario() -> None:
        member = Member()
        answer = HeartbeatAnswer(
            active_id=PeerId(2), controller_epoch=ControllerEpoch(5), sent_ms=7
        )
        member.hear(2, answer)
        member.hear(2, replace(answer, sent_ms=NO_HEARTBEAT))  # it is active now: no answer
        assert member.owner.sent_ms == [7]
        member.hear(2, replace(answer, sent_ms=SystemClock().monotonic_ms() + 60_000))
        assert member.owner.sent_ms == [7], "nothing was sent then"

    run(scenario())


def test_a_controller_of_an_earlier_release_keeps_it_from_the_first_heartbeat_since_the_last() -> (
    None
):
    """It does not tell which one it answers; what lay in a buffer comes all at once."""

    async def scenario() -> None:
        member = Member()
        session = member.session(2)
        answer = HeartbeatAnswer(
            active_id=PeerId(2), controller_epoch=ControllerEpoch(5), sent_ms=NOT_TOLD
        )
        for now_ms in (100, 200):
            session.heartbeats(now_ms)
        for _ in range(3):
            member.client.on_session_message(session, answer)
        assert member.owner.sent_ms[:1] == [100]
        assert 200 not in member.owner.sent_ms

    run(scenario())
