"""AlterPartitionReassignments and ListPartitionReassignments: partitions stand for their sets."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from harness.ids import as_brokers
from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.broker.turns import SLICE
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.controller.commands.reassignment.commands import AdvanceReassignment
from penstock.controller.errors import MetadataTimeout, NotActiveController
from penstock.controller.metadata.reassignment_records import ReassignmentChanged
from penstock.controller.metadata.replay import replay
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.broker.cluster import SET, Cluster, Node
from tests.live_node import LiveNode, RawClient

SOON = datetime.timedelta(seconds=5)
Replicas = Sequence[int] | None


def _three() -> Cluster:
    """Brokers 0 to 2 are the set of two partitions; broker 3 is a member of none."""
    cluster = Cluster(3)
    cluster.create("events", partitions=2)
    cluster.register(3)
    return cluster


def _alter(
    node: Node, wanted: Mapping[tuple[str, int], Replicas], version: int = 1, **more: Any
) -> Any:
    topics = [
        {"name": name, "partitions": [{"partition_index": number, "replicas": replicas}]}
        for (name, number), replicas in wanted.items()
    ]
    fields = {"timeout": SOON, "topics": topics, **more}
    if version > 0:
        fields.setdefault("allow_replication_factor_change", True)
    return node.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, fields)


def _codes(answer: Any) -> dict[tuple[str, int], ErrorCode]:
    assert answer.error_code == ErrorCode.NONE
    return {
        (topic.name, one.partition_index): ErrorCode(one.error_code)
        for topic in answer.responses
        for one in topic.partitions
    }


def _message(answer: Any) -> str:
    text = answer.responses[0].partitions[0].error_message
    assert isinstance(text, str)
    return text


def _list(node: Node, topics: Any = None) -> dict[tuple[str, int], tuple[tuple[int, ...], ...]]:
    fields = {"timeout": SOON, "topics": topics}
    answer = node.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, fields)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    return {
        (topic.name, one.partition_index): (
            one.replicas, one.adding_replicas, one.removing_replicas,
        )
        for topic in answer.topics
        for one in topic.partitions
    }  # fmt: skip


def _both(replicas: Replicas) -> dict[tuple[str, int], Replicas]:
    return {("events", 0): replicas, ("events", 1): replicas}


def _advance(cluster: Cluster, target: Sequence[int], **step: int) -> None:
    fields = {name: BrokerId(broker) for name, broker in step.items()}
    command = AdvanceReassignment(
        replica_set_id=ReplicaSetId(SET), target=as_brokers(*target), **fields
    )
    cluster.metadata.submit(command)


@pytest.mark.parametrize("version", [0, 1])
def test_all_partitions_of_a_set_get_its_new_members(version: int) -> None:
    cluster = _three()
    answer = _alter(cluster.nodes[1], _both([3, 0, 1]), version)
    assert _codes(answer) == dict.fromkeys(_both(None), ErrorCode.NONE)
    for node in cluster.nodes:
        assert _list(node) == dict.fromkeys(_both(None), ((0, 1, 2, 3), (3,), (2,)))
    _advance(cluster, (3, 0, 1), added=3)
    assert _list(cluster.nodes[0])["events", 0] == ((0, 1, 2, 3), (3,), (2,))
    _advance(cluster, (3, 0, 1), removed=2)
    assert _list(cluster.nodes[0])["events", 0] == ((0, 1, 3), (3,), ())
    _advance(cluster, (3, 0, 1))
    assert _list(cluster.nodes[0]) == {}
    assert cluster.metadata.image.replica_sets[ReplicaSetId(SET)].replicas == (3, 0, 1)


def test_some_partitions_of_a_set_can_not_move_and_the_answer_says_what_can() -> None:
    cluster = _three()
    answer = _alter(cluster.nodes[0], {("events", 0): [3, 0, 1]})
    assert _codes(answer) == {("events", 0): ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    assert "The 2 partitions of replica set 0" in _message(answer)
    assert "names 1 of them" in _message(answer)
    assert _list(cluster.nodes[0]) == {}


def test_different_replicas_for_partitions_of_a_set_are_refused() -> None:
    cluster = _three()
    answer = _alter(cluster.nodes[0], {("events", 0): [3, 0, 1], ("events", 1): [3, 1, 0]})
    assert set(_codes(answer).values()) == {ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    assert "name the same for all" in _message(answer)
    second = answer.responses[0].partitions[1].error_message
    assert second == "As other partitions of replica set 0."


def test_a_partition_that_is_named_twice_counts_once() -> None:
    cluster = _three()
    twice = [{"partition_index": 0, "replicas": [3, 0, 1]}] * 2
    fields = {
        "timeout": SOON,
        "allow_replication_factor_change": True,
        "topics": [{"name": "events", "partitions": twice}],
    }
    answer = cluster.nodes[0].ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, fields)
    assert _codes(answer) == {("events", 0): ErrorCode.INVALID_REPLICA_ASSIGNMENT}


def test_partitions_of_internal_topics_follow_unnamed() -> None:
    cluster = _three()
    offsets = NewTopic(name="__consumer_offsets", partition_count=3)
    cluster.metadata.submit(CreateTopics(topics=(offsets,), internal=True))
    answer = _alter(cluster.nodes[0], _both([3, 0, 1]))
    assert set(_codes(answer).values()) == {ErrorCode.NONE}
    assert ("__consumer_offsets", 2) in _list(cluster.nodes[0])
    for codes, wanted in (
        ({ErrorCode.NONE}, _both([3, 1, 0]) | _offsets([3, 1, 0], 1)),
        ({ErrorCode.INVALID_REPLICA_ASSIGNMENT}, _offsets([3, 0, 1], 0, 1, 2)),
    ):
        assert set(_codes(_alter(cluster.nodes[0], wanted)).values()) == codes


def _offsets(replicas: Replicas, *numbers: int) -> dict[tuple[str, int], Replicas]:
    return {("__consumer_offsets", number): replicas for number in numbers}


class _Nobody:
    """Who may do nothing."""

    permits_all = False
    generation = 0

    def permits(self, who: object, operation: object, resource: object, name: str) -> bool:
        return False

    def permits_some(self, who: object, operation: object, resource: object) -> bool:
        return False


def test_who_may_not_move_partitions_is_not_told_which_there_are() -> None:
    node = _three().nodes[0]
    node.broker.authoriser = _Nobody()
    partitions = [{"partition_index": number, "replicas": [3]} for number in range(2)]
    topics = [{"name": name, "partitions": partitions} for name in ("events", "absent")]
    fields = {"timeout": SOON, "topics": topics, "allow_replication_factor_change": True}
    answer = node.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, fields)
    there, absent = (
        [(one.partition_index, one.error_code, one.error_message) for one in topic.partitions]
        for topic in answer.responses
    )
    assert there == absent
    assert {code for _, code, _ in there} == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


def test_what_is_so_already_or_under_way_is_no_error_for_one_partition_either() -> None:
    cluster = _three()
    entries = len(cluster.metadata.log)
    assert _codes(_alter(cluster.nodes[0], {("events", 1): [0, 1, 2]})) == {
        ("events", 1): ErrorCode.NONE
    }
    assert len(cluster.metadata.log) == entries
    _alter(cluster.nodes[0], _both([3, 0, 1]))
    assert _codes(_alter(cluster.nodes[0], {("events", 1): [3, 0, 1]})) == {
        ("events", 1): ErrorCode.NONE
    }
    answer = _alter(cluster.nodes[0], {("events", 1): [0, 1, 2]})
    assert _codes(answer) == {("events", 1): ErrorCode.INVALID_REPLICA_ASSIGNMENT}


def test_one_partition_is_enough_to_cancel_what_its_set_is_on_the_way_to() -> None:
    cluster = _three()
    answer = _alter(cluster.nodes[0], {("events", 1): None})
    assert _codes(answer) == {("events", 1): ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
    _alter(cluster.nodes[0], _both([3, 0, 1]))
    _advance(cluster, (3, 0, 1), added=3)
    assert _codes(_alter(cluster.nodes[2], {("events", 1): None})) == {
        ("events", 1): ErrorCode.NONE
    }
    assert _list(cluster.nodes[0])["events", 0] == ((0, 1, 2, 3), (), (3,))
    answer = _alter(cluster.nodes[0], {("events", 1): None})
    assert _codes(answer) == {("events", 1): ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}


@pytest.mark.parametrize(
    ("replicas", "more", "code", "text"),
    [
        ([], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "1 to 32 replicas, not 0"),
        (range(33), {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "1 to 32 replicas, not 33"),
        ([0, 1, 9], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Broker 9 is not registered"),
        ([0, 0, 1], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "each once"),
        (
            [3],
            {"allow_replication_factor_change": False},
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "forbids to change the replication factor",
        ),
    ],
)
def test_replicas_that_no_set_can_have_are_refused(
    replicas: Any, more: dict[str, Any], code: ErrorCode, text: str
) -> None:
    cluster = _three()
    answer = _alter(cluster.nodes[0], _both(list(replicas)), **more)
    assert set(_codes(answer).values()) == {code}
    assert text in _message(answer)
    assert answer.allow_replication_factor_change is not bool(more)


def test_fewer_replicas_are_taken_where_the_request_permits_that() -> None:
    cluster = _three()
    assert set(_codes(_alter(cluster.nodes[0], _both([3]))).values()) == {ErrorCode.NONE}


def test_what_is_unknown_is_told_for_each_partition_and_keeps_nothing_else() -> None:
    cluster = _three()
    wanted = _both([3, 0, 1]) | {("events", 2): [3], ("events", -1): [3], ("nowhere", 0): None}
    codes = _codes(_alter(cluster.nodes[0], wanted))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [codes[one] for one in wanted] == [ErrorCode.NONE] * 2 + [unknown] * 3


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MetadataTimeout(1), ErrorCode.REQUEST_TIMED_OUT),
        (NotActiveController(-1), ErrorCode.NOT_CONTROLLER),  # type: ignore[arg-type]
    ],
)
def test_what_became_of_a_lost_answer_is_found_by_asking_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: ErrorCode
) -> None:
    cluster = _three()
    node = cluster.nodes[0]

    async def submit(command: Any) -> Any:
        cluster.metadata.submit(command)
        raise error

    with monkeypatch.context() as lost:
        lost.setattr(node.broker.controller, "submit", submit)
        assert set(_codes(_alter(node, _both([3, 0, 1]))).values()) == {code}
    entries = len(cluster.metadata.log)
    assert set(_codes(_alter(node, _both([3, 0, 1]))).values()) == {ErrorCode.NONE}
    assert len(cluster.metadata.log) == entries


def test_partitions_are_listed_by_name_and_those_that_stay_are_left_out() -> None:
    cluster = _three()
    _alter(cluster.nodes[0], _both([3, 0, 1]))
    names = [("events", [1, 7, -1, 1]), ("nowhere", [0])]
    asked = [{"name": name, "partition_indexes": numbers} for name, numbers in names]
    assert list(_list(cluster.nodes[0], asked)) == [("events", 1)]
    assert _list(cluster.nodes[0], []) == {}


def test_a_request_for_more_sets_than_a_command_has_makes_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handler = "penstock.kafka.handlers.cluster.alter_partition_reassignments"
    monkeypatch.setattr(f"{handler}.SETS_AT_ONCE", 2)
    cluster = Cluster(1, set_count=5)
    cluster.create("events", partitions=5)
    cluster.register(1)
    entries = len(cluster.metadata.log)
    wanted: dict[tuple[str, int], Replicas] = {("events", one): [1] for one in range(5)}
    assert set(_codes(_alter(cluster.nodes[0], wanted)).values()) == {ErrorCode.NONE}
    assert len(cluster.metadata.log) == entries + 3
    assert len(_list(cluster.nodes[0])) == 5


def test_a_single_node_answers_what_is_so_and_that_there_is_nobody_else(client: RawClient) -> None:
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    topics = [topic | {"assignments": [], "configs": []}]
    client.ask(ApiKey.CREATE_TOPICS, 5, {"topics": topics, "timeout": SOON, "validate_only": False})
    fields: dict[str, Any] = {"timeout": SOON, "allow_replication_factor_change": True}
    codes = []
    for replicas in ([1], [1, 2], None):
        parts = [{"partition_index": 0, "replicas": replicas}]
        fields["topics"] = [{"name": "t", "partitions": parts}]
        answer = client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, fields)
        codes.append(answer.responses[0].partitions[0].error_code)
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ]
    asked = {"timeout": SOON, "topics": None}
    assert client.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, asked).topics == ()


def test_many_partitions_are_reassigned_and_listed_a_slice_at_a_time(
    node: LiveNode, client: RawClient
) -> None:
    count = 12 * SLICE
    topic = {"name": "wide", "num_partitions": count, "replication_factor": 1}
    topics = [topic | {"assignments": [], "configs": []}]
    client.ask(ApiKey.CREATE_TOPICS, 5, {"topics": topics, "timeout": SOON, "validate_only": False})
    partitions = [{"partition_index": one, "replicas": [1, 2]} for one in range(count)]
    fields = {
        "timeout": SOON,
        "allow_replication_factor_change": True,
        "topics": [{"name": "wide", "partitions": partitions}],
    }
    answer = client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, fields)
    assert set(_codes(answer).values()) == {ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    texts = [one.error_message for one in answer.responses[0].partitions]
    assert texts[0] == "Broker 2 is not registered."
    assert set(texts[1:]) == {"As other partitions of replica set 1."}

    image = node.broker.metadata
    wanted = ReassignmentChanged(key="1", target=as_brokers(1, 2), before=as_brokers(1))
    node.call(lambda: replay(image, [wanted]))
    listed = client.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, {"timeout": SOON, "topics": None})
    (told,) = [one for one in listed.topics if one.name == "wide"]
    assert [one.partition_index for one in told.partitions] == list(range(count))
    named = [{"name": "wide", "partition_indexes": list(range(count)) * 2}]
    fields = {"timeout": SOON, "topics": named}
    again = client.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, fields)
    assert again.topics == (told,)
