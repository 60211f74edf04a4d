"""Each API asked for what is open and for what is hidden: the permissions it needs, and its codes.

Source: Kafka `KafkaApis`, `ControllerApis`, `AuthorizerIntegrationTest`.
"""

import datetime
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.broker.access import Operation, Resource
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.broker.cluster import batch, fetch_fields
from tests.groups.world import subscription

OPEN, HIDDEN, ABSENT, INTERNAL = "open", "hidden", "hidden-absent", "__consumer_offsets"
SECRET = b"secret"
TOPIC, GROUP, CLUSTER = (
    Code.TOPIC_AUTHORIZATION_FAILED,
    Code.GROUP_AUTHORIZATION_FAILED,
    Code.CLUSTER_AUTHORIZATION_FAILED,
)
TRANSACTION = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NONE = Code.NONE


Need = tuple[Operation, Resource]
Codes = dict[Any, Code]
IdOf = Callable[[str], uuid.UUID]
"""Finds the id of a topic."""


class Case(NamedTuple):
    """One way to ask an API for what is open and for what is hidden."""

    key: ApiKey
    version: int
    needs: set[Need]
    """What it may not do without."""
    fields: Callable[[IdOf], dict[str, Any]]
    codes: Callable[[Any], Codes]
    if_nothing: Codes
    """The codes where everything is refused."""
    if_hidden: Codes
    """The same where the cluster is refused, and what is called hidden."""
    names_hidden: bool = True
    """Whether the request itself says the name, so that the answer may."""


def ms(count: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=count)


def new_topic(name: str) -> dict[str, Any]:
    counts = {"num_partitions": 1, "replication_factor": 1}
    return {"name": name, **counts, "assignments": [], "configs": []}


def produce(*names: str) -> dict[str, Any]:
    data = [{"index": 0, "records": batch(SECRET)}]
    topics = [{"name": name, "partition_data": data} for name in names]
    return {"transactional_id": None, "acks": -1, "timeout_ms": 5000, "topic_data": topics}


def produce_by_id(id_of: IdOf) -> dict[str, Any]:
    fields = produce(OPEN, HIDDEN)
    for topic in fields["topic_data"]:
        topic["topic_id"] = id_of(topic.pop("name"))
    return fields


def fetch(*names: str) -> dict[str, Any]:
    fields = fetch_fields(OPEN, 0, 0, -1, -1)
    (topic,) = fields["topics"]
    return fields | {"rack_id": "", "topics": [topic | {"topic": name} for name in names]}


def fetch_by_id(id_of: IdOf) -> dict[str, Any]:
    fields = fetch(OPEN, HIDDEN)
    for topic in fields["topics"]:
        topic["topic_id"] = id_of(topic.pop("topic"))
    return fields


def commit(group: str, *names: str) -> dict[str, Any]:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics = [{"name": name, "partitions": [partition]} for name in names]
    member = {"generation_id_or_member_epoch": -1, "member_id": ""}
    return {"group_id": group, **member, "topics": topics}


def commit_by_id(id_of: IdOf) -> dict[str, Any]:
    fields = commit(OPEN, OPEN, HIDDEN)
    for topic in fields["topics"]:
        topic["topic_id"] = id_of(topic.pop("name"))
    return fields


def join(group: str) -> dict[str, Any]:
    protocols = [{"name": "range", "metadata": subscription(OPEN)}]
    times = {"session_timeout": ms(30_000), "rebalance_timeout": ms(60_000)}
    return {"group_id": group, "member_id": "", "protocol_type": "consumer"} | {
        **times,
        "protocols": protocols,
    }


def config_resources(*more: dict[str, Any]) -> list[dict[str, Any]]:
    named = [(2, OPEN), (2, HIDDEN), (2, ABSENT), (4, "1"), (32, HIDDEN)]
    parts: dict[str, Any] = {key: value for one in more for key, value in one.items()}
    return [{"resource_type": kind, "resource_name": name, **parts} for kind, name in named]


