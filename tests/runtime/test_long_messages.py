"""What a session's end does about long messages, too long ones, and answers that nobody takes."""

from dataclasses import replace

import msgspec

from penstock.base.ids import BrokerId, ControllerEpoch, PeerId, RequestId, SessionId
from penstock.controller.session import (
    ControllerStatus,
    Heartbeat,
    HeartbeatAnswer,
    ProbeAnswer,
    SetReport,
    StatusAnswer,
    StatusRequest,
)
from penstock.net.peer import PeerHello, PeerLink, dial
from penstock.net.peer_link import HIGH_BYTES
from penstock.runtime.session.messages import (
    HEARTBEAT_SETS,
    PURPOSE,
    SESSION_CODEC,
    SETS_MAX,
    SessionMessage,
)
from tests.runtime.session_cluster import (
    QUICK,
    SECURITY,
    ControllerProcess,
    on_loop,
    report,
    session_cluster,
    until,
)

RARELY = replace(QUICK, heartbeat_interval_ms=30_000, silence_ms=600_000)


async def dialled(controller: ControllerProcess, peer_id: int = 12) -> PeerLink:
    return await dial(
        controller.address,
        PeerHello(PURPOSE, "c", peer_id, 5),
        SECURITY,
        timeout_ms=5_000,
        frame_bytes_max=8 << 20,
    )


def send(link: PeerLink, message: SessionMessage) -> None:
    link.send(*SESSION_CODEC.encode(message))


def heartbeat(*sets: SetReport) -> Heartbeat:
    return Heartbeat(session_id=SessionId(5), broker_id=BrokerId(12), incarnation="i", sets=sets)


@on_loop
async def test_a_broker_of_many_sets_spreads_them_over_several_heartbeats() -> None:
    count = 2 * HEARTBEAT_SETS + 50
    async with session_cluster(1) as cluster:
        brain = cluster.controllers[1].brain
        broker = await cluster.broker(RARELY)
        await until(lambda: len(brain.heartbeats) == 1)
        brain.heartbeats.clear()
        reports = tuple(report(set_id) for set_id in range(count))
        broker.owner.reports = lambda: reports  # type: ignore[method-assign]
        broker.client.report_soon()
        await until(lambda: len(brain.heartbeats) == 3)
        assert [len(one.sets) for one in brain.heartbeats] == [HEARTBEAT_SETS] * 2 + [50]
        assert sum((one.sets for one in brain.heartbeats), ()) == reports


@on_loop
async def test_a_long_message_is_taken_in_slices_and_keeps_its_place() -> None:
    async with session_cluster(1) as cluster:
        controller = cluster.controllers[1]
        link = await dialled(controller)
        answers: list[SessionMessage] = []
        link.on_frame = lambda frame: answers.append(SESSION_CODEC.decode(frame))
        reports = tuple(report(set_id) for set_id in range(SETS_MAX))
        send(link, heartbeat(report(1)))
        send(link, ProbeAnswer(request_id=RequestId(3), reports=reports))
        send(link, heartbeat(report(2)))
        await until(lambda: len(controller.brain.heartbeats) == 2)
        assert controller.brain.answers == [
            (12, ProbeAnswer(request_id=RequestId(3), reports=reports))
        ]
        await until(lambda: len(answers) == 2)
        assert all(isinstance(answer, HeartbeatAnswer) for answer in answers)
        link.close("the test is over")


@on_loop
async def test_a_message_of_more_sets_than_any_broker_has_ends_the_session_unread() -> None:
    async with session_cluster(1) as cluster:
        controller = cluster.controllers[1]
        link = await dialled(controller)
        link.on_frame = lambda _: None
        nothing = msgspec.msgpack.encode({"request_id": 1, "reports": [0] * 100_000})
        link.send(SESSION_CODEC._heads[ProbeAnswer], nothing)
        send(link, heartbeat(report(1)))
        await until(lambda: link.is_closed)
        assert controller.brain.answers == []
        assert controller.brain.heartbeats == []


@on_loop
async def test_a_session_that_closes_amid_a_long_message_hears_nothing_of_it() -> None:
    async with session_cluster(1) as cluster:
        controller = cluster.controllers[1]
        link = await dialled(controller)
        link.on_frame = lambda _: None
        reports = tuple(report(set_id) for set_id in range(SETS_MAX))
        send(link, ProbeAnswer(request_id=RequestId(3), reports=reports))
        link.close("gone")
        await until(lambda: ("closed", 12, 5) in controller.brain.events)
        assert len(controller.brain.answers) <= 1


@on_loop
async def test_who_takes_no_answers_is_not_asked_for_more_questions() -> None:
    status = StatusAnswer(
        request_id=RequestId(0),
        cluster_id="c" * 100_000,
        controller=ControllerStatus(
            answered_by=0,
            active_id=PeerId(0),
            controller_epoch=ControllerEpoch(0),
            is_failover_enabled=True,
        ),
        brokers=(),
        sets=(),
    )
    count = 400
    async with session_cluster(1) as cluster:
        controller = cluster.controllers[1]
        asked: list[int] = []

        def answer(request_id: int) -> StatusAnswer:
            asked.append(request_id)
            return replace(status, request_id=RequestId(request_id))

        controller.brain.status = answer  # type: ignore[method-assign]
        link = await dialled(controller)
        link.on_frame = lambda _: None
        link.pause_reading()
        for request_id in range(count):
            send(link, StatusRequest(request_id=RequestId(request_id)))
        (served,) = controller.listener._links
        await until(lambda: not served.is_writable)
        await until(lambda: served.buffered_bytes > HIGH_BYTES)
        for _ in range(3):
            send(link, StatusRequest(request_id=RequestId(count)))
        assert served.buffered_bytes < HIGH_BYTES + 2 * len(status.cluster_id)
        assert len(asked) < count
        link.resume_reading()
        await until(lambda: len(asked) == count + 3)
        assert asked[:count] == list(range(count))
        link.close("the test is over")
