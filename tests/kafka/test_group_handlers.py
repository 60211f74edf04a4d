"""The group APIs from request bytes to answer bytes, in every version they are offered in."""

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.base.ids import BrokerId, TopicId
from penstock.broker.api_stats import ApiStats
from penstock.broker.broker import Broker
from penstock.broker.config import BrokerConfig
from penstock.kafka.context import context_of
from penstock.kafka.front import KafkaFront
from penstock.kafka.registry import load_apis
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.header import RequestHeader, has_tagged_response_header
from penstock.protocol.messages import (
    decode_request,
    decode_response,
    encode_request,
    unknown_fields,
)
from penstock.protocol.schema import response_schema
from tests.broker.cluster import run_at_once
from tests.groups.world import World, subscription
from tests.kafka.group_front import TOPIC_ID, NoController, Scheduler, Slot, cluster, topic

APIS = load_apis()
MEMBER_METADATA = subscription("t")


class Front:
    """Sends requests the way a client does and reads the answers the way a client does."""

    def __init__(self, **settings: Any) -> None:
        self.world = World(initial_rebalance_delay_ms=0, **settings)
        self.broker = Broker(
            broker_id=BrokerId(1),
            config=BrokerConfig(),
            clock=self.world.clock,
            scheduler=Scheduler(),
            metadata=cluster(),
        )
        self.front = KafkaFront(self.broker, APIS, lambda: 1, run_at_once, run_at_once)
        self.broker.groups = self.world.coordinator
        self.broker.controller = NoController()

    def begin(self, key: ApiKey, version: int, /, **fields: Any) -> Slot:
        api = APIS[key]
        assert api.min_version <= version <= api.max_version
        body = decode_request(key, version, memoryview(encode_request(key, version, fields)), 0)
        connection: Any = SimpleNamespace(
            client_host="10.1.1.1",
            listener_name="kafka",
            is_by_token=False,
            principal="",
            guard=None,
            is_closed=False,
            state=None,
        )
        context = context_of(self.front, connection, "cli")
        request = Request(version, body, connection)
        slot: Any = Slot()
        header = RequestHeader(key, version, 9, "cli", 0)
        reply = CheckedReply(Reply(slot, header, self.world.clock, ApiStats("x"), 0), key)
        if api.is_async:
            reply(asyncio.run(api.handle(context, request)))
        else:
            api.handle(context, request, reply)
        return slot

    def ask(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        return read(key, version, self.begin(key, version, **fields))


class CheckedReply:
    """A reply that also holds the field names against the newest version."""

    def __init__(self, reply: Reply, key: ApiKey) -> None:
        self._reply = reply
        self._key = key

    def __call__(self, fields: dict[str, Any]) -> None:
        newest = response_schema(self._key, NEWEST[self._key])
        assert {*unknown_fields(newest, fields)} <= BEFORE.get(self._key, set())
        self._reply(fields)


NEWEST = {
    ApiKey.FIND_COORDINATOR: 6,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.OFFSET_COMMIT: 10,
    ApiKey.OFFSET_FETCH: 10,
    ApiKey.DESCRIBE_GROUPS: 6,
    ApiKey.LIST_GROUPS: 5,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.OFFSET_DELETE: 0,
}
OLDEST = {ApiKey.OFFSET_COMMIT: 2, ApiKey.OFFSET_FETCH: 1}
BEFORE = {
    ApiKey.FIND_COORDINATOR: {"error_code", "error_message", "node_id", "host", "port"},
    ApiKey.OFFSET_COMMIT: {"topics.name"},
    ApiKey.OFFSET_FETCH: {"topics", "error_code", "group_id", "groups.topics.name"},
}
"""Fields that only older versions have."""


def versions(key: ApiKey) -> range:
    return range(OLDEST.get(key, 0), NEWEST[key] + 1)


def read(key: ApiKey, version: int, slot: Slot) -> Any:
    (sent,) = slot.sent
    at = 9 if has_tagged_response_header(key, version) else 8
    return decode_response(key, version, memoryview(sent), at)


def join_fields(member_id: str = "", instance: str | None = None, group: str = "g") -> Any:
    return {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "group_instance_id": instance,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": MEMBER_METADATA}],
        "reason": "test",
    }


def stable_member(front: Front, version: int = 9) -> str:
    """Join and sync one member of group g; returns its id."""
    joined = front.ask(ApiKey.JOIN_GROUP, version, **join_fields())
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        joined = front.ask(ApiKey.JOIN_GROUP, version, **join_fields(joined.member_id))
    assert joined.error_code == ErrorCode.NONE
    member_id: str = joined.member_id
    front.ask(
        ApiKey.SYNC_GROUP,
        5,
        group_id="g",
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": member_id, "assignment": b"mine"}],
    )
    return member_id


def commit_fields(offset: int, topic_name: str = "t", partition: int = 0, **more: Any) -> Any:
    return {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [
            {
                "name": topic_name,
                "topic_id": uuid.UUID(bytes=TOPIC_ID),
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": 3,
                        "committed_metadata": "note",
                    }
                ],
            }
        ],
        **more,
    }


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
def test_the_coordinator_is_the_master_of_the_groups_internal_partition(version: int) -> None:
    front = Front()
    if version < 4:
        found = front.ask(ApiKey.FIND_COORDINATOR, version, key="g", key_type=0)
        answers = [found]
    else:
        keys = {"coordinator_keys": ["g", "h"], "key_type": 0}
        answers = [*front.ask(ApiKey.FIND_COORDINATOR, version, **keys).coordinators]
        assert [each.key for each in answers] == ["g", "h"]
    for each in answers:
        assert (each.error_code, each.node_id, each.host, each.port) == (0, 1, "here", 9092)


