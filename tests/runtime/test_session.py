"""Brokers' sessions with controllers over real sockets: who is heard, asked, and believed."""

import asyncio
import logging
from dataclasses import replace
from functools import partial

import pytest

from harness.waiting import until
from penstock.base.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PeerId,
    ReplicaSetId,
    RequestId,
    SessionId,
)
from penstock.controller.commands.command import CreateCluster
from penstock.controller.errors import (
    MetadataUnavailable,
    NotActiveController,
)
from penstock.controller.session import (
    PrepareTransfer,
    ProbeAnswer,
    ProbedSet,
    ProbeSets,
    ReleasePromises,
    TransferReady,
)
from penstock.net.peer import PeerHello, PeerLink, PeerListener
from penstock.runtime.session.channel import OnClosed, OnMessage
from penstock.runtime.session.config import SessionConfig
from penstock.runtime.session.messages import PURPOSE, SessionMessage
from tests.runtime.session_cluster import FRAME_BYTES_MAX, QUICK, SECURITY, on_loop, session_cluster

RARELY = replace(QUICK, heartbeat_interval_ms=30_000, silence_ms=600_000)
"""Heartbeats only when a session opens: nothing but refusals and pushes tell who is active."""


# --- heartbeats ----------------------------------------------------------------------------------


@on_loop
async def test_every_controller_hears_of_a_broker_whether_active_or_not() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        for controller in cluster.controllers.values():
            brain = controller.brain
            await until(partial(lambda brain: len(brain.heartbeats) >= 3, brain))
            heartbeat = brain.heartbeats[0]
            assert (heartbeat.broker_id, heartbeat.incarnation) == (11, "first")
            assert heartbeat.sets == broker.owner.reports()
            assert ("opened", 11, heartbeat.session_id) in brain.events
        await until(lambda: broker.client.active_id == 1)
        assert broker.client.controller_epoch == 1


@on_loop
async def test_news_between_two_heartbeats_reach_every_controller_once() -> None:
    async with session_cluster() as cluster:
        broker = await cluster.broker(RARELY)
        brains = [controller.brain for controller in cluster.controllers.values()]
        await until(lambda: all(len(brain.heartbeats) == 1 for brain in brains))
        broker.client.report_soon()
        broker.client.report_soon()
        await until(lambda: all(len(brain.heartbeats) == 2 for brain in brains))
        broker.client.report_soon()
        await until(lambda: all(len(brain.heartbeats) == 3 for brain in brains))


@on_loop
async def test_only_the_active_controllers_answers_count_as_having_been_heard() -> None:
    async with session_cluster() as cluster:
        broker = await cluster.broker()
        await until(lambda: len(cluster.controllers[1].brain.heartbeats) > 3)
        assert broker.owner.controller_count == 0, "nobody is active"
        await cluster.found()
        await until(lambda: broker.owner.controller_count > 3)


@on_loop
async def test_brokers_hear_of_a_new_active_controller_before_any_heartbeat() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker(RARELY)
        await until(lambda: broker.client.active_id == 1)
        cluster.group.lead(3)
        await until(lambda: broker.client.active_id == 3)
        assert broker.client.controller_epoch == 2


@on_loop
async def test_stopped_broker_is_seen_gone_by_all_controllers_at_once() -> None:
    async with session_cluster() as cluster:
        broker = await cluster.broker(RARELY)
        await broker.client.stop()
        for controller in cluster.controllers.values():
            brain = controller.brain
            await until(
                partial(lambda brain: any(event[0] == "closed" for event in brain.events), brain)
            )


@on_loop
async def test_controller_that_answers_nothing_is_dialled_anew() -> None:
    links: list[PeerLink] = []

    def on_link(link: PeerLink) -> None:
        links.append(link)
        link.on_frame = lambda _: None

    async with session_cluster(1) as cluster:
        silent = PeerListener(
            "127.0.0.1",
            0,
            PeerHello(b"", "c", 9, 0),
            SECURITY,
            {PURPOSE: on_link},
            frame_bytes_max=FRAME_BYTES_MAX,
        )
        silent.start()
        broker = await cluster.broker(replace(QUICK, silence_ms=40))
        broker.client.set_controllers({**cluster.addresses, PeerId(9): ("127.0.0.1", silent.port)})
        await until(lambda: len(links) >= 3)
        ids = [link.hello.session_id for link in links]
        assert ids == sorted(ids), "later sessions have higher ids"
        broker.client.set_controllers(cluster.addresses)
        silent.stop()