def config_codes(answer: Any, name: str = "responses") -> Codes:
    found = getattr(answer, name)
    return {(one.resource_type, one.resource_name): one.error_code for one in found}


CONFIGS_REFUSED = {
    (2, OPEN): TOPIC,
    (2, HIDDEN): TOPIC,
    (2, ABSENT): TOPIC,
    (4, "1"): CLUSTER,
    (32, HIDDEN): GROUP,
}


def of_parts(topics: str, partitions: str, key: str = "name") -> Callable[[Any], Codes]:
    """Return what finds the code of the only partition of each topic, by topic."""

    def codes(answer: Any) -> Codes:
        return {
            getattr(topic, key): Code(getattr(topic, partitions)[0].error_code)
            for topic in getattr(answer, topics)
        }

    return codes


def of_each(array: str, key: str = "name") -> Callable[[Any], Codes]:
    return lambda answer: {getattr(one, key): one.error_code for one in getattr(answer, array)}


def in_order(array: str, partitions: str) -> Callable[[Any], Codes]:
    """The same, by place: the answer names topics by id."""
    return lambda answer: {
        place: getattr(topic, partitions)[0].error_code
        for place, topic in enumerate(getattr(answer, array))
    }


def whole(answer: Any) -> Codes:
    return {"": answer.error_code}


def named(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, **more} for name in names]


def always(fields: dict[str, Any]) -> Callable[[IdOf], dict[str, Any]]:
    return lambda _: fields


def told(answer: Any) -> Codes:
    """Of metadata, what is not led by the internal topic."""
    return {one.name: one.error_code for one in answer.topics}


READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE = Operation.ALTER, Operation.DESCRIBE
ON_TOPIC, ON_GROUP, ON_CLUSTER = Resource.TOPIC, Resource.GROUP, Resource.CLUSTER
ALL_TOPICS_REFUSED = {OPEN: TOPIC, HIDDEN: TOPIC}
HIDDEN_REFUSED = {OPEN: NONE, HIDDEN: TOPIC}
OFFSETS = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
EPOCHS = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
BEAT = {"generation_id": 1, "member_id": "m"}
NOBODY = {"": Code.UNKNOWN_MEMBER_ID}