def test_an_empty_transactional_id_has_no_coordinator() -> None:
    asked = {"coordinator_keys": [""], "key_type": 1}
    (answer,) = Front().ask(ApiKey.FIND_COORDINATOR, 6, **asked).coordinators
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_coordinators_of_share_groups_are_refused() -> None:
    asked = {"coordinator_keys": ["group:topic:0"], "key_type": 2}
    (answer,) = Front().ask(ApiKey.FIND_COORDINATOR, 6, **asked).coordinators
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_without_the_internal_topic_there_is_no_coordinator_yet() -> None:
    front = Front()
    front.broker.metadata.topics_by_name.clear()
    found = front.ask(ApiKey.FIND_COORDINATOR, 2, key="g", key_type=0)
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_join_sync_heartbeat_and_leave(version: int) -> None:
    front = Front()
    member_id = stable_member(front, version)
    group = front.world.coordinator.reading.describe("g")
    assert (group.state, group.members[0].client_host) == ("Stable", "10.1.1.1")
    beat = {"group_id": "g", "generation_id": 1, "member_id": member_id}
    for each in versions(ApiKey.HEARTBEAT):
        assert front.ask(ApiKey.HEARTBEAT, each, **beat).error_code == ErrorCode.NONE
    leave_version = min(version, 5)
    left = front.ask(
        ApiKey.LEAVE_GROUP,
        leave_version,
        group_id="g",
        member_id=member_id,
        members=[{"member_id": member_id, "group_instance_id": None, "reason": "bye"}],
    )
    assert left.error_code == ErrorCode.NONE
    if leave_version >= 3:
        assert [each.error_code for each in left.members] == [ErrorCode.NONE]
    assert front.world.coordinator.reading.describe("g").state == "Empty"


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_a_refused_join_is_answered_in_every_version(version: int) -> None:
    refused = Front().ask(ApiKey.JOIN_GROUP, version, **join_fields("ghost"))
    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (refused.generation_id, refused.members) == (-1, ())
    assert refused.protocol_name == ("" if version < 7 else None)


