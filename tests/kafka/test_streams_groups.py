"""StreamsGroupHeartbeat and StreamsGroupDescribe on a live node: topics are made, tasks given."""

from typing import Any

import pytest

from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.broker.access import Operation, PermitsAll, Requester, Resource
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.kafka.gate_asks import ms, play
from tests.live_node import LiveNode, RawClient

MISSING_SOURCES, MISSING_INTERNAL = 1, 3
GROUP_RESOURCE = 32


def info(name: str, factor: int = 1) -> dict[str, Any]:
    configs = [{"key": "retention.ms", "value": "1234567"}]
    return {"name": name, "partitions": 0, "replication_factor": factor, "topic_configs": configs}


def counting(group: str, source: str, factor: int = 1) -> dict[str, Any]:
    """The join of an application that counts by a repartition topic."""
    fields = play(group, source)
    first = fields["topology"]["subtopologies"][0]
    words, counts = f"{group}-words", f"{group}-counts"
    first["repartition_sink_topics"] = [words]
    second = {
        **first,
        "subtopology_id": "1",
        "source_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [info(words, factor)],
        "state_changelog_topics": [info(counts, factor)],
    }
    fields["topology"]["subtopologies"] = [first, second]
    return fields


def create(client: RawClient, name: str, partitions: int) -> None:
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    answer = client.ask(ApiKey.CREATE_TOPICS, 5, {"topics": [topic], "timeout": ms(9_000)})
    assert answer.topics[0].error_code == Code.NONE


class Member:
    """One member of a streams group, that does as it is told."""

    def __init__(self, client: RawClient, join: dict[str, Any], **said: Any) -> None:
        self.client, self.join = client, {**join, **said}
        self.epoch = 0
        self.owned: dict[str, Any] = {}

    def beat(self, **said: Any) -> Any:
        fields = self.join
        if self.epoch:
            fields = {
                **self.join,
                "member_epoch": self.epoch,
                "topology": None,
                "rebalance_timeout": ms(-1),
                **self.owned,
            }
        answer = self.client.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, {**fields, **said})
        if answer.error_code == Code.NONE:
            self.epoch = answer.member_epoch
            if answer.active_tasks is not None:
                self.owned = {
                    field: [
                        {"subtopology_id": one.subtopology_id, "partitions": one.partitions}
                        for one in getattr(answer, field)
                    ]
                    for field in ("active_tasks", "standby_tasks", "warmup_tasks")
                }
        return answer

    @property
    def tasks(self) -> list[tuple[str, int]]:
        active = self.owned.get("active_tasks", ())
        return [(one["subtopology_id"], number) for one in active for number in one["partitions"]]

    def has(self, count: int) -> bool:
        self.beat()
        return len(self.tasks) == count


def statuses(answer: Any) -> list[int]:
    return [one.status_code for one in answer.status or ()]


def describe(client: RawClient, group: str) -> Any:
    fields = {"group_ids": [group], "include_authorized_operations": False}
    return client.ask(ApiKey.STREAMS_GROUP_DESCRIBE, 0, fields).groups[0]


def test_internal_topics_are_created_with_their_settings_and_tasks_given(
    node: LiveNode, client: RawClient
) -> None:
    create(client, "made-lines", 3)
    member = Member(client, counting("made", "made-lines"))
    assert statuses(member.beat()) == [MISSING_INTERNAL]
    assert wait_until(lambda: member.has(6), UNTIL_SECONDS)
    topics = node.broker.metadata.topics_by_name
    for name in ("made-words", "made-counts"):
        assert len(topics[name].partitions) == 3
        assert topics[name].configs["retention.ms"] == "1234567"
    found = describe(client, "made")
    assert (found.error_code, found.group_state) == (Code.NONE, "Stable")
    assert found.topology.epoch == 1
    assert [one.subtopology_id for one in found.topology.subtopologies] == ["0", "1"]
    changelogs = found.topology.subtopologies[1].state_changelog_topics
    assert [(one.name, one.partitions) for one in changelogs] == [("made-counts", 3)]
    (one,) = found.members
    assert (one.member_id, one.process_id, one.member_epoch) == ("m", "p", member.epoch)
    assert one.assignment == one.target_assignment
    assert [tasks.partitions for tasks in one.assignment.active_tasks] == [(0, 1, 2), (0, 1, 2)]