RECORDS = [
    Case(
        ApiKey.PRODUCE, 11, {(WRITE, ON_TOPIC)}, always(produce(OPEN, HIDDEN, ABSENT)),
        of_parts("responses", "partition_responses"),
        ALL_TOPICS_REFUSED | {ABSENT: TOPIC}, HIDDEN_REFUSED | {ABSENT: TOPIC},
    ),
    Case(
        ApiKey.PRODUCE, 13, {(WRITE, ON_TOPIC)}, produce_by_id,
        in_order("responses", "partition_responses"),
        {0: TOPIC, 1: TOPIC}, {0: NONE, 1: TOPIC}, names_hidden=False,
    ),
    Case(
        ApiKey.PRODUCE, 11, {(WRITE, Resource.TRANSACTIONAL_ID)},
        always(produce(OPEN) | {"transactional_id": "hidden"}),
        of_parts("responses", "partition_responses"), {OPEN: TRANSACTION}, {OPEN: TRANSACTION},
    ),
    Case(
        ApiKey.FETCH, 12, {(READ, ON_TOPIC)}, always(fetch(OPEN, HIDDEN, ABSENT)),
        of_parts("responses", "partitions", "topic"),
        ALL_TOPICS_REFUSED | {ABSENT: TOPIC}, HIDDEN_REFUSED | {ABSENT: TOPIC},
    ),
    Case(
        ApiKey.FETCH, 13, {(READ, ON_TOPIC)}, fetch_by_id, in_order("responses", "partitions"),
        {0: TOPIC, 1: TOPIC}, {0: NONE, 1: TOPIC}, names_hidden=False,
    ),
    Case(
        ApiKey.LIST_OFFSETS, 7, {(DESCRIBE, ON_TOPIC)},
        always({
            "replica_id": -1, "isolation_level": 0,
            "topics": named(OPEN, HIDDEN, ABSENT, partitions=[OFFSETS]),
        }),
        of_parts("topics", "partitions"),
        ALL_TOPICS_REFUSED | {ABSENT: TOPIC}, HIDDEN_REFUSED | {ABSENT: TOPIC},
    ),
    Case(
        ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, {(DESCRIBE, ON_TOPIC)},
        always({
            "replica_id": -1,
            "topics": [
                {"topic": name, "partitions": [EPOCHS]} for name in (OPEN, HIDDEN, ABSENT)
            ],
        }),
        of_parts("topics", "partitions", "topic"),
        ALL_TOPICS_REFUSED | {ABSENT: TOPIC}, HIDDEN_REFUSED | {ABSENT: TOPIC},
    ),
    Case(
        ApiKey.DELETE_RECORDS, 2, {(DELETE, ON_TOPIC)},
        always({
            "topics": named(
                OPEN, HIDDEN, ABSENT, partitions=[{"partition_index": 0, "offset": -1}]
            ),
            "timeout": ms(9_000),
        }),
        of_parts("topics", "partitions"),
        ALL_TOPICS_REFUSED | {ABSENT: TOPIC}, HIDDEN_REFUSED | {ABSENT: TOPIC},
    ),
    Case(
        ApiKey.INIT_PRODUCER_ID, 4,
        {(Operation.IDEMPOTENT_WRITE, ON_CLUSTER), (WRITE, ON_TOPIC)},
        always({
            "transactional_id": None, "transaction_timeout": ms(9_000), "producer_id": -1,
            "producer_epoch": -1,
        }),
        whole, {"": CLUSTER}, {"": NONE},
    ),
]  # fmt: skip

