"""A node with rules, closed at all fronts: `alice` may use what is open, and has no other right."""

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from harness.ports import free_port
from penstock.access.rules import AclOperation, AclPattern, AclPermission, AclResource, Rule
from penstock.controller.commands.access.commands import AddAcls
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.broker.cluster import batch
from tests.grpc.signing import SignedCaller
from tests.kafka.test_sasl import choose, prove
from tests.live_node import LiveNode, RawClient, running_node
from tests.remoting.signing import SignedRemote

OPEN, HIDDEN, SECRET = "open", "hidden", b"what-nobody-else-may-read"
OWN, FOREIGN = "alices", "victims"
"""Groups, and the transactional ids of the same names."""
RETRY, DEAD = f"%RETRY%{FOREIGN}", f"%DLQ%{FOREIGN}"
PASSWORDS = {"alice": "a-secret-of-alices-own", "root": "a-secret-of-the-root"}
NEW_TOPICS = (OPEN, HIDDEN, f"rmq.retry.{FOREIGN}", f"rmq.dlq.{FOREIGN}")


class Fronts:
    """The node, and who comes in by which front."""

    def __init__(self, node: LiveNode, remoting: str, grpc: str) -> None:
        self.node, self.remoting_address, self.grpc_address = node, remoting, grpc

    @contextmanager
    def kafka(self, user: str = "alice") -> Iterator[RawClient]:
        """A client of Kafka's port."""
        with closing(self.node.connect()) as client:
            choose(client, "PLAIN")
            answer = prove(client, f"\0{user}\0{PASSWORDS[user]}".encode())
            assert answer.error_code == Code.NONE
            yield client

    @contextmanager
    def remoting(self, user: str = "alice") -> Iterator[SignedRemote]:
        """A client of RocketMQ's port."""
        with closing(SignedRemote(self.remoting_address, user, PASSWORDS[user])) as client:
            yield client

    @contextmanager
    def grpc(self, user: str = "alice") -> Iterator[SignedCaller]:
        """A client of RocketMQ's gRPC port."""
        with closing(SignedCaller(self.grpc_address, user, PASSWORDS[user])) as caller:
            yield caller

    def id_of(self, topic: str) -> uuid.UUID:
        """Return a topic's id, which is no secret."""
        return uuid.UUID(bytes=self.node.broker.metadata.topics_by_name[topic].topic_id)

    def look(self) -> object:
        """All that a client could have changed and may not."""

        def read() -> object:
            broker = self.node.broker
            topics = broker.metadata.topics_by_name
            names = [name for name in topics if name != OPEN and not topics[name].internal]
            hosted = {name: broker.partitions.find(name, 0) for name in sorted(names)}
            ends = {
                name: (one.log.log_start_offset, one.log.log_end_offset)
                for name, one in hosted.items()
                if one is not None
            }
            groups = sorted(one for one in broker.groups.reading.group_ids() if OWN not in one)
            return sorted(names), ends, groups, dict(broker.metadata.configuration.credentials)

        return self.node.call(read)


def rule(resource: AclResource, name: str, operation: AclOperation) -> Rule:
    """Return what lets alice do something."""
    return Rule(
        resource_type=resource, resource_name=name, pattern=AclPattern.LITERAL,
        principal="User:alice", host="*", operation=operation, permission=AclPermission.ALLOW,
    )  # fmt: skip


RULES = (
    rule(AclResource.TOPIC, OPEN, AclOperation.ALL),
    rule(AclResource.GROUP, OWN, AclOperation.ALL),
    rule(AclResource.TRANSACTIONAL_ID, OWN, AclOperation.ALL),
)


@contextmanager
def running_fronts(directory: Path) -> Iterator[Fronts]:
    """See the module."""
    users = directory / "users"
    users.touch(0o600)
    users.write_text("".join(f"{name}:{password}\n" for name, password in PASSWORDS.items()))
    data = directory / "data"
    data.mkdir()
    ports = free_port(), free_port()
    closed = ",".join(f"{one}:SASL_PLAINTEXT" for one in ("kafka", "remoting", "grpc"))
    with running_node(
        data,
        f"remoting.port={ports[0]}",
        f"grpc.port={ports[1]}",
        f"security.listener_security_protocol_map={closed}",
        "security.sasl_enabled_mechanisms=PLAIN",
        "security.sasl_plain_without_tls=true",
        f"security.sasl_plain_users_file={users}",
        f"security.remoting_access_keys_file={users}",
        "access.authorizer=acl",
        "access.super_users=User:root",
        "broker.auto_create_topics=true",
        "broker.client_metrics=true",
    ) as node:
        fronts = Fronts(node, *(f"127.0.0.1:{port}" for port in ports))
        _fill(fronts)
        yield fronts


def _fill(fronts: Fronts) -> None:
    node = fronts.node
    topics = tuple(NewTopic(name=name, partition_count=1) for name in NEW_TOPICS)
    node.submit(CreateTopics(topics=topics))
    node.submit(AddAcls(acls=RULES))
    with fronts.kafka("root") as root:
        for name in NEW_TOPICS:
            value = b"in the open" if name == OPEN else SECRET
            assert codes_of(produce(root, name, batch(value))) == [Code.NONE]


def produce(
    client: RawClient, topic: str, records: bytes, transactional_id: str | None = None
) -> Any:
    """Write a batch."""
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    fields = {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 5000}
    return client.ask(ApiKey.PRODUCE, 11, fields | {"topic_data": data})


def codes_of(answer: Any) -> list[Code]:
    """Return the codes of partitions."""
    return [part.error_code for topic in answer.responses for part in topic.partition_responses]