def test_version_0_takes_the_session_timeout_for_rebalances() -> None:
    front = Front()
    stable_member(front, 0)
    newcomer = front.begin(ApiKey.JOIN_GROUP, 0, **join_fields())
    front.world.pass_ms(10_000)
    assert read(ApiKey.JOIN_GROUP, 0, newcomer).generation_id == 2


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
def test_a_sync_returns_the_assignment(version: int) -> None:
    front = Front()
    member_id = stable_member(front)
    found = front.ask(
        ApiKey.SYNC_GROUP,
        version,
        group_id="g",
        generation_id=1,
        member_id=member_id,
        assignments=[],
    )
    assert (found.error_code, found.assignment) == (ErrorCode.NONE, b"mine")
    if version >= 5:
        assert (found.protocol_type, found.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize("version", range(5, 10))
def test_a_static_member_is_fenced_by_its_successor(version: int) -> None:
    front = Front()
    first = front.ask(ApiKey.JOIN_GROUP, version, **join_fields(instance="i"))
    second = front.ask(ApiKey.JOIN_GROUP, version, **join_fields(instance="i"))
    assert first.member_id != second.member_id
    beat = {"group_id": "g", "generation_id": 2, "group_instance_id": "i"}
    old = front.ask(ApiKey.HEARTBEAT, 4, **beat, member_id=first.member_id)
    assert old.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert front.ask(ApiKey.HEARTBEAT, 4, **beat, member_id=second.member_id).error_code == 0


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
def test_an_unknown_member_can_not_leave(version: int) -> None:
    left = Front().ask(
        ApiKey.LEAVE_GROUP,
        version,
        group_id="g",
        member_id="ghost",
        members=[{"member_id": "ghost", "group_instance_id": None}],
    )
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert (left.error_code if version < 3 else left.members[0].error_code) == unknown


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_a_commit_is_kept_with_all_it_carries(version: int) -> None:
    front = Front()
    answer = front.ask(ApiKey.OFFSET_COMMIT, version, **commit_fields(42))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    (kept,) = front.world.coordinator.reading.fetch_offsets("g", None).offsets.values()
    assert kept.committed is not None
    assert kept.committed[:3] == (42, 3 if version >= 6 else -1, "note")
    assert kept.committed.topic_id == TOPIC_ID


def test_commits_for_unknown_topics_ids_and_partitions_are_refused_one_by_one() -> None:
    front = Front()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for fields in (
        commit_fields(1, "nothing"),
        commit_fields(1, "t", 2),
        commit_fields(1, "t", -1),
    ):
        answer = front.ask(ApiKey.OFFSET_COMMIT, 9, **fields)
        assert answer.topics[0].partitions[0].error_code == unknown
    fields = commit_fields(1)
    fields["topics"][0]["topic_id"] = uuid.UUID(int=5)
    answer = front.ask(ApiKey.OFFSET_COMMIT, 10, **fields)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert front.world.all_committed("g") == {}


def test_a_null_metadata_is_an_empty_one() -> None:
    front = Front()
    fields = commit_fields(1)
    fields["topics"][0]["partitions"][0]["committed_metadata"] = None
    front.ask(ApiKey.OFFSET_COMMIT, 8, **fields)
    (kept,) = front.world.coordinator.reading.fetch_offsets("g", None).offsets.values()
    assert kept.committed is not None
    assert kept.committed.metadata == ""


def fetch(
    front: Front,
    version: int,
    *,
    everything: bool = False,
    group: str = "g",
    topic_id: bytes = TOPIC_ID,
) -> Any:
    asked = {
        "name": "t",
        "topic_id": uuid.UUID(bytes=topic_id),
        "partition_indexes": [0, 1],
    }
    topics = None if everything else [asked]
    if version < 8:
        return front.ask(ApiKey.OFFSET_FETCH, version, group_id=group, topics=topics)
    groups = [{"group_id": group, "topics": topics}]
    (found,) = front.ask(ApiKey.OFFSET_FETCH, version, groups=groups).groups
    return found


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_positions_are_fetched_in_every_version(version: int) -> None:
    front = Front()
    front.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(42))
    (found,) = fetch(front, version).topics
    assert [each.committed_offset for each in found.partitions] == [42, -1]
    assert [each.metadata for each in found.partitions] == ["note", ""]
    assert {each.error_code for each in found.partitions} == {ErrorCode.NONE}
    if version >= 5:
        assert found.partitions[0].committed_leader_epoch == 3


@pytest.mark.parametrize("version", range(2, 11))
def test_all_positions_are_fetched_when_none_are_named(version: int) -> None:
    front = Front()
    front.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(42))
    (found,) = fetch(front, version, everything=True).topics
    assert [(p.partition_index, p.committed_offset) for p in found.partitions] == [(0, 42)]
    assert (found.topic_id.bytes == TOPIC_ID) if version >= 10 else (found.name == "t")


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_an_error_of_the_group_stands_where_the_version_has_room_for_it(version: int) -> None:
    front = Front()
    front.world.coordinator.runtime.unload(front.world.coordinator.partition_of("g"))
    found = fetch(front, version)
    if version < 2:
        errors = {each.error_code for each in found.topics[0].partitions}
        assert errors == {ErrorCode.NOT_COORDINATOR}
    else:
        assert (found.error_code, found.topics) == (ErrorCode.NOT_COORDINATOR, ())