CLUSTER_CASES = [
    Case(
        ApiKey.API_VERSIONS, 3, set(),
        always({"client_software_name": "test", "client_software_version": "1"}),
        whole, {"": NONE}, {"": NONE}, names_hidden=False,
    ),
    Case(
        ApiKey.DESCRIBE_CLUSTER, 1, {(DESCRIBE, ON_CLUSTER)},
        always({"include_cluster_authorized_operations": True, "endpoint_type": 1}),
        lambda answer: {answer.cluster_authorized_operations: answer.error_code},
        {0: NONE}, {0: NONE}, names_hidden=False,
    ),
    Case(
        ApiKey.DESCRIBE_LOG_DIRS, 4, {(DESCRIBE, ON_CLUSTER)}, always({"topics": None}),
        whole, {"": CLUSTER}, {"": CLUSTER}, names_hidden=False,
    ),
    Case(
        ApiKey.DESCRIBE_QUORUM, 2, {(DESCRIBE, ON_CLUSTER)},
        always({"topics": [
            {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
        ]}),
        whole, {"": CLUSTER}, {"": CLUSTER}, names_hidden=False,
    ),
    Case(
        ApiKey.UNREGISTER_BROKER, 0, {(ALTER, ON_CLUSTER)}, always({"broker_id": 1}),
        whole, {"": CLUSTER}, {"": CLUSTER}, names_hidden=False,
    ),
    Case(
        ApiKey.METADATA, 12, {(DESCRIBE, ON_TOPIC)},
        always({"topics": [{"name": name} for name in (OPEN, HIDDEN, ABSENT)]}), told,
        ALL_TOPICS_REFUSED | {ABSENT: TOPIC}, HIDDEN_REFUSED | {ABSENT: TOPIC},
    ),
    Case(
        ApiKey.METADATA, 12, {(DESCRIBE, ON_TOPIC)}, always({"topics": None}), told,
        {}, {OPEN: NONE, INTERNAL: NONE}, names_hidden=False,
    ),
    Case(
        ApiKey.METADATA, 12, {(DESCRIBE, ON_TOPIC)},
        lambda id_of: {
            "topics": [{"topic_id": id_of(one), "name": None} for one in (OPEN, HIDDEN)]
        },
        told, {None: TOPIC}, {OPEN: NONE, None: TOPIC}, names_hidden=False,
    ),
    Case(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {(DESCRIBE, ON_TOPIC)},
        always({
            "topics": named(OPEN, HIDDEN, ABSENT), "response_partition_limit": 9, "cursor": None
        }),
        told, ALL_TOPICS_REFUSED | {ABSENT: TOPIC}, HIDDEN_REFUSED | {ABSENT: TOPIC},
    ),
    Case(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {(DESCRIBE, ON_TOPIC)},
        always({"topics": [], "response_partition_limit": 9, "cursor": None}),
        told, {}, {OPEN: NONE, INTERNAL: NONE}, names_hidden=False,
    ),
    Case(
        ApiKey.CREATE_TOPICS, 7, {(CREATE, ON_CLUSTER), (CREATE, ON_TOPIC)},
        always({"topics": [new_topic("new"), new_topic(ABSENT)], "timeout": ms(9_000)}),
        of_each("topics"), {"new": TOPIC, ABSENT: TOPIC}, {"new": NONE, ABSENT: TOPIC},
    ),
    Case(
        ApiKey.DELETE_TOPICS, 5, {(DELETE, ON_TOPIC)},
        always({"topic_names": [OPEN, HIDDEN, ABSENT], "timeout": ms(9_000)}),
        of_each("responses"),
        ALL_TOPICS_REFUSED | {ABSENT: TOPIC}, HIDDEN_REFUSED | {ABSENT: TOPIC},
    ),
    Case(
        ApiKey.DELETE_TOPICS, 6, {(DELETE, ON_TOPIC), (DESCRIBE, ON_TOPIC)},
        lambda id_of: {
            "topics": [
                {"topic_id": id_of(HIDDEN), "name": None},
                {"topic_id": uuid.UUID(int=99), "name": None},
            ],
            "timeout": ms(9_000),
        },
        lambda answer: {(one.name, one.topic_id.int == 99): one.error_code
                        for one in answer.responses},
        {(None, False): TOPIC, (None, True): Code.UNKNOWN_TOPIC_ID},
        {(None, False): TOPIC, (None, True): Code.UNKNOWN_TOPIC_ID},
        names_hidden=False,
    ),
    Case(
        ApiKey.CREATE_PARTITIONS, 3, {(ALTER, ON_TOPIC)},
        always({
            "topics": named(OPEN, HIDDEN, ABSENT, count=2, assignments=None),
            "timeout": ms(9_000), "validate_only": False,
        }),
        of_each("results"),
        ALL_TOPICS_REFUSED | {ABSENT: TOPIC}, HIDDEN_REFUSED | {ABSENT: TOPIC},
    ),
    Case(
        ApiKey.DESCRIBE_CONFIGS, 4,
        {(Operation.DESCRIBE_CONFIGS, ON_TOPIC), (Operation.DESCRIBE_CONFIGS, ON_CLUSTER)},
        always({
            "resources": config_resources({"configuration_keys": None})[:4],
            "include_synonyms": False, "include_documentation": False,
        }),
        lambda answer: config_codes(answer, "results"),
        {key: code for key, code in CONFIGS_REFUSED.items() if key[0] != 32},
        {key: code for key, code in CONFIGS_REFUSED.items() if key[0] != 32} | {(2, OPEN): NONE},
    ),
    Case(
        ApiKey.ALTER_CONFIGS, 2,
        {(Operation.ALTER_CONFIGS, ON_TOPIC), (Operation.ALTER_CONFIGS, ON_CLUSTER)},
        always({
            "resources": config_resources(
                {"configs": [{"name": "retention.ms", "value": "60000"}]}
            )[:4],
            "validate_only": False,
        }),
        config_codes,
        {key: code for key, code in CONFIGS_REFUSED.items() if key[0] != 32},
        {key: code for key, code in CONFIGS_REFUSED.items() if key[0] != 32} | {(2, OPEN): NONE},
    ),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1,
        {(Operation.ALTER_CONFIGS, ON_TOPIC), (Operation.ALTER_CONFIGS, ON_CLUSTER)},
        always({
            "resources": config_resources({
                "configs": [{"name": "retention.ms", "config_operation": 0, "value": "60000"}]
            })[:4],
            "validate_only": False,
        }),
        config_codes,
        {key: code for key, code in CONFIGS_REFUSED.items() if key[0] != 32},
        {key: code for key, code in CONFIGS_REFUSED.items() if key[0] != 32} | {(2, OPEN): NONE},
    ),
    Case(
        ApiKey.ELECT_LEADERS, 2, {(ALTER, ON_CLUSTER)},
        always({
            "election_type": 0, "timeout": ms(9_000),
            "topic_partitions": [{"topic": name, "partitions": [0]} for name in (OPEN, HIDDEN)],
        }),
        lambda answer: {"": answer.error_code} | {
            one.topic: one.partition_result[0].error_code
            for one in answer.replica_election_results
        },
        {"": CLUSTER, OPEN: CLUSTER, HIDDEN: CLUSTER},
        {"": CLUSTER, OPEN: CLUSTER, HIDDEN: CLUSTER},
    ),
]  # fmt: skip