@on_loop
async def test_sessions_follow_the_controllers_addresses() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        before = broker.client.session(PeerId(1))
        broker.client.set_controllers({PeerId(1): cluster.addresses[PeerId(1)]})
        assert broker.client.session(PeerId(2)) is None
        assert broker.client.session(PeerId(1)) is before
        await until(lambda: cluster.controllers[2].brain.events[-1][:2] == ("closed", 11))
        broker.client.set_controllers(
            {PeerId(2): cluster.addresses[PeerId(3)], PeerId(3): cluster.addresses[PeerId(3)]}
        )
        await until(
            lambda: [session.controller_id for session in broker.client.open_sessions()] == [3]
        )


@on_loop
async def test_a_client_that_has_stopped_has_no_session_under_way_that_it_gave_up_before() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        given_up = [task for task in asyncio.all_tasks() if task.get_name().startswith("session-")]
        assert len(given_up) == 3
        broker.client.set_controllers({})
        await broker.client.stop()
        assert all(task.done() for task in given_up)


@on_loop
async def test_broker_comes_back_to_a_controller_that_was_restarted() -> None:
    async with session_cluster(1) as cluster:
        broker = await cluster.broker()
        controller = cluster.controllers[1]
        port = controller.listener.port
        controller.listener.stop()
        await until(lambda: not broker.client.open_sessions())
        again = PeerListener(
            "127.0.0.1",
            port,
            PeerHello(b"", "c", 1, 0),
            SECURITY,
            {PURPOSE: controller.service.on_link},
            frame_bytes_max=FRAME_BYTES_MAX,
        )
        again.start()
        await until(lambda: bool(broker.client.open_sessions()))
        again.stop()


# --- registration --------------------------------------------------------------------------------


@on_loop
async def test_broker_registers_when_the_active_controller_does_not_know_it() -> None:
    async with session_cluster() as cluster:
        for controller in cluster.controllers.values():
            controller.brain.unknown.add(11)
        broker = await cluster.broker()
        await until(lambda: len(cluster.controllers[2].brain.heartbeats) > 3)
        assert broker.owner.registered_count == 0, "nobody is active"

        async def registering() -> None:
            cluster.controllers[1].brain.unknown.clear()

        broker.owner.registering = registering
        await cluster.found()
        await until(lambda: broker.owner.registered_count > 0)
        count = len(cluster.controllers[1].brain.heartbeats)
        await until(lambda: len(cluster.controllers[1].brain.heartbeats) > count + 3)
        assert broker.owner.registered_count <= 2, "an answer that was on its way may come late"


@on_loop
async def test_registration_that_failed_is_tried_again_and_never_twice_at_a_time() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        cluster.controllers[1].brain.unknown.add(11)
        broker = await cluster.broker()
        running = 0
        seen: list[int] = []

        async def registering() -> None:
            nonlocal running
            running += 1
            seen.append(running)
            count = len(cluster.controllers[1].brain.heartbeats)
            await until(lambda: len(cluster.controllers[1].brain.heartbeats) > count + 2)
            running -= 1
            raise MetadataUnavailable("not now")

        broker.owner.registering = registering
        await until(lambda: len(seen) >= 3)
        assert set(seen) == {1}


# --- what controllers ask ------------------------------------------------------------------------


@on_loop
async def test_probes_and_transfers_are_answered_to_whoever_asked() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        active = cluster.controllers[1]
        probe = ProbeSets(
            request_id=RequestId(5),
            controller_epoch=ControllerEpoch(1),
            sets=(ProbedSet(replica_set_id=ReplicaSetId(7), leader_epoch=LeaderEpoch(3)),),
        )
        active.service.send(BrokerId(11), probe)
        active.service.send(
            BrokerId(11),
            _transfer(request_id=6),
        )
        released = ReleasePromises(
            controller_epoch=ControllerEpoch(1), request_id=RequestId(5), sets=probe.sets
        )
        active.service.send(BrokerId(11), released)
        active.service.send(BrokerId(99), probe)  # nobody: nothing happens
        await until(lambda: len(active.brain.answers) == 2)
        answers = {answer.request_id: (sender, answer) for sender, answer in active.brain.answers}
        sender, answer = answers[RequestId(5)]
        assert sender == 11
        assert isinstance(answer, ProbeAnswer)
        assert answer.reports == broker.owner.reports()
        assert broker.owner.probes == [probe]
        assert broker.owner.released == [released]
        assert answers[RequestId(6)][0] == 11
        assert cluster.controllers[2].brain.answers == []