class MayNotCreate:
    """An authoriser that lets nobody create topics."""

    permits_all = False
    generation = 0

    def permits(self, who: Requester, operation: Operation, resource: Resource, name: str) -> bool:
        return operation is not Operation.CREATE

    def permits_some(self, who: Requester, operation: Operation, resource: Resource) -> bool:
        return True


def test_who_may_not_create_topics_is_told_which(node: LiveNode, client: RawClient) -> None:
    create(client, "shut-lines", 1)
    node.broker.authoriser = MayNotCreate()
    try:
        answer = Member(client, counting("shut", "shut-lines")).beat()
    finally:
        node.broker.authoriser = PermitsAll()
    assert statuses(answer) == [MISSING_INTERNAL]
    detail = answer.status[0].status_detail
    assert detail.endswith("; Unauthorized to CREATE on topics [shut-counts, shut-words].")
    assert "shut-words" not in node.broker.metadata.topics_by_name


def test_why_a_topic_can_not_be_created_is_told(client: RawClient) -> None:
    create(client, "many-lines", 1)
    member = Member(client, counting("many", "many-lines", factor=9))
    member.beat()
    assert wait_until(
        lambda: "; Creation failed: many-counts (" in member.beat().status[0].status_detail,
        UNTIL_SECONDS,
    )


def test_a_missing_source_is_waited_for(client: RawClient) -> None:
    member = Member(client, play("waits", "late-lines"))
    answer = member.beat()
    assert statuses(answer) == [MISSING_SOURCES]
    assert answer.status[0].status_detail == "Source topics [late-lines] are missing."
    assert describe(client, "waits").group_state == "NotReady"
    create(client, "late-lines", 2)
    assert wait_until(lambda: member.has(2), UNTIL_SECONDS)


@pytest.mark.parametrize("name", ["__consumer_offsets", "what?", ""])
def test_topics_that_no_application_may_have(client: RawClient, name: str) -> None:
    answer = Member(client, play("names", name)).beat()
    assert answer.error_code == Code.STREAMS_INVALID_TOPOLOGY


def test_one_kind_of_tasks_is_not_sent_alone(client: RawClient) -> None:
    answer = Member(client, play("alone", "lines")).beat(standby_tasks=None)
    assert answer.error_code == Code.INVALID_REQUEST


def test_endpoints_are_told_with_the_partitions_of_their_tasks(client: RawClient) -> None:
    create(client, "asked-lines", 2)
    endpoint = {"host": "there", "port": 65_535}
    member = Member(client, play("asked", "asked-lines"), user_endpoint=endpoint)
    assert wait_until(lambda: member.has(2), UNTIL_SECONDS)
    (told,) = member.beat().partitions_by_user_endpoint
    assert (told.user_endpoint.host, told.user_endpoint.port) == ("there", 65_535)
    assert [(one.topic, one.partitions) for one in told.active_partitions] == [
        ("asked-lines", (0, 1))
    ]


def test_groups_are_listed_left_and_deleted(client: RawClient) -> None:
    create(client, "left-lines", 1)
    member = Member(client, play("left", "left-lines"))
    assert wait_until(lambda: member.has(1), UNTIL_SECONDS)
    listed = client.ask(
        ApiKey.LIST_GROUPS, 5, {"states_filter": ["stable"], "types_filter": ["streams"]}
    )
    assert ("left", "streams", "Stable") in {
        (one.group_id, one.group_type, one.group_state) for one in listed.groups
    }
    deletion = {"groups_names": ["left"]}
    (refused,) = client.ask(ApiKey.DELETE_GROUPS, 2, deletion).results
    assert refused.error_code == Code.NON_EMPTY_GROUP
    assert member.beat(member_epoch=-1).member_epoch == -1
    (done,) = client.ask(ApiKey.DELETE_GROUPS, 2, deletion).results
    assert done.error_code == Code.NONE
    gone = describe(client, "left")
    assert (gone.error_code, gone.group_state) == (Code.GROUP_ID_NOT_FOUND, "Dead")


def test_the_keys_of_a_group_count(client: RawClient) -> None:
    config = {"name": "streams.heartbeat.interval.ms", "value": "7000", "config_operation": 0}
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": "keyed", "configs": [config]}
    answer = client.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False}
    )
    assert answer.responses[0].error_code == Code.NONE
    create(client, "keyed-lines", 1)
    member = Member(client, play("keyed", "keyed-lines"))
    assert wait_until(lambda: member.has(1), UNTIL_SECONDS)
    assert member.beat().heartbeat_interval == ms(7_000)
