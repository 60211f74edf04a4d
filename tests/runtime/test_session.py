"""Brokers' sessions with controllers over real sockets: who is heard, asked, and believed."""

import asyncio
import logging
from dataclasses import replace

import pytest

from penstock.controller.commands import AllocateProducerIds, CreateCluster, CreateTopics, NewTopic
from penstock.controller.errors import (
    MetadataPolicyViolation,
    MetadataTimeout,
    MetadataUnavailable,
    NotActiveController,
    RefusedCommand,
    UnknownBroker,
)
from penstock.controller.session import (
    DrainRequest,
    ElectRequest,
    PrepareTransfer,
    ProbeAnswer,
    ProbedSet,
    ProbeSets,
    TransferRequest,
)
from penstock.net.peer import PeerHello, PeerLink, PeerListener
from penstock.runtime.session_config import SessionConfig
from penstock.runtime.session_messages import PURPOSE, ChangeControllers
from tests.runtime.session_cluster import (
    FRAME_BYTES_MAX,
    QUICK,
    SECURITY,
    on_loop,
    session_cluster,
    until,
)

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
            await until(lambda brain=brain: len(brain.heartbeats) >= 3)
            heartbeat = brain.heartbeats[0]
            assert (heartbeat.broker_id, heartbeat.incarnation) == (11, "first")
            assert heartbeat.sets == broker.owner.reports()
            assert ("opened", 11, heartbeat.session_id) in brain.events
        await until(lambda: broker.client.active_id == 1)
        assert broker.client.controller_epoch == 1


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
            await until(lambda brain=brain: any(one[0] == "closed" for one in brain.events))


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
        broker.client.set_controllers({**cluster.addresses, 9: ("127.0.0.1", silent.port)})
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
        before = broker.client.session(1)
        broker.client.set_controllers({1: cluster.addresses[1]})
        assert broker.client.session(2) is None
        assert broker.client.session(1) is before
        await until(lambda: cluster.controllers[2].brain.events[-1][:2] == ("closed", 11))
        broker.client.set_controllers({2: cluster.addresses[3], 3: cluster.addresses[3]})
        await until(lambda: [one.controller_id for one in broker.client.open_sessions()] == [3])


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
            request_id=5,
            controller_epoch=1,
            sets=(ProbedSet(replica_set_id=7, leader_epoch=3),),
            promise_ms=1_000,
        )
        active.service.send(11, probe)
        active.service.send(
            11,
            PrepareTransfer(
                request_id=6, replica_set_id=7, leader_epoch=3, target=12, timeout_ms=1_000
            ),
        )
        active.service.send(99, probe)  # nobody: nothing happens
        await until(lambda: len(active.brain.answers) == 2)
        answers = {answer.request_id: (sender, answer) for sender, answer in active.brain.answers}
        sender, answer = answers[5]
        assert sender == 11
        assert isinstance(answer, ProbeAnswer)
        assert answer.reports == broker.owner.reports()
        assert broker.owner.probes == [probe]
        assert answers[6][0] == 11
        assert cluster.controllers[2].brain.answers == []


@on_loop
async def test_probe_of_a_controller_that_was_replaced_binds_nobody() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        cluster.group.lead(2)
        await until(lambda: broker.client.controller_epoch == 2)
        old = ProbeSets(request_id=1, controller_epoch=1, sets=(), promise_ms=1_000)
        new = replace(old, request_id=2, controller_epoch=2)
        cluster.controllers[1].service.send(11, old)
        cluster.controllers[2].service.send(11, new)
        await until(lambda: len(cluster.controllers[2].brain.answers) == 1)
        count = len(cluster.controllers[1].brain.heartbeats)
        await until(lambda: len(cluster.controllers[1].brain.heartbeats) > count + 1)
        assert broker.owner.probes == [new]


# --- commands ------------------------------------------------------------------------------------


@on_loop
async def test_submitted_change_is_in_the_brokers_own_image_when_it_is_answered() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        assert await broker.create("t")
        assert "t" in broker.image.topics_by_name
        assert not await broker.create("t")


@on_loop
async def test_answer_waits_until_a_broker_that_lags_has_replayed_it() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        broker.process.log.is_cut_off = True
        task = asyncio.create_task(broker.create("t"))
        await until(lambda: "t" in cluster.controllers[1].image.topics_by_name)
        count = broker.owner.controller_count
        await until(lambda: broker.owner.controller_count > count + 2)
        assert not task.done()
        broker.process.log.heal()
        assert await task
        assert "t" in broker.image.topics_by_name


@on_loop
async def test_refusal_of_a_command_arrives_as_what_it_was() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        with pytest.raises(UnknownBroker, match="Broker 5 is not registered"):
            await broker.client.submit(AllocateProducerIds(broker_id=5))


@on_loop
async def test_refusal_names_the_active_controller_and_the_command_goes_there() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker(RARELY)
        await until(lambda: broker.client.active_id == 1)
        cluster.group.lead(3)
        assert broker.client.active_id == 1, "it has not heard yet"
        assert await broker.create("t")
        assert broker.client.active_id == 3


@on_loop
async def test_command_waits_for_an_active_controller() -> None:
    async with session_cluster() as cluster:
        broker = await cluster.broker()
        task = asyncio.create_task(broker.client.submit(CreateCluster(cluster_id="c")))
        await until(lambda: len(cluster.controllers[1].brain.heartbeats) > 3)
        assert not task.done()
        cluster.group.lead(2)
        assert await task == "c"


