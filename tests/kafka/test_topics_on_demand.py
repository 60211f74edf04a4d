"""Topics made because a request needs them, while the controllers do not answer."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.broker import topics_on_demand
from penstock.broker.topics_on_demand import TopicsOnDemand
from penstock.controller.commands.command import NewTopic
from penstock.controller.errors import MetadataQueueFull, MetadataTimeout
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.live_node import LiveNode, RawClient, running_node


class HeldCommands:
    """A controller port that takes commands to the real one when it is let go."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.is_let_go = asyncio.Event()
        self.commands: list[Any] = []

    async def submit(self, command: Any) -> Any:
        self.commands.append(command)
        await self.is_let_go.wait()
        return await self._real.submit(command)


@pytest.fixture
def node(tmp_path: Any) -> Iterator[LiveNode]:
    with running_node(tmp_path, "broker.auto_create_topics=true") as node:
        yield node


@contextmanager
def connected(node: LiveNode) -> Iterator[RawClient]:
    client = node.connect()
    try:
        yield client
    finally:
        client.close()


@pytest.fixture
def held(node: LiveNode) -> HeldCommands:
    held = node.call(lambda: HeldCommands(node.broker.controller))
    node.broker.controller = held
    return held


def coordinator(client: RawClient) -> Any:
    return client.ask(ApiKey.FIND_COORDINATOR, 3, {"key": "group", "key_type": 0})


def metadata_code(client: RawClient, *names: str) -> Any:
    topics = [{"topic_id": None, "name": name} for name in names]
    answer = client.ask(ApiKey.METADATA, 9, {"topics": topics})
    return {topic.name: topic.error_code for topic in answer.topics}


def test_a_coordinator_asked_for_is_not_waited_for_while_controllers_do_not_answer(
    node: LiveNode, held: HeldCommands, caplog: pytest.LogCaptureFixture
) -> None:
    """One command for all who ask, and no line in the log for each of them."""
    topics = node.broker.metadata.topics_by_name
    made = node.call(lambda: topics.pop(INTERNAL_TOPIC))
    with connected(node) as client, connected(node) as other:
        assert coordinator(client).error_code == Code.COORDINATOR_NOT_AVAILABLE
        assert coordinator(other).error_code == Code.COORDINATOR_NOT_AVAILABLE
        assert coordinator(client).error_code == Code.COORDINATOR_NOT_AVAILABLE
        assert len(held.commands) == 1
        assert not [line for line in caplog.messages if "not created yet" in line]
        node.call(lambda: topics.update({INTERNAL_TOPIC: made}))
        assert coordinator(client).error_code == Code.NONE
    node.call(held.is_let_go.set)


def test_a_command_for_the_internal_topic_that_failed_is_told_once(
    node: LiveNode, held: HeldCommands, caplog: pytest.LogCaptureFixture
) -> None:
    topics = node.broker.metadata.topics_by_name
    made = node.call(lambda: topics.pop(INTERNAL_TOPIC))

    def fail(command: Any) -> Any:
        raise MetadataTimeout(30_000)

    real, held._real = held._real, type("Failing", (), {"submit": staticmethod(fail)})
    with connected(node) as client:
        assert coordinator(client).error_code == Code.COORDINATOR_NOT_AVAILABLE
        node.call(held.is_let_go.set)
        node.call(lambda: topics.update({INTERNAL_TOPIC: made}))
        assert coordinator(client).error_code == Code.NONE
    told = [line for line in caplog.messages if "not created yet" in line]
    assert len(told) == 1
    assert "30000 ms" in told[0]
    held._real = real


def test_metadata_of_a_missing_topic_is_not_waited_for_either(
    node: LiveNode, held: HeldCommands
) -> None:
    with connected(node) as client:
        assert metadata_code(client, "a", "b") == dict.fromkeys("ab", Code.LEADER_NOT_AVAILABLE)
        assert metadata_code(client, "b", "c") == dict.fromkeys("bc", Code.LEADER_NOT_AVAILABLE)
        made = [[topic.name for topic in command.topics] for command in held.commands]
        assert made == [["a", "b"], ["c"]]
        node.call(held.is_let_go.set)
        while any(metadata_code(client, "a", "b", "c").values()):
            assert len(held.commands) == 2


def test_an_attempt_that_failed_is_made_again_for_the_next_who_asks(
    node: LiveNode, held: HeldCommands
) -> None:
    def fail(command: Any) -> Any:
        raise MetadataTimeout(30_000)

    real, held._real = held._real, type("Failing", (), {"submit": staticmethod(fail)})
    node.call(held.is_let_go.set)
    with connected(node) as client:
        assert metadata_code(client, "a") == {"a": Code.LEADER_NOT_AVAILABLE}
        held._real = real
        while metadata_code(client, "a")["a"]:
            assert len(held.commands) == 2


def test_so_many_topics_are_being_made_at_one_time(
    node: LiveNode, held: HeldCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics_on_demand, "UNDER_WAY_MAX", 3)
    monkeypatch.setattr(topics_on_demand, "WAIT_MS", 0)

    async def errors_of(on_demand: TopicsOnDemand, *names: str) -> list[type | None]:
        created = await on_demand.create(NewTopic(name=name) for name in names)
        return [type(error) for error in created.values()]

    def ask(*names: str) -> list[type | None]:
        work = errors_of(node.front.on_demand, *names)
        return asyncio.run_coroutine_threadsafe(work, node.loop).result(120)

    assert ask("a", "b") == [MetadataTimeout] * 2
    assert ask("b", "c", "d") == [MetadataTimeout, MetadataTimeout, MetadataQueueFull]
    assert ask("d") == [MetadataQueueFull]
    node.call(held.is_let_go.set)
