"""Each gRPC method without each single permission that it needs: refused, and nothing happens."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service

from penstock.broker.access import OPERATIONS_ON, Operation, PermitsAll, Requester, Resource
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.grpc.methods.not_served import NAMES
from penstock.grpc.methods.table import METHODS
from tests.grpc.served import Caller, message, running_grpc_node
from tests.live_node import LiveNode

Need = tuple[Operation, Resource]
OK = definition.OK
THERE, MISSING = "there", "missing"
WRITE, DESCRIBE = (Operation.WRITE, Resource.TOPIC), (Operation.DESCRIBE, Resource.TOPIC)
CREATE = (Operation.CREATE, Resource.TOPIC)
CREATE_ANY = (Operation.CREATE, Resource.CLUSTER)


def route(name: str) -> Any:
    return service.QueryRouteRequest(topic=definition.Resource(name=name))


def sending(name: str) -> Any:
    return service.SendMessageRequest(messages=[message(name)])


PRODUCER = service.HeartbeatRequest(client_type=definition.PRODUCER)
CASES: dict[str, tuple[Any, frozenset[Need]]] = {
    "SendMessage": (sending(THERE), frozenset({WRITE})),
    "QueryRoute": (route(THERE), frozenset({DESCRIBE})),
    "Heartbeat": (PRODUCER, frozenset()),
    "NotifyClientTermination": (service.NotifyClientTerminationRequest(), frozenset()),
}
"""A request of each method that is answered, and all that it needs."""
STREAMS = {"Telemetry"}
"""Tells settings alone: nothing of a topic, group or the cluster."""


class Denies(PermitsAll):
    """Denies what it is told to, and remembers what it was asked."""

    permits_all = False

    def __init__(self, denied: frozenset[Need] = frozenset()) -> None:
        self._denied = denied
        self.asked: set[Need] = set()

    def permits(self, who: Requester, operation: Operation, resource: Resource, name: str) -> bool:
        assert operation in OPERATIONS_ON[resource]
        assert who.principal == "User:ANONYMOUS"
        assert who.host == "127.0.0.1"
        self.asked.add((operation, resource))
        return (operation, resource) not in self._denied


class World:
    """A node with a topic, on which missing ones are created."""

    def __init__(self, node: LiveNode, caller: Caller) -> None:
        self.node, self.caller = node, caller
        node.submit(CreateTopics(topics=(NewTopic(name=THERE),)))

    def ask(self, method: str, request: Any, *denied: Need) -> tuple[int, set[Need]]:
        """Ask with these permissions taken away; return the code, and all that was asked for."""
        broker, denies = self.node.broker, Denies(frozenset(denied))
        self.node.call(lambda: setattr(broker, "authoriser", denies))
        try:
            return self.caller.call(method, request).status.code, denies.asked
        finally:
            self.node.call(lambda: setattr(broker, "authoriser", PermitsAll()))

    def state(self) -> tuple[set[str], list[int]]:
        """All topics, and how far the one that is there has got."""

        def read() -> tuple[set[str], list[int]]:
            topic = self.node.broker.partitions.by_name[THERE.encode()]
            ends = [topic.find(one).log.log_end_offset for one in range(len(topic.partitions))]  # type: ignore[union-attr]
            return set(self.node.broker.metadata.topics_by_name), ends

        return self.node.call(read)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("needs")
    with (
        running_grpc_node(directory, "broker.auto_create_topics=true") as (node, address),
        closing(Caller(address)) as caller,
    ):
        yield World(node, caller)


def test_every_method_has_a_case_or_is_not_served() -> None:
    assert {one.name for one in METHODS} == {*CASES, *NAMES, *STREAMS}


@pytest.mark.parametrize("method", CASES)
def test_a_method_asks_for_its_row_and_nothing_else(world: World, method: str) -> None:
    request, needs = CASES[method]
    assert world.ask(method, request) == (OK, set(needs))


@pytest.mark.parametrize(
    ("method", "need"), [(method, need) for method, (_, needs) in CASES.items() for need in needs]
)
def test_without_one_permission_it_is_refused_and_nothing_happens(
    world: World, method: str, need: Need
) -> None:
    before = world.state()
    assert world.ask(method, CASES[method][0], need)[0] == definition.FORBIDDEN
    assert world.state() == before


def test_a_missing_topic_is_refused_as_one_that_is_there(world: World) -> None:
    for method, make, need in (("SendMessage", sending, WRITE), ("QueryRoute", route, DESCRIBE)):
        there, missing = make(THERE), make(MISSING)
        assert world.ask(method, there, need)[0] == world.ask(method, missing, need)[0]
    assert MISSING not in world.state()[0]


def test_a_topic_is_created_by_either_of_two_permissions_and_without_both_by_none(
    world: World,
) -> None:
    before = world.state()
    code, asked = world.ask("QueryRoute", route(MISSING), CREATE, CREATE_ANY)
    assert code == definition.TOPIC_NOT_FOUND
    assert asked == {DESCRIBE, CREATE, CREATE_ANY}
    assert world.state() == before
    for one in (CREATE, CREATE_ANY):
        name = f"{MISSING}-{one[1].name.lower()}"
        assert world.ask("QueryRoute", route(name), one)[0] == OK
        assert name in world.state()[0]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_served_asks_for_nothing(world: World, name: str) -> None:
    asked: set[Need] = set()
    denies = Denies()
    broker = world.node.broker
    world.node.call(lambda: setattr(broker, "authoriser", denies))
    try:
        world.caller.raw(f"/apache.rocketmq.v2.MessagingService/{name}", b"")
        asked = denies.asked
    finally:
        world.node.call(lambda: setattr(broker, "authoriser", PermitsAll()))
    assert not asked