@on_loop
async def test_command_without_any_controller_times_out() -> None:
    async with session_cluster() as cluster:
        broker = await cluster.broker(replace(QUICK, command_timeout_ms=100))
        with pytest.raises(MetadataTimeout):
            await broker.create("t")


@on_loop
async def test_lost_answer_of_a_creation_is_told_as_such_and_not_repeated() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        cluster.group.is_open = False
        task = asyncio.create_task(broker.create("t"))
        await until(lambda: len(cluster.group.waiting) == 1)
        cluster.controllers[1].kill()
        cluster.group.lead(2, commit_waiting=True)
        cluster.group.open()
        with pytest.raises(MetadataTimeout, match="may still happen"):
            await task
        assert "t" in broker.image.topics_by_name, "as it did here"
        assert await broker.create("u"), "the next command goes to the new active controller"


@on_loop
async def test_lost_answer_of_a_repeatable_command_is_asked_for_again() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        cluster.group.is_open = False
        task = asyncio.create_task(broker.client.submit(AllocateProducerIds(broker_id=11)))
        await until(lambda: len(cluster.group.waiting) == 1)
        cluster.controllers[1].kill()
        cluster.group.lead(2, commit_waiting=True)
        cluster.group.open()
        block = await task
        assert block.first_producer_id > 0, "the first block went to nobody"


@on_loop
async def test_leader_replaced_while_an_entry_is_on_its_way_leaves_a_creation_open() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        cluster.group.is_open = False
        creation = asyncio.create_task(broker.create("t"))
        await until(lambda: len(cluster.group.waiting) == 1)
        waiting_turn = asyncio.create_task(broker.create("u"))
        count = len(cluster.controllers[1].brain.heartbeats)
        await until(lambda: len(cluster.controllers[1].brain.heartbeats) > count + 1)
        cluster.group.lead(2)
        cluster.group.open()
        with pytest.raises(MetadataTimeout):
            await creation
        assert await waiting_turn, "it was never proposed and so is asked elsewhere"
        assert "t" not in broker.image.topics_by_name


@on_loop
async def test_command_larger_than_a_controller_takes_is_refused_at_once() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        await until(lambda: broker.client.active_id == 1)
        topics = tuple(NewTopic(name=f"{number:0200}") for number in range(6_000))
        with pytest.raises(MetadataPolicyViolation, match="ask for less"):
            await broker.client.submit(CreateTopics(topics=topics))
        assert await broker.create("t"), "the session goes on"


@on_loop
async def test_cancelled_command_leaves_the_session_usable() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        cluster.group.is_open = False
        task = asyncio.create_task(broker.create("t"))
        await until(lambda: len(cluster.group.waiting) == 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        cluster.group.open()
        assert not await broker.create("t"), "the command went on without its caller"


@on_loop
async def test_broker_beside_the_active_controller_asks_it_directly() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.combined(1)
        await until(lambda: broker.client.active_id == 1)
        assert cluster.controllers[1].listener.link_count == 0, "no link to oneself"
        assert await broker.create("t")
        assert any(one.broker_id == 1 for one in cluster.controllers[1].brain.heartbeats)
        cluster.group.lead(2)
        assert await broker.create("u"), "and another one over its session"
        assert "u" in broker.image.topics_by_name


# --- operators -----------------------------------------------------------------------------------


@on_loop
async def test_operations_go_to_the_active_controller() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        client = broker.client
        assert await client.operate(
            lambda number: ElectRequest(request_id=number, replica_set_id=0)
        ) == "ElectRequest"  # fmt: skip
        assert await client.operate(
            lambda number: TransferRequest(request_id=number, replica_set_id=0)
        ) == "TransferRequest"  # fmt: skip
        cluster.group.lead(2)
        assert await client.operate(
            lambda number: DrainRequest(request_id=number, broker_id=11)
        ) == "DrainRequest"  # fmt: skip
        assert await client.operate(
            lambda number: ChangeControllers(request_id=number, action="remove", peer_id=3)
        ) == "remove 3"  # fmt: skip
        assert len(cluster.controllers[2].changes) == 1
        cluster.controllers[2].brain.operation_error = RefusedCommand("no such set")
        with pytest.raises(RefusedCommand, match="no such set"):
            await client.operate(lambda number: ElectRequest(request_id=number, replica_set_id=9))


@on_loop
async def test_status_is_answered_by_any_controller_while_none_is_active() -> None:
    async with session_cluster() as cluster:
        broker = await cluster.broker()
        assert (await broker.client.status()).cluster_id == "c"


@on_loop
async def test_status_without_any_controller_times_out() -> None:
    async with session_cluster(1) as cluster:
        broker = await cluster.broker(replace(QUICK, command_timeout_ms=100))
        cluster.controllers[1].kill()
        await until(lambda: not broker.client.open_sessions())
        with pytest.raises(MetadataTimeout):
            await broker.client.status()


# --- strangers and damage ------------------------------------------------------------------------


@on_loop
async def test_wrong_peer_at_a_controllers_address_is_not_taken_for_it() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        broker = await cluster.broker()
        broker.client.set_controllers({8: cluster.addresses[1]})
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
            broker.client.set_controllers({9: ("127.0.0.1", odd.port)})
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
