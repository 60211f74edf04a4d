"""What brokers ask controllers over real sockets: commands, operations, status."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from harness.waiting import until
from penstock.base.ids import BrokerId, PeerId, ReplicaSetId, RequestId
from penstock.controller.commands.codec import encode_error
from penstock.controller.commands.command import (
    AllocateProducerIds,
    CreateCluster,
    CreateTopics,
    NewTopic,
)
from penstock.controller.errors import (
    LeadershipLost,
    MetadataPolicyViolation,
    MetadataTimeout,
    NotActiveController,
    RefusedCommand,
    UnknownBroker,
)
from penstock.controller.replicated_log import NO_LEADER
from penstock.controller.session import (
    DrainRequest,
    ElectRequest,
    OperationAnswer,
    TransferRequest,
)
from penstock.runtime.session.messages import ChangeControllers
from tests.runtime.session_cluster import QUICK, on_loop, session_cluster

RARELY = replace(QUICK, heartbeat_interval_ms=30_000, silence_ms=600_000)
"""Heartbeats only when a session opens: nothing but refusals and pushes tell who is active."""

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
            await broker.client.submit(AllocateProducerIds(broker_id=BrokerId(5)))


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
        task = asyncio.create_task(
            broker.client.submit(AllocateProducerIds(broker_id=BrokerId(11)))
        )
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
        assert any(
            heartbeat.broker_id == 1 for heartbeat in cluster.controllers[1].brain.heartbeats
        )
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
        assert await client.commands.operate(
            lambda number: ElectRequest(request_id=number, replica_set_id=ReplicaSetId(0))
        ) == "ElectRequest"  # fmt: skip
        assert await client.commands.operate(
            lambda number: TransferRequest(request_id=number, replica_set_id=ReplicaSetId(0))
        ) == "TransferRequest"  # fmt: skip
        cluster.group.lead(2)
        assert await client.commands.operate(
            lambda number: DrainRequest(request_id=number, broker_id=BrokerId(11))
        ) == "DrainRequest"  # fmt: skip
        assert await client.commands.operate(
            lambda number: ChangeControllers(request_id=number, action="remove", peer_id=PeerId(3))
        ) == "remove 3"  # fmt: skip
        assert len(cluster.controllers[2].changes) == 1
        cluster.controllers[2].brain.operation_error = RefusedCommand("no such set")
        with pytest.raises(RefusedCommand, match="no such set"):
            await client.commands.operate(
                lambda number: ElectRequest(request_id=number, replica_set_id=ReplicaSetId(9))
            )


async def asked_of_two(*, is_begun: bool) -> list[tuple[int, bool]]:
    """Return who was asked, and whether again, where the first loses the lead."""
    async with session_cluster() as cluster:
        await cluster.found()
        client = (await cluster.broker()).client
        asked: list[tuple[int, bool]] = []

        def answer(own_id: int, request: Any, answered: Callable[[OperationAnswer], None]) -> None:
            asked.append((own_id, request.is_repeated))
            number = request.request_id
            if own_id == 2:
                answered(OperationAnswer(request_id=number, text="led"))
                return
            cluster.group.lead(2)
            error = encode_error(NotActiveController(PeerId(2)))
            answered(OperationAnswer(request_id=number, error=error, is_begun=is_begun))

        for own_id, controller in cluster.controllers.items():
            controller.brain.on_operation = partial(answer, own_id)  # type: ignore[method-assign]
        told = await client.commands.operate(
            lambda number: ElectRequest(request_id=number, replica_set_id=ReplicaSetId(1))
        )
        assert told == "led"
        return asked


@on_loop
async def test_the_next_controller_hears_whether_the_last_one_had_begun() -> None:
    assert await asked_of_two(is_begun=True) == [(1, False), (2, True)]
    assert await asked_of_two(is_begun=False) == [(1, False), (2, False)]


@on_loop
async def test_an_operation_of_unknown_outcome_is_asked_once_and_may_still_happen() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        client = (await cluster.broker()).client
        asked = []

        def drain(number: RequestId) -> DrainRequest:
            asked.append(number)
            return DrainRequest(request_id=number, broker_id=BrokerId(11))

        for controller in cluster.controllers.values():
            controller.brain.operation_error = LeadershipLost(NO_LEADER)
        with pytest.raises(MetadataTimeout, match="may still happen"):
            await client.commands.operate(drain)
        assert len(asked) == 1


@on_loop
async def test_an_operation_whose_answer_is_lost_may_still_happen() -> None:
    async with session_cluster() as cluster:
        await cluster.found()
        client = (await cluster.broker()).client

        def drain(number: RequestId) -> DrainRequest:
            for session in client.open_sessions():
                session.close("the link ends behind the request")
            return DrainRequest(request_id=number, broker_id=BrokerId(11))

        with pytest.raises(MetadataTimeout, match="may still happen"):
            await client.commands.operate(drain)


@on_loop
async def test_status_is_answered_by_any_controller_while_none_is_active() -> None:
    async with session_cluster() as cluster:
        broker = await cluster.broker()
        assert (await broker.client.commands.status()).cluster_id == "c"


@on_loop
async def test_status_without_any_controller_times_out() -> None:
    async with session_cluster(1) as cluster:
        broker = await cluster.broker(replace(QUICK, command_timeout_ms=100))
        cluster.controllers[1].kill()
        await until(lambda: not broker.client.open_sessions())
        with pytest.raises(MetadataTimeout):
            await broker.client.commands.status()
