"""What a client may not do: each API asks for it, answers with Kafka's code, and does nothing."""

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.access import OPERATIONS_ON, Operation, Requester, Resource
from penstock.kafka.registry import load_apis
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.broker.cluster import Cluster, Wire, fetched, produce_fields
from tests.kafka.gate_access_cases import PROVER
from tests.kafka.gate_asks import (
    ABSENT,
    HIDDEN,
    OPEN,
    SECRET,
    Case,
    commit,
    fetch,
    ms,
    new_topic,
    produce,
)
from tests.kafka.gate_cases import CASES
from tests.live_node import LiveNode, RawClient, running_node


class Refuses:
    """An authoriser that refuses what it is told to, and remembers what it was asked."""

    permits_all = False
    generation = 0

    def __init__(self, *, everything: bool) -> None:
        self.everything = everything
        self.asked: set[tuple[Operation, Resource, str]] = set()

    def permits(self, who: Requester, operation: Operation, resource: Resource, name: str) -> bool:
        assert who.principal in {"User:ANONYMOUS", PROVER}
        assert who.host in {"127.0.0.1", Wire.client_host}
        assert operation in OPERATIONS_ON[resource]
        self.asked.add((operation, resource, name))
        is_hidden = resource in {Resource.CLUSTER, Resource.DELEGATION_TOKEN} or "hidden" in name
        return not (self.everything or is_hidden)

    def permits_some(self, who: Requester, operation: Operation, resource: Resource) -> bool:
        self.asked.add((operation, resource, "*"))
        return not self.everything


class World:
    """A node with an open and a hidden topic, and an open and a hidden group."""

    def __init__(self, node: LiveNode, client: RawClient) -> None:
        self.node, self.client = node, client
        new = [new_topic(name) for name in (OPEN, HIDDEN)]
        self.client.ask(ApiKey.CREATE_TOPICS, 5, {"topics": new, "timeout": ms(9_000)})
        self.client.ask(ApiKey.PRODUCE, 11, produce(OPEN, HIDDEN))
        self.client.ask(ApiKey.OFFSET_COMMIT, 8, commit(OPEN, OPEN, HIDDEN))
        self.client.ask(ApiKey.OFFSET_COMMIT, 8, commit(HIDDEN, HIDDEN))

    def ask(self, case: Case, fields: dict[str, Any]) -> Any:
        """Ask as whom the case says; where that is somebody, others have tokens."""
        if case.who:
            for name in (OPEN, HIDDEN):
                self.be(f"User:{name}")
                token = {"renewers": (), "max_lifetime": ms(-1)}
                made = self.client.ask(ApiKey.CREATE_DELEGATION_TOKEN, 2, token)
                assert made.error_code == Code.NONE
        self.be(case.who)
        try:
            return self.client.ask(case.key, case.version, fields)
        finally:
            self.be("")

    def be(self, principal: str) -> None:
        """Let the client be somebody, as if it had proved it."""
        listener = self.node.node._listener
        assert listener is not None

        def change() -> None:
            for connection in listener.connections:
                connection.principal, connection.state = principal, None

        self.node.call(change)

    def refuse(self, *, everything: bool) -> Refuses:
        self.node.broker.authoriser = refuses = Refuses(everything=everything)
        return refuses

    def id_of(self, name: str) -> uuid.UUID:
        return uuid.UUID(bytes=self.node.broker.metadata.topics_by_name[name].topic_id)

    def look(self, name: str) -> object:
        """All that a request could have changed of a topic and the group of the same name."""
        broker = self.node.broker
        hosted = broker.partitions.find(name, 0)
        log = hosted and (hosted.log.log_start_offset, hosted.log.log_end_offset)
        topic = broker.metadata.topics_by_name.get(name)
        group = broker.groups.reading.describe(name)
        return topic, log, group, broker.groups.reading.fetch_offsets(name, None).offsets

    def look_everywhere(self) -> object:
        broker = self.node.broker
        names = sorted(broker.metadata.topics_by_name), sorted(broker.groups.reading.group_ids())
        return names, broker.metadata.next_producer_id, [self.look(name) for name in names[0]]


