"""Requests of many elements: answered as short ones are, in slices, with turns for others."""

import uuid
from typing import Any

import pytest

from penstock.broker.errors import PreferredMasterNotAvailable
from penstock.broker.turns import SLICE, Turns
from penstock.controller.topic_config.table import TOPIC_CONFIGS
from penstock.groups.classic.group import Group
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.kafka.answers.alter import EDITS_MAX
from penstock.kafka.dispatch import TASK_FRAME_BYTES
from penstock.kafka.handlers.cluster import describe_configs, elect_leaders
from penstock.kafka.handlers.records import delete_records
from penstock.kafka.long_requests import LONG_FRAME_BYTES
from penstock.kafka.slices import SLICE_ELEMENTS, Joined, path_of, slices_of
from penstock.protocol import slices as protocol_slices
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import decode_request, encode_request
from tests.kafka.test_many_batches import create
from tests.live_node import LiveNode, RawClient

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
COUNT = 3_000


def wanted(partitions: range) -> list[dict[str, int]]:
    return [{"partition_index": partition, "timestamp": -1} for partition in partitions]


def list_offsets(*topics: tuple[str, range]) -> dict[str, Any]:
    named = [{"name": name, "partitions": wanted(partitions)} for name, partitions in topics]
    return {"replica_id": -1, "isolation_level": 0, "topics": named}


def test_one_topic_with_many_partitions_is_one_topic_in_the_answer(
    node: LiveNode, client: RawClient
) -> None:
    fields = list_offsets(("absent", range(COUNT)), ("other", range(2)))
    assert len(encode_request(ApiKey.LIST_OFFSETS, 7, fields)) > LONG_FRAME_BYTES
    answer = client.ask(ApiKey.LIST_OFFSETS, 7, fields)
    assert [topic.name for topic in answer.topics] == ["absent", "other"]
    first, second = (topic.partitions for topic in answer.topics)
    assert [one.partition_index for one in first] == list(range(COUNT))
    assert {int(one.error_code) for one in (*first, *second)} == {UNKNOWN}
    assert len(second) == 2


def test_what_is_named_twice_in_a_long_request_is_answered_once(
    node: LiveNode, client: RawClient
) -> None:
    names = [f"group-{number % 700}" for number in range(COUNT)]
    fields = {"groups": names, "include_authorized_operations": False}
    answer = client.ask(ApiKey.DESCRIBE_GROUPS, 5, fields)
    assert [group.group_id for group in answer.groups] == names[:700]


def test_many_unknown_topics_are_all_named_in_the_answer(node: LiveNode, client: RawClient) -> None:
    topics = [{"topic_id": None, "name": f"absent-{number}"} for number in range(COUNT)]
    fields = {"topics": topics, "allow_auto_topic_creation": False}
    answer = client.ask(ApiKey.METADATA, 12, fields)
    assert [topic.name for topic in answer.topics] == [topic["name"] for topic in topics]
    assert {int(topic.error_code) for topic in answer.topics} == {UNKNOWN}


def test_requests_behind_a_long_one_are_answered_after_it(
    node: LiveNode, client: RawClient
) -> None:
    client.send(ApiKey.LIST_OFFSETS, 7, list_offsets(("absent", range(COUNT))))
    client.send(ApiKey.LIST_OFFSETS, 7, list_offsets(("short", range(1))))
    assert len(client.receive(ApiKey.LIST_OFFSETS, 7).topics[0].partitions) == COUNT
    assert client.receive(ApiKey.LIST_OFFSETS, 7).topics[0].name == "short"


def test_a_long_request_that_is_malformed_ends_its_connection(
    node: LiveNode, client: RawClient
) -> None:
    body = encode_request(ApiKey.LIST_OFFSETS, 7, list_offsets(("absent", range(COUNT))))
    client.send_body(ApiKey.LIST_OFFSETS, 7, body[:-3])
    assert client.is_closed_by_node()
    other = node.connect()
    assert other.ask(ApiKey.LIST_OFFSETS, 7, list_offsets(("absent", range(1)))).topics
    other.close()