@pytest.mark.parametrize("version", [9, 10])
def test_positions_of_a_topic_made_anew_under_the_same_name_are_not_shown(version: int) -> None:
    front = Front()
    front.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(42))
    anew = topic("t", TopicId(bytes(15) + b"\x09"), 2)
    image = front.broker.metadata
    del image.topics_by_id[TOPIC_ID]
    image.topics_by_name["t"] = image.topics_by_id[anew.topic_id] = anew
    (found,) = fetch(front, version, topic_id=anew.topic_id).topics
    assert [each.committed_offset for each in found.partitions] == [-1, -1]
    assert fetch(front, version, everything=True).topics == ()


def test_an_unknown_topic_id_is_named_so() -> None:
    front = Front()
    topics = [{"topic_id": uuid.UUID(int=9), "partition_indexes": [0]}]
    groups = [{"group_id": "g", "topics": topics}]
    (found,) = front.ask(ApiKey.OFFSET_FETCH, 10, groups=groups).groups
    assert found.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
def test_groups_are_described_also_unknown_ones(version: int) -> None:
    front = Front()
    member_id = stable_member(front)
    asked = {"groups": ["g", "nothing"], "include_authorized_operations": True}
    known, missing = front.ask(ApiKey.DESCRIBE_GROUPS, version, **asked).groups
    assert (known.group_state, known.protocol_data) == ("Stable", "range")
    (member,) = known.members
    assert (member.member_id, member.client_id) == (member_id, "cli")
    assert (member.member_metadata, member.member_assignment) == (MEMBER_METADATA, b"mine")
    assert missing.group_state == "Dead"
    not_found = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
    assert missing.error_code == not_found


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
def test_groups_are_listed(version: int) -> None:
    front = Front()
    stable_member(front)
    front.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(1, group_id="simple"))
    filters = {"states_filter": ["Stable"], "types_filter": ["classic"]}
    found = front.ask(ApiKey.LIST_GROUPS, version, **filters).groups
    expected = ["g"] if version >= 4 else ["g", "simple"]
    assert [each.group_id for each in found] == expected


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
def test_groups_are_deleted_when_they_are_empty(version: int) -> None:
    front = Front()
    stable_member(front)
    front.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(1, group_id="simple"))
    asked = {"groups_names": ["g", "simple", "nothing"]}
    found = front.ask(ApiKey.DELETE_GROUPS, version, **asked).results
    assert [(each.group_id, ErrorCode(each.error_code).name) for each in found] == [
        ("g", "NON_EMPTY_GROUP"),
        ("simple", "NONE"),
        ("nothing", "GROUP_ID_NOT_FOUND"),
    ]


def test_offsets_are_deleted_unless_subscribed_to() -> None:
    front = Front()
    member_id = stable_member(front)
    asked = {
        "group_id": "g",
        "topics": [
            {"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 9}]},
            {"name": "nothing", "partitions": [{"partition_index": 0}]},
        ],
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = front.ask(ApiKey.OFFSET_DELETE, 0, **asked)
    assert [p.error_code for each in found.topics for p in each.partitions] == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        unknown,
        unknown,
    ]
    front.world.leave((member_id, None), group="g")
    found = front.ask(ApiKey.OFFSET_DELETE, 0, **asked)
    assert found.topics[0].partitions[0].error_code == ErrorCode.NONE
    missing = front.ask(ApiKey.OFFSET_DELETE, 0, group_id="nothing", topics=[])
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_more_protocols_or_assignments_than_any_client_sends_are_refused() -> None:
    front = Front(group_size_max=2)
    protocols = [{"name": f"p{number}", "metadata": b""} for number in range(1_001)]
    joined = front.ask(
        ApiKey.JOIN_GROUP, 5, group_id="g", protocol_type="consumer", protocols=protocols
    )
    assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assignments = [{"member_id": f"m{number}", "assignment": b""} for number in range(3)]
    synced = front.ask(ApiKey.SYNC_GROUP, 3, group_id="g", assignments=assignments)
    assert synced.error_code == ErrorCode.INVALID_REQUEST