@on_loop
async def test_probe_of_a_controller_that_was_replaced_binds_nobody() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        cluster.group.lead(2)
        await until(lambda: broker.client.controller_epoch == 2)
        old = ProbeSets(request_id=RequestId(1), controller_epoch=ControllerEpoch(1), sets=())
        new = replace(old, request_id=RequestId(2), controller_epoch=ControllerEpoch(2))
        cluster.controllers[1].service.send(BrokerId(11), old)
        cluster.controllers[2].service.send(BrokerId(11), new)
        await until(lambda: len(cluster.controllers[2].brain.answers) == 1)
        count = len(cluster.controllers[1].brain.heartbeats)
        await until(lambda: len(cluster.controllers[1].brain.heartbeats) > count + 1)
        assert broker.owner.probes == [new]


@on_loop
async def test_answer_about_a_transfer_is_not_for_a_session_that_was_opened_since() -> None:
    # The controller may be another process by now, that counts its requests from the beginning.
    async with session_cluster(1) as cluster:
        await cluster.found()
        broker = await cluster.broker()
        brain, session = cluster.controllers[1].brain, broker.client.session(PeerId(1))
        assert session is not None
        asked, may_answer = asyncio.Event(), asyncio.Event()

        async def prepare(request: PrepareTransfer) -> TransferReady:
            asked.set()
            await may_answer.wait()
            return TransferReady(request_id=request.request_id, is_ready=True)

        broker.owner.prepare_transfer = prepare  # type: ignore[method-assign]
        cluster.controllers[1].service.send(BrokerId(11), _transfer(request_id=6))
        await asked.wait()
        session.close("the link broke")
        await until(lambda: [event[0] for event in brain.events].count("opened") == 2)
        may_answer.set()
        count = len(brain.heartbeats)
        await until(lambda: len(brain.heartbeats) > count + 1)
        assert brain.answers == []


def _transfer(request_id: int) -> PrepareTransfer:
    return PrepareTransfer(
        request_id=RequestId(request_id),
        replica_set_id=ReplicaSetId(7),
        leader_epoch=LeaderEpoch(3),
        target=BrokerId(12),
        timeout_ms=1_000,
    )


# --- rivals and damage ---------------------------------------------------------------------------


class Rival:
    """The controller's end of a session of a second process under a broker's id."""

    peer_id = 11
    session_id = SessionId(7 << 32)
    is_closed = False

    def __init__(self) -> None:
        self.sent: list[SessionMessage] = []
        self.on_closed: OnClosed

    def start(self, on_message: OnMessage, on_closed: OnClosed) -> None:
        self.on_closed = on_closed

    def send(self, message: SessionMessage) -> None:
        self.sent.append(message)

    def close(self, reason: str) -> None:
        self.is_closed = True


@on_loop
async def test_rival_that_has_gone_is_told_nothing_more() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        await cluster.broker(RARELY)
        gone, there = Rival(), Rival()
        for one in (gone, there):
            cluster.controllers[1].service.on_channel(one)
        gone.on_closed("it was killed")
        cluster.group.lead(3)
        await until(lambda: len(there.sent) == 1)
        assert gone.sent == []


@on_loop
async def test_wrong_peer_at_a_controllers_address_is_not_taken_for_it() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        broker.client.set_controllers({PeerId(8): cluster.addresses[PeerId(1)]})
        await until(lambda: cluster.controllers[1].brain.events[-1][:2] == ("closed", 11))
        assert broker.client.open_sessions() == []


def test_frame_that_is_no_message_ends_the_session_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @on_loop
    async def scenario() -> None:
        links: list[PeerLink] = []

        def on_link(link: PeerLink) -> None:
            links.append(link)
            link.on_frame = lambda _: link.send(b"\x41\x01nonsense")

        async with session_cluster(1) as cluster:
            odd = PeerListener(
                "127.0.0.1",
                0,
                PeerHello(b"", "c", 9, 0),
                SECURITY,
                {PURPOSE: on_link},
                frame_bytes_max=FRAME_BYTES_MAX,
            )
            odd.start()
            broker = await cluster.broker()
            broker.client.set_controllers({PeerId(9): ("127.0.0.1", odd.port)})
            await until(lambda: len(links) >= 2)
            await broker.client.stop()
            odd.stop()

    with caplog.at_level(logging.WARNING, "penstock"):
        scenario()
    assert any("message type 65" in record.getMessage() for record in caplog.records)
    assert not any(record.exc_info for record in caplog.records)


def test_silence_is_at_least_two_heartbeats() -> None:
    with pytest.raises(Exception, match="twice"):
        SessionConfig(heartbeat_interval_ms=1_000, silence_ms=1_500)
    with pytest.raises(Exception, match="redial"):
        SessionConfig(redial_min_ms=3_000)


@on_loop
async def test_not_active_controller_is_what_its_own_driver_says() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        with pytest.raises(NotActiveController) as refused:
            await cluster.controllers[2].driver.submit(CreateCluster(cluster_id="c"))
        assert refused.value.controller_id == 1