def of_fetched(answer: Any) -> Codes:
    groups: Codes = {one.group_id: one.error_code for one in answer.groups}
    return groups | {
        (one.group_id, topic.name): topic.partitions[0].error_code
        for one in answer.groups
        for topic in one.topics
    }


GROUP_CASES = [
    Case(
        ApiKey.FIND_COORDINATOR, 4, {(DESCRIBE, ON_GROUP)},
        always({"key_type": 0, "coordinator_keys": [OPEN, HIDDEN]}),
        of_each("coordinators", "key"), {OPEN: GROUP, HIDDEN: GROUP}, {OPEN: NONE, HIDDEN: GROUP},
    ),
    Case(
        ApiKey.FIND_COORDINATOR, 3, {(DESCRIBE, ON_GROUP)}, always({"key_type": 0, "key": HIDDEN}),
        whole, {"": GROUP}, {"": GROUP},
    ),
    Case(
        ApiKey.JOIN_GROUP, 5, {(READ, ON_GROUP)}, always(join(HIDDEN)),
        whole, {"": GROUP}, {"": GROUP},
    ),
    Case(
        ApiKey.SYNC_GROUP, 5, {(READ, ON_GROUP)},
        always({"group_id": HIDDEN, **BEAT, "assignments": []}), whole, {"": GROUP}, {"": GROUP},
    ),
    Case(
        ApiKey.HEARTBEAT, 4, {(READ, ON_GROUP)}, always({"group_id": HIDDEN, **BEAT}),
        whole, {"": GROUP}, {"": GROUP},
    ),
    Case(
        ApiKey.HEARTBEAT, 4, {(READ, ON_GROUP)}, always({"group_id": OPEN, **BEAT}),
        whole, {"": GROUP}, NOBODY,
    ),
    Case(
        ApiKey.LEAVE_GROUP, 5, {(READ, ON_GROUP)},
        always({"group_id": HIDDEN, "members": [{"member_id": "m"}]}),
        whole, {"": GROUP}, {"": GROUP},
    ),
    Case(
        ApiKey.OFFSET_COMMIT, 8, {(READ, ON_GROUP), (READ, ON_TOPIC)},
        always(commit(OPEN, OPEN, HIDDEN, ABSENT)), of_parts("topics", "partitions"),
        {OPEN: GROUP, HIDDEN: GROUP, ABSENT: GROUP}, HIDDEN_REFUSED | {ABSENT: TOPIC},
    ),
    Case(
        ApiKey.OFFSET_COMMIT, 10, {(READ, ON_GROUP), (READ, ON_TOPIC)}, commit_by_id,
        in_order("topics", "partitions"),
        {0: GROUP, 1: GROUP}, {0: NONE, 1: TOPIC}, names_hidden=False,
    ),
    Case(
        ApiKey.OFFSET_COMMIT, 8, {(READ, ON_GROUP)}, always(commit(HIDDEN, OPEN)),
        of_parts("topics", "partitions"), {OPEN: GROUP}, {OPEN: GROUP},
    ),
    Case(
        ApiKey.OFFSET_FETCH, 8, {(DESCRIBE, ON_GROUP), (DESCRIBE, ON_TOPIC)},
        always({
            "groups": [
                {"group_id": name, "topics": named(OPEN, HIDDEN, ABSENT, partition_indexes=[0])}
                for name in (OPEN, HIDDEN)
            ],
            "require_stable": False,
        }),
        of_fetched, {OPEN: GROUP, HIDDEN: GROUP},
        {
            OPEN: NONE, HIDDEN: GROUP,
            (OPEN, OPEN): NONE, (OPEN, HIDDEN): TOPIC, (OPEN, ABSENT): TOPIC,
        },
    ),
    Case(
        ApiKey.OFFSET_FETCH, 8, {(DESCRIBE, ON_GROUP), (DESCRIBE, ON_TOPIC)},
        always({"groups": [{"group_id": OPEN, "topics": None}], "require_stable": False}),
        of_fetched, {OPEN: GROUP}, {OPEN: NONE, (OPEN, OPEN): NONE}, names_hidden=False,
    ),
    Case(
        ApiKey.OFFSET_FETCH, 1, {(DESCRIBE, ON_GROUP), (DESCRIBE, ON_TOPIC)},
        always({"group_id": HIDDEN, "topics": named(OPEN, partition_indexes=[0])}),
        of_parts("topics", "partitions"), {OPEN: GROUP}, {OPEN: GROUP},
    ),
    Case(
        ApiKey.OFFSET_DELETE, 0, {(DELETE, ON_GROUP)},
        always({"group_id": HIDDEN, "topics": named(OPEN, partitions=[{"partition_index": 0}])}),
        whole, {"": GROUP}, {"": GROUP},
    ),
    Case(
        ApiKey.OFFSET_DELETE, 0, {(DELETE, ON_GROUP), (READ, ON_TOPIC)},
        always({
            "group_id": OPEN,
            "topics": named(OPEN, HIDDEN, ABSENT, partitions=[{"partition_index": 0}]),
        }),
        lambda answer: whole(answer) | of_parts("topics", "partitions")(answer),
        {"": GROUP}, {"": NONE} | HIDDEN_REFUSED | {ABSENT: TOPIC},
    ),
    Case(
        ApiKey.DESCRIBE_GROUPS, 5, {(DESCRIBE, ON_GROUP)},
        always({"groups": [OPEN, HIDDEN], "include_authorized_operations": True}),
        of_each("groups", "group_id"), {OPEN: GROUP, HIDDEN: GROUP}, {OPEN: NONE, HIDDEN: GROUP},
    ),
    Case(
        ApiKey.LIST_GROUPS, 4, {(DESCRIBE, ON_CLUSTER), (DESCRIBE, ON_GROUP)},
        always({"states_filter": []}),
        lambda answer: {one.group_id: answer.error_code for one in answer.groups},
        {}, {OPEN: NONE}, names_hidden=False,
    ),
    Case(
        ApiKey.DELETE_GROUPS, 2, {(DELETE, ON_GROUP)}, always({"groups_names": [OPEN, HIDDEN]}),
        of_each("results", "group_id"), {OPEN: GROUP, HIDDEN: GROUP}, {OPEN: NONE, HIDDEN: GROUP},
    ),
]  # fmt: skip

CASES = [*RECORDS, *CLUSTER_CASES, *GROUP_CASES]
