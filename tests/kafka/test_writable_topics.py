"""What the gate remembers of topics that a connection has written to is dropped by any change."""

import uuid
from typing import Any

import pytest

from penstock.access.authoriser import AclAuthoriser
from penstock.access.config import AccessConfig, AuthoriserKind
from penstock.access.rules import AclOperation, AclPattern, AclPermission, AclResource, Rule
from penstock.kafka.gate import WRITABLE_MAX
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.broker.cluster import batch
from tests.kafka.transacting import create
from tests.live_node import LiveNode, RawClient

TOPIC_ID_VERSION = 13


def a_rule(topic: str, permission: AclPermission, principal: str = "User:alice") -> Rule:
    return Rule(
        resource_type=AclResource.TOPIC,
        resource_name=topic,
        pattern=AclPattern.LITERAL,
        principal=principal,
        host="*",
        operation=AclOperation.WRITE,
        permission=permission,
    )


def keyed(rule: Rule) -> tuple[bytes, Rule]:
    return repr(rule).encode(), rule


class World:
    """A client that is alice; rules say where she may write."""

    def __init__(self, node: LiveNode, client: RawClient) -> None:
        self.node, self.client = node, client
        self.authoriser = self.new_authoriser()
        self.be("User:alice")

    def new_authoriser(self) -> AclAuthoriser:
        return AclAuthoriser(
            AccessConfig(authorizer=AuthoriserKind.ACL, super_users=("User:root",))
        )

    def decide(self, by: AclAuthoriser) -> None:
        self.node.broker.authoriser = by

    def be(self, principal: str) -> None:
        """Let the client have proved who it is, once more, on the same connection."""
        listener = self.node.node._listener
        assert listener is not None

        def change() -> None:
            for connection in listener.connections:
                connection.principal = principal
                if connection.state is not None:
                    connection.state.principal = principal

        self.node.call(change)

    def change(self, added: list[Rule], removed: list[Rule]) -> None:
        self.node.call(
            lambda: self.authoriser.change(map(keyed, added), map(keyed, removed)),
        )

    def write(self, *topics: str, version: int = 9) -> list[Code]:
        """Produce a record to each topic in one request; return the codes."""
        by_name = self.node.broker.metadata.topics_by_name
        data: list[dict[str, Any]] = []
        for topic in topics:
            part = {"partition_data": [{"index": 0, "records": batch(b"x")}]}
            if version >= TOPIC_ID_VERSION:
                data.append({"topic_id": uuid.UUID(bytes=by_name[topic].topic_id), **part})
            else:
                data.append({"name": topic, **part})
        fields = {"transactional_id": None, "acks": 1, "timeout": 30_000, "topic_data": data}
        answer = self.client.ask(ApiKey.PRODUCE, version, fields)
        return [
            Code(one.error_code) for topic in answer.responses for one in topic.partition_responses
        ]


@pytest.fixture
def world(node: LiveNode, client: RawClient) -> World:
    for topic in ("ours", "shut"):
        create(client, topic, 1)
    made = World(node, client)
    made.change([a_rule("ours", AclPermission.ALLOW)], [])
    made.decide(made.authoriser)
    return made


REFUSED = Code.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", [9, TOPIC_ID_VERSION])
def test_a_denial_has_effect_at_the_next_request_and_ends_with_its_rule(
    world: World, version: int
) -> None:
    deny = a_rule("ours", AclPermission.DENY)
    for _ in range(2):
        assert world.write("ours", version=version) == [Code.NONE]
    world.change([deny], [])
    assert world.write("ours", version=version) == [REFUSED]
    world.change([], [deny])
    assert world.write("ours", version=version) == [Code.NONE]


def test_another_authoriser_is_asked_for_itself(world: World) -> None:
    assert world.write("ours") == [Code.NONE]
    other = world.new_authoriser()
    other.change([keyed(a_rule("shut", AclPermission.ALLOW))], [])
    world.decide(other)
    assert world.write("ours", "shut") == [REFUSED, Code.NONE]


def test_another_principal_on_the_connection_has_its_own_permissions(world: World) -> None:
    assert world.write("ours") == [Code.NONE]
    world.be("User:bob")
    assert world.write("ours") == [REFUSED]
    world.be("User:alice")
    assert world.write("ours") == [Code.NONE]


def test_each_topic_of_a_request_is_asked_for(world: World) -> None:
    assert world.write("ours", "shut", "ours") == [Code.NONE, REFUSED, Code.NONE]
    assert world.write("shut", "shut", "ours") == [REFUSED, REFUSED, Code.NONE]


def test_more_topics_than_are_remembered_are_written_to(world: World) -> None:
    names = [f"many-{number}" for number in range(WRITABLE_MAX + 2)]
    world.be("User:root")
    for name in names:
        create(world.client, name, 1)
    world.be("User:alice")
    world.change([a_rule(name, AclPermission.ALLOW) for name in names], [])
    for _ in range(2):
        assert world.write(*names) == [Code.NONE] * len(names)
    assert world.write("shut", names[-1]) == [REFUSED, Code.NONE]
    deny = a_rule(names[-1], AclPermission.DENY)
    world.change([deny], [])
    assert world.write(names[0], names[-1]) == [Code.NONE, REFUSED]