def test_topics_page_by_page_count_those_that_do_not_exist(
    node: LiveNode, client: RawClient
) -> None:
    names = [f"absent-{number:05}" for number in range(COUNT)]
    fields: dict[str, Any] = {
        "topics": [{"name": name} for name in names],
        "response_partition_limit": 5_000,
        "cursor": None,
    }
    first = client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, fields)
    assert [topic.name for topic in first.topics] == names[:2_000]
    cursor = {"topic_name": first.next_cursor.topic_name, "partition_index": 0}
    second = client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, fields | {"cursor": cursor})
    assert [topic.name for topic in second.topics] == names[2_000:]
    assert second.next_cursor is None


def test_no_slice_has_more_elements_than_it_may() -> None:
    ones = [(f"c{number}", range(1)) for number in range(SLICE_ELEMENTS)]
    fields = list_offsets(("a", range(7)), ("b", range(3 * SLICE_ELEMENTS)), *ones)
    wire = memoryview(encode_request(ApiKey.LIST_OFFSETS, 7, fields))
    body = decode_request(ApiKey.LIST_OFFSETS, 7, wire, 0)
    path = path_of(body, (("absent", "x"), ("topics", "partitions")))
    cut = list(slices_of(body, path))
    sizes = [sum(len(topic.partitions) for topic in part.topics) for part in cut]
    assert max(sizes) <= SLICE_ELEMENTS
    joined = Joined()
    for part in cut:
        topics = [
            {
                "name": topic.name,
                "partitions": [partition.partition_index for partition in topic.partitions],
            }
            for topic in part.topics
        ]
        joined.add({"topics": topics, "error_code": 0})
    told = [(topic["name"], len(topic["partitions"])) for topic in joined.fields["topics"]]
    assert told == [("a", 7), ("b", 3 * SLICE_ELEMENTS), *((name, 1) for name, _ in ones)]


def test_the_first_error_of_the_slices_stays() -> None:
    joined = Joined()
    for error in (0, 15, 16):
        joined.add({"error_code": error})
    assert joined.fields == {"error_code": 15}


def test_an_only_answer_is_not_gone_through() -> None:
    joined, answer = Joined(), {"groups": [{"group_id": "g"}]}
    assert joined.fields == {}
    joined.add(answer)
    assert joined.fields is answer
    joined.add({"groups": [{"group_id": "h"}]})
    assert joined.fields == {"groups": [{"group_id": "g"}, {"group_id": "h"}]}
    assert answer == {"groups": [{"group_id": "g"}]}


