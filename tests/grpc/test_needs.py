"""What each method asks the gate for: the rows of grpc/needs.py."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service

from penstock.base.ids import ReplicaSetId
from penstock.broker.access import OPERATIONS_ON, Operation, PermitsAll, Requester, Resource
from penstock.grpc.consuming.receipts import write_receipt
from penstock.grpc.methods.not_served import NAMES
from penstock.grpc.methods.table import METHODS
from penstock.grpc.needs import EITHER, NEEDS, Need
from penstock.remoting.recall.handle import Handle, handle_text
from tests.grpc.receiving import OK, Member, named, send
from tests.grpc.served import Caller, message, running_grpc_node
from tests.live_node import LiveNode

TOPIC, FORBIDDEN = "topic", definition.FORBIDDEN
RECEIPT = write_receipt(0, 0, 0).decode()


class Denies(PermitsAll):
    """Denies what it is told to, and remembers what it was asked."""

    permits_all = False

    def __init__(self, denied: frozenset[Need]) -> None:
        self._denied = denied
        self.asked: set[Need] = set()

    def permits(self, who: Requester, operation: Operation, resource: Resource, name: str) -> bool:
        assert operation in OPERATIONS_ON[resource]
        self.asked.add((operation, resource))
        return (operation, resource) not in self._denied


class World:
    """A node with a topic, and a consumer that has told its settings."""

    def __init__(self, node: LiveNode, member: Member) -> None:
        self.node, self.member, self.caller = node, member, member.caller
        self._missing = 0
        self.cases: dict[str, Callable[[], int]] = {
            "QueryRoute": self._route,
            "Heartbeat": lambda: member.beat().status.code,
            "SendMessage": lambda: self.caller.send(message(TOPIC)).status.code,
            "EndTransaction": self._end,
            "RecallMessage": self._recall,
            "QueryAssignment": lambda: member.assignments(TOPIC).status.code,
            "ReceiveMessage": lambda: member.receive(TOPIC, 0).code,
            "AckMessage": lambda: member.ack(TOPIC, RECEIPT).status.code,
            "ForwardMessageToDeadLetterQueue": lambda: member.forward(TOPIC, RECEIPT).status.code,
            "ChangeInvisibleDuration": lambda: member.change(TOPIC, RECEIPT, 60).status.code,
            "Telemetry": self._settle,
            "NotifyClientTermination": lambda: member.end().status.code,
        }

    def _route(self) -> int:
        self._missing += 1
        request = service.QueryRouteRequest(topic=named(f"missing-{self._missing}"))
        return int(self.caller.call("QueryRoute", request).status.code)

    def _end(self) -> int:
        request = service.EndTransactionRequest(
            topic=named(TOPIC), message_id="ID", transaction_id="0" * 16
        )
        return int(self.caller.call("EndTransaction", request).status.code)

    def _recall(self) -> int:
        handle = handle_text(Handle(TOPIC, ReplicaSetId(1), 1 << 42, "ID"))
        request = service.RecallMessageRequest(topic=named(TOPIC), recall_handle=handle)
        return int(self.caller.call("RecallMessage", request).status.code)

    def _settle(self) -> int:
        with self.member.settled() as told:
            return int(told.status.code)

    def ask(self, method: str, *denied: Need) -> tuple[int, set[Need]]:
        """Call with these permissions taken away; return its code, and what was asked for."""
        broker, denies = self.node.broker, Denies(frozenset(denied))
        self.node.call(lambda: setattr(broker, "authoriser", denies))
        try:
            return self.cases[method](), denies.asked
        finally:
            self.node.call(lambda: setattr(broker, "authoriser", PermitsAll()))

    def state(self) -> tuple[set[str], int]:
        """All topics, and how far the one that is there has got."""

        def read() -> tuple[set[str], int]:
            broker = self.node.broker
            hosted = broker.partitions.by_name[TOPIC.encode()].find(0)
            assert hosted is not None
            return set(broker.metadata.topics_by_name), hosted.log.log_end_offset

        return self.node.call(read)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("needs")
    with (
        running_grpc_node(directory, "broker.auto_create_topics=true") as (node, address),
        closing(Caller(address)) as caller,
    ):
        route: Any = caller.call("QueryRoute", service.QueryRouteRequest(topic=named(TOPIC)))
        assert route.status.code == OK
        send(caller, TOPIC, "a")
        yield World(node, Member(caller))


def test_every_method_that_is_served_has_a_row_and_a_case(world: World) -> None:
    assert {one.name for one in METHODS} - {*NAMES} == NEEDS.keys() == world.cases.keys()


@pytest.mark.parametrize("method", NEEDS)
def test_a_method_asks_for_its_row_and_nothing_else(world: World, method: str) -> None:
    code, told = world.ask(method)
    assert code != FORBIDDEN
    for need in NEEDS[method]:
        told |= world.ask(method, need)[1]
    assert told == NEEDS[method]


@pytest.mark.parametrize(
    ("method", "need"), [(method, need) for method, needs in NEEDS.items() for need in needs]
)
def test_a_method_without_one_permission_is_refused(world: World, method: str, need: Need) -> None:
    either = EITHER.get(method, ())
    before = world.state()
    if need in either:
        assert world.ask(method, need)[0] == OK, "the other one suffices"
        assert world.ask(method, *either)[0] == definition.TOPIC_NOT_FOUND
    else:
        assert world.ask(method, need)[0] == FORBIDDEN
        assert world.state() == before


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_served_asks_for_nothing(world: World, name: str) -> None:
    denies = Denies(frozenset())
    world.node.call(lambda: setattr(world.node.broker, "authoriser", denies))
    try:
        world.caller.raw(f"/apache.rocketmq.v2.MessagingService/{name}", b"")
    finally:
        world.node.call(lambda: setattr(world.node.broker, "authoriser", PermitsAll()))
    assert not denies.asked