@contextmanager
def new_world(directory: Path) -> Iterator[World]:
    secret, data = directory / "token-secret", directory / "data"
    data.mkdir()
    secret.write_text("a secret of more than 32 characters\n")
    secret.chmod(0o600)
    tokens = f"security.delegation_token_secret_file={secret}"
    broker = ("broker.auto_create_topics=true", "broker.client_metrics=true")
    with (
        running_node(data, *broker, tokens) as node,
        closing(node.connect()) as client,
    ):
        yield World(node, client)


@pytest.fixture(scope="module")
def still_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One for all tests that find that nothing has changed."""
    with new_world(tmp_path_factory.mktemp("still")) as world:
        yield world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with new_world(tmp_path) as world:
        yield world


def name_of(case: Case) -> str:
    return f"{case.key.name.lower()}-{case.version}"


def test_every_api_has_a_case() -> None:
    assert {case.key for case in CASES} == set(load_apis())


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_who_may_do_nothing_is_told_so_and_nothing_happens(still_world: World, case: Case) -> None:
    world = still_world
    fields, before = case.fields(world.id_of), world.node.call(world.look_everywhere)
    refuses = world.refuse(everything=True)
    answer = world.ask(case, fields)
    assert case.codes(answer) == case.if_nothing
    assert {need[:2] for need in refuses.asked} <= case.needs
    assert world.node.call(world.look_everywhere) == before
    told = repr(answer)
    assert SECRET not in told.encode()
    assert case.names_hidden or HIDDEN not in told
    assert told.count("not authorized to do this") == told.count("it needs the permission")


def test_who_may_not_create_a_topic_hears_which_permission_it_takes(world: World) -> None:
    (case,) = [one for one in CASES if one.key == ApiKey.CREATE_TOPICS]
    world.refuse(everything=True)
    told = repr(world.ask(case, case.fields(world.id_of)))
    assert "not authorized to do this with the topic: it needs the permission CREATE" in told


def renamed(value: Any) -> Any:
    """Return fields with names of what is not there in the place of the open and the hidden."""
    if isinstance(value, dict):
        return {name: renamed(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [renamed(one) for one in value]
    return (
        value.replace(OPEN, NOT_OPEN).replace(HIDDEN, NOT_HIDDEN) if type(value) is str else value
    )


NOT_OPEN, NOT_HIDDEN = f"{OPEN[:-1]}_", f"{HIDDEN[:-1]}_"


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_who_may_do_nothing_is_told_the_same_of_what_is_there_and_what_is_not(
    still_world: World, case: Case
) -> None:
    world, fields = still_world, case.fields(still_world.id_of)
    if renamed(fields) == fields:
        return  # it names nothing
    world.refuse(everything=True)
    there, absent = world.ask(case, fields), world.ask(case, renamed(fields))
    told = repr(absent).replace(NOT_OPEN, OPEN).replace(NOT_HIDDEN, HIDDEN)
    assert told == repr(there)


def test_what_is_left_out_of_the_positions_of_a_group_is_no_denial(world: World) -> None:
    world.refuse(everything=False)
    fields = {"groups": [{"group_id": OPEN, "topics": None}], "require_stable": False}
    (group,) = world.client.ask(ApiKey.OFFSET_FETCH, 8, fields).groups
    assert [topic.name for topic in group.topics] == [OPEN]
    assert world.node.call(lambda: dict(world.node.broker.denials.counts)) == {}


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_what_is_hidden_stays_so_while_the_rest_is_done(world: World, case: Case) -> None:
    fields = case.fields(world.id_of)
    before = world.node.call(lambda: [world.look(name) for name in (HIDDEN, ABSENT)])
    refuses = world.refuse(everything=False)
    answer = world.ask(case, fields)
    assert case.codes(answer) == case.if_hidden
    assert case.needs <= {need[:2] for need in refuses.asked}
    assert world.node.call(lambda: [world.look(name) for name in (HIDDEN, ABSENT)]) == before
    assert repr(answer).encode().count(SECRET) == (case.key is ApiKey.FETCH)
    assert case.names_hidden or HIDDEN not in repr(answer)


class Reads(Refuses):
    """Permits to read and to see, and nothing else."""

    def permits(self, who: Requester, operation: Operation, resource: Resource, name: str) -> bool:
        return operation in {Operation.READ, Operation.DESCRIBE}


def test_the_operations_told_are_those_that_are_permitted(world: World) -> None:
    world.node.broker.authoriser = Reads(everything=False)
    topics = {"topics": [{"name": OPEN}], "include_topic_authorized_operations": True}
    fields = topics | {"include_cluster_authorized_operations": True}
    answer = world.client.ask(ApiKey.METADATA, 10, fields)
    read_and_describe = 1 << 3 | 1 << 8
    assert answer.topics[0].topic_authorized_operations == read_and_describe
    assert answer.cluster_authorized_operations == 1 << 8
    groups = {"groups": [OPEN], "include_authorized_operations": True}
    (group,) = world.client.ask(ApiKey.DESCRIBE_GROUPS, 5, groups).groups
    assert group.authorized_operations == read_and_describe


def cluster_of(*topics: str) -> Cluster:
    cluster = Cluster(1)
    for name in topics:
        cluster.create(name)
    return cluster


def test_a_run_of_produce_requests_is_refused_where_it_may_not_write() -> None:
    cluster = cluster_of(OPEN, HIDDEN)
    (node,) = cluster.nodes
    node.broker.authoriser = Refuses(everything=False)
    asked = node.produce_together(*[produce_fields(one, (b"v",), -1, {}) for one in (OPEN, HIDDEN)])
    cluster.world.run()
    codes = [code for _, code, _ in asked.outcomes]
    assert codes == [Code.NONE, Code.TOPIC_AUTHORIZATION_FAILED]
    ends = [node.broker.partitions.find(one, 0) for one in (OPEN, HIDDEN)]
    assert [end and end.log.log_end_offset for end in ends] == [1, 0]


def test_a_batch_without_acknowledgement_that_is_refused_ends_the_connection() -> None:
    (node,) = cluster_of(HIDDEN).nodes
    node.broker.authoriser = Refuses(everything=False)
    assert node.produce(b"v", topic=HIDDEN, acks=0).wire.closed is not None


def test_a_fetch_session_is_asked_about_with_each_request() -> None:
    (node,) = cluster_of(HIDDEN).nodes
    session = {"max_wait_ms": 0, "session_epoch": 0}
    named = fetch(HIDDEN) | session
    first = node.ask(ApiKey.FETCH, 12, named)
    assert first.responses[0].partitions[0].error_code == Code.NONE
    node.broker.authoriser = Refuses(everything=False)
    again = named | {"session_id": first.session_id, "session_epoch": 1, "topics": []}
    (topic,) = node.ask(ApiKey.FETCH, 12, again).responses
    assert topic.partitions[0].error_code == Code.TOPIC_AUTHORIZATION_FAILED
    assert topic.partitions[0].high_watermark == -1


def test_a_refused_fetch_does_not_wait_for_records() -> None:
    (node,) = cluster_of(HIDDEN).nodes
    node.broker.authoriser = Refuses(everything=False)
    asked = node.fetch(0, topic=HIDDEN, wait_ms=30_000)
    assert fetched(asked).error_code == Code.TOPIC_AUTHORIZATION_FAILED


def test_where_all_is_permitted_nobody_is_asked() -> None:
    (node,) = cluster_of(OPEN).nodes
    node.broker.authoriser = silent = Refuses(everything=True)
    silent.permits_all = True
    asked = node.produce(b"v", topic=OPEN)
    node.cluster.world.run()
    assert asked.answer.responses[0].partition_responses[0].error_code == Code.NONE
    assert len(fetched(node.fetch(0, topic=OPEN)).records) > 0
    assert silent.asked == set()