def test_a_short_request_with_a_long_answer_is_answered_in_slices(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"group-{number:05}" for number in range(COUNT)]
    table = node.broker.groups._table.groups
    node.call(lambda: table.update({name: Group(name, 0, wall_ms=0) for name in names}))
    looked_at: list[int] = []
    look = node.broker.groups.reading.list_groups

    def counted(*, ids: list[str], **filters: Any) -> Any:
        looked_at.append(len(ids))
        return look(ids=ids, **filters)

    monkeypatch.setattr(node.broker.groups.reading, "list_groups", counted)
    answer = client.ask(ApiKey.LIST_GROUPS, 5, {"states_filter": [], "types_filter": []})
    assert [group.group_id for group in answer.groups] == names
    assert looked_at == [SLICE] * (COUNT // SLICE)


def test_a_long_filter_of_groups_is_gone_through_in_turns(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[None] = []

    def next_turn(_: Any) -> Any:
        turns.append(None)
        return wait()

    wait = node.broker.turns.next
    monkeypatch.setattr(Turns, "next", next_turn)
    fields = {"states_filter": [f"state-{one}" for one in range(20 * SLICE)], "types_filter": []}
    assert client.ask(ApiKey.LIST_GROUPS, 5, fields).error_code == ErrorCode.NONE
    decoding = 20 * SLICE // protocol_slices.SLICE
    assert len(turns) >= decoding + 20


def commit(node: LiveNode, *groups: str) -> None:
    """Give these groups more positions than are told in one turn."""
    offsets = {TopicKey("plain", number): CommittedOffset(number) for number in range(COUNT)}

    def add() -> None:
        table = node.broker.groups._table.groups
        for name in groups:
            table[name] = Group(name, 0, wall_ms=0)
            table[name].offsets.values.update(offsets)

    node.call(add)


@pytest.mark.parametrize("count", [1, 300])
def test_all_positions_of_a_group_are_told_in_slices(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Also where the request is a long one, of many groups."""
    create(client, "plain")
    commit(node, "large")
    looked_at: list[int] = []
    fetch = node.broker.groups.reading.fetch_offsets

    def counted(group_id: str, keys: Any, **more: Any) -> Any:
        looked_at.append(len(keys or ()))
        return fetch(group_id, keys, **more)

    monkeypatch.setattr(node.broker.groups.reading, "fetch_offsets", counted)
    named = ["large", *(f"absent-{number:020}" for number in range(count - 1))]
    groups = [{"group_id": name, "topics": None} for name in named]
    answer = client.ask(ApiKey.OFFSET_FETCH, 8, {"groups": groups, "require_stable": True})
    assert [group.group_id for group in answer.groups] == named
    (topic,) = answer.groups[0].topics
    found = {
        partition.partition_index: partition.committed_offset for partition in topic.partitions
    }
    assert found == {number: number for number in range(COUNT)}
    assert max(looked_at) == SLICE
    assert sum(looked_at) == COUNT


def test_a_long_answer_is_the_same_as_a_short_one_before_many_groups_could_be_named(
    node: LiveNode, client: RawClient
) -> None:
    create(client, "plain")
    commit(node, "large")
    answer = client.ask(ApiKey.OFFSET_FETCH, 5, {"group_id": "large", "topics": None})
    assert answer.error_code == 0
    assert sum(len(topic.partitions) for topic in answer.topics) == COUNT


@pytest.mark.parametrize(
    ("states", "types", "count"),
    [
        (["Empty"], [], 1),
        (["EMPTY", "none"], ["Classic"], 1),
        (["Dead"], [], 0),
        (["none"], [], 0),
        ([], ["classic"], 1),
        ([], ["consumer"], 0),
    ],
)
def test_groups_are_filtered_by_state_and_type(
    node: LiveNode, client: RawClient, states: list[str], types: list[str], count: int
) -> None:
    group = Group("group", 0, wall_ms=0)
    node.call(lambda: node.broker.groups._table.groups.update({"group": group}))
    fields = {"states_filter": states, "types_filter": types}
    answer = client.ask(ApiKey.LIST_GROUPS, 5, fields)
    assert len(answer.groups) == count


def test_many_topics_are_described_in_turns_and_each_once(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(client, *(f"topic-{number}" for number in range(12)))
    turns: list[int] = []
    described: list[str] = []
    find = describe_configs._entries

    def noted(broker: Any, resource: Any) -> Any:
        described.append(resource.resource_name)
        return find(broker, resource)

    def next_turn() -> Any:
        turns.append(len(described))
        return wait()

    wait = node.broker.turns.next
    monkeypatch.setattr(describe_configs, "_entries", noted)
    monkeypatch.setattr(Turns, "next", lambda _: next_turn())
    names = [f"topic-{number}" for number in range(12)]
    resources = [{"resource_type": 2, "resource_name": one} for one in [*names, *names]]
    fields = {"resources": resources, "include_synonyms": True, "include_documentation": True}
    answer = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, fields)
    assert [result.resource_name for result in answer.results] == described == names
    assert {int(result.error_code) for result in answer.results} == {0}
    assert set(range(12)) <= set(turns), "there was a turn between any two"


def test_more_assigned_partitions_than_a_topic_may_have_are_told_so(client: RawClient) -> None:
    assignments = [{"partition_index": one, "broker_ids": [1]} for one in range(90_000)]
    topic = {"name": "wide", "num_partitions": -1, "replication_factor": -1, "configs": []}
    fields = {"topics": [topic | {"assignments": assignments}], "timeout_ms": 30_000}
    answer = client.ask(ApiKey.CREATE_TOPICS, 7, fields | {"validate_only": False})
    assert [one.error_code for one in answer.topics] == [ErrorCode.INVALID_PARTITIONS]


def _commands_to_controllers(node: LiveNode) -> list[Any]:
    """Return a list that grows with every command from now on."""
    taken: list[Any] = []
    submit = node.broker.controller.submit

    async def noted(command: Any) -> Any:
        taken.append(command)
        return await submit(command)

    node.broker.controller.submit = noted  # type: ignore[method-assign]
    return taken


@pytest.mark.parametrize(("key", "version"), [(ApiKey.ALTER_CONFIGS, 2), (44, 1)])
@pytest.mark.parametrize("is_one", [True, False])
def test_more_settings_than_there_are_do_not_reach_the_controller(
    node: LiveNode, client: RawClient, key: int, version: int, is_one: bool
) -> None:
    create(client, "plain")
    seen = _commands_to_controllers(node)
    one = {"config_operation": 0, "value": "100000"}
    configs = [one | {"name": "retention.ms" if is_one else f"key-{n}"} for n in range(COUNT)]
    resource = {"resource_type": 2, "resource_name": "plain", "configs": configs}
    answer = client.ask(key, version, {"resources": [resource], "validate_only": False})
    (told,) = answer.responses
    assert told.error_code == (ErrorCode.INVALID_REQUEST if is_one else ErrorCode.INVALID_CONFIG)
    (command,) = seen
    assert len(command.resources[0].edits) == EDITS_MAX


def test_a_short_request_with_a_task_of_its_own_is_cut_too(
    node: LiveNode, client: RawClient
) -> None:
    names = [f"a{number}" for number in range(2 * SLICE_ELEMENTS)]
    taken = _commands_to_controllers(node)
    topics = [{"name": name, "count": 5, "assignments": None} for name in names]
    fields = {"topics": topics, "timeout_ms": 1_000, "validate_only": False}
    assert len(encode_request(ApiKey.CREATE_PARTITIONS, 1, fields)) < LONG_FRAME_BYTES
    answer = client.ask(ApiKey.CREATE_PARTITIONS, 1, fields)
    assert [result.name for result in answer.results] == names
    assert {int(result.error_code) for result in answer.results} == {UNKNOWN}
    assert [len(command.topics) for command in taken] == [SLICE_ELEMENTS, SLICE_ELEMENTS]


def test_topics_that_are_given_many_settings_are_few_in_a_command(
    node: LiveNode, client: RawClient
) -> None:
    """50 topics with all settings, or with lists of 32 kB, held the loop for 16 to 240 ms."""
    names = [f"heavy-{number}" for number in range(20)]
    for name in names:
        create(client, name)
    taken = _commands_to_controllers(node)
    replicas = ",".join(f"{number}:1" for number in range(4_000))
    one = {"name": "leader.replication.throttled.replicas", "config_operation": 0}
    settings = [{"name": key, "config_operation": 1, "value": None} for key in TOPIC_CONFIGS]
    for configs, most in (([one | {"value": replicas}], 5), (settings, 16)):
        taken.clear()
        resources = [
            {"resource_type": 2, "resource_name": each, "configs": configs} for each in names
        ]
        fields = {"resources": resources, "validate_only": False}
        answer = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, fields)
        assert [each.resource_name for each in answer.responses] == names
        assert {int(each.error_code) for each in answer.responses} == {0}
        assert max(len(command.resources) for command in taken) <= most
    assert len(taken) > 1


def test_large_topics_are_few_in_a_command_however_short_the_request(
    node: LiveNode, client: RawClient
) -> None:
    taken = _commands_to_controllers(node)
    names = [f"l{number}" for number in range(12)]
    topic = {"num_partitions": 3_000, "replication_factor": 1, "assignments": [], "configs": []}
    topics = [topic | {"name": name} for name in names]
    fields = {"topics": topics, "timeout": 5_000, "validate_only": True}
    assert len(encode_request(ApiKey.CREATE_TOPICS, 5, fields)) < TASK_FRAME_BYTES
    answer = client.ask(ApiKey.CREATE_TOPICS, 5, fields)
    assert [each.name for each in answer.topics] == names
    assert [len(command.topics) for command in taken] == [1] * len(names)


def test_elections_for_all_partitions_look_at_a_slice_in_a_turn(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """9,500 partitions held the loop for 10 ms; their answer is encoded in slices, too."""
    topic = {"name": "wide", "num_partitions": 12 * SLICE, "replication_factor": 1}
    fields = {"topics": [topic | {"assignments": [], "configs": []}], "timeout": 30_000}
    client.ask(ApiKey.CREATE_TOPICS, 5, fields | {"validate_only": False})
    looked_at = [0]
    find, wait = elect_leaders._set_of, node.broker.turns.next

    def noted(*args: Any) -> Any:
        looked_at[-1] += 1
        return find(*args)

    def next_turn(_: Any) -> Any:
        looked_at.append(0)
        return wait()

    monkeypatch.setattr(elect_leaders, "_set_of", noted)
    monkeypatch.setattr(elect_leaders, "_why_not", lambda *_: PreferredMasterNotAvailable(2))
    monkeypatch.setattr(Turns, "next", next_turn)
    fields = {"election_type": 0, "topic_partitions": None, "timeout_ms": 5_000}
    answer = client.ask(ApiKey.ELECT_LEADERS, 2, fields)
    (told,) = [result for result in answer.replica_election_results if result.topic == "wide"]
    assert [one.partition_id for one in told.partition_result] == list(range(12 * SLICE))
    assert sum(looked_at) >= 12 * SLICE
    assert max(looked_at) <= SLICE
    last = max(at for at, count in enumerate(looked_at) if count)
    assert len(looked_at) - last > 12 * SLICE // protocol_slices.SLICE, "encoded in turns, too"


def test_short_requests_that_delete_records_of_many_partitions_are_cut_too(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the bytes of a long request 300 log starts were raised in one turn."""
    count = 6 * SLICE_ELEMENTS
    topic = {"name": "short", "num_partitions": count, "replication_factor": 1}
    fields = {"topics": [topic | {"assignments": [], "configs": []}], "timeout": 30_000}
    client.ask(ApiKey.CREATE_TOPICS, 5, fields | {"validate_only": False})
    raised = [0]
    run, wait = delete_records.Deletion.run, node.broker.turns.next

    def noted(deletion: delete_records.Deletion) -> None:
        raised[-1] += 1
        run(deletion)

    def next_turn(_: Any) -> Any:
        raised.append(0)
        return wait()

    monkeypatch.setattr(delete_records.Deletion, "run", noted)
    monkeypatch.setattr(Turns, "next", next_turn)
    partitions = [{"partition_index": one, "offset": 0} for one in range(count)]
    fields = {"topics": [{"name": "short", "partitions": partitions}], "timeout": 30_000}
    assert len(encode_request(ApiKey.DELETE_RECORDS, 2, fields)) < LONG_FRAME_BYTES
    (answer,) = client.ask(ApiKey.DELETE_RECORDS, 2, fields).topics
    assert [(one.partition_index, one.error_code) for one in answer.partitions] == [
        (number, ErrorCode.NONE) for number in range(count)
    ]
    assert (sum(raised), max(raised)) == (count, SLICE_ELEMENTS)


@pytest.mark.parametrize("version", [5, 6])
def test_topics_with_many_partitions_are_few_in_a_deletion(
    node: LiveNode, client: RawClient, version: int
) -> None:
    """50 topics of 380 partitions, deleted as a whole, held every loop for 26 ms."""
    names = [f"d{number}" for number in range(12)]
    topic = {"num_partitions": 1_000, "replication_factor": 1, "assignments": [], "configs": []}
    for name in names:
        fields = {"topics": [topic | {"name": name}], "timeout": 30_000, "validate_only": False}
        assert client.ask(ApiKey.CREATE_TOPICS, 5, fields).topics[0].error_code == 0
    taken = _commands_to_controllers(node)
    by_name = node.broker.metadata.topics_by_name
    ids = [uuid.UUID(bytes=by_name[name].topic_id) for name in names[:4]]
    named: list[dict[str, Any]] = [{"name": None, "topic_id": one} for one in ids]
    named += [{"name": name, "topic_id": None} for name in names[4:]]
    wanted = {"topics": named} if version == 6 else {"topic_names": names}
    answer = client.ask(ApiKey.DELETE_TOPICS, version, wanted | {"timeout_ms": 9_000})
    assert [each.error_code for each in answer.responses] == [0] * len(names)
    assert not set(names) & set(by_name)
    assert [len(command.topics) for command in taken] == [4, 4, 4]
