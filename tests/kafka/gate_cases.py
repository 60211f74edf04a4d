"""Each API asked for what is open and for what is hidden: the permissions it needs, and its codes.

Source: Kafka `KafkaApis`, `ControllerApis`, `AuthorizerIntegrationTest`.
"""

import uuid
from typing import Any

from penstock.broker.access import Operation, Resource
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.kafka.gate_access_cases import ACCESS_CASES
from tests.kafka.gate_acls import ACL_CASES
from tests.kafka.gate_asks import (
    ABSENT,
    ALL_TOPICS_REFUSED,
    ALTER,
    BEAT,
    CLUSTER,
    CONFIGS_REFUSED,
    CREATE,
    DELETE,
    DESCRIBE,
    EPOCHS,
    GROUP,
    HIDDEN,
    HIDDEN_REFUSED,
    INTERNAL,
    NOBODY,
    NONE,
    OFFSETS,
    ON_CLUSTER,
    ON_GROUP,
    ON_TOPIC,
    OPEN,
    READ,
    TOPIC,
    TRANSACTION,
    WRITE,
    Case,
    Codes,
    always,
    commit,
    commit_by_id,
    config_codes,
    config_resources,
    enter,
    fetch,
    fetch_by_id,
    in_order,
    join,
    ms,
    named,
    new_topic,
    of_each,
    of_parts,
    produce,
    produce_by_id,
    told,
    whole,
)
from tests.kafka.gate_reassignments import REASSIGNMENT_CASES
from tests.kafka.gate_share_cases import SHARE_CASES
from tests.kafka.gate_streams import STREAMS_CASES

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
        ApiKey.DESCRIBE_PRODUCERS, 0, {(READ, ON_TOPIC)},
        always({"topics": named(OPEN, HIDDEN, ABSENT, partition_indexes=[0])}),
        of_parts("topics", "partitions"),
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
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, set(), always({"client_instance_id": None}),
        whole, {"": NONE}, {"": NONE}, names_hidden=False,
    ),
    Case(
        ApiKey.PUSH_TELEMETRY, 0, set(),
        always({
            "client_instance_id": None, "subscription_id": 1, "terminating": False,
            "compression_type": 0, "metrics": b"",
        }),
        whole, {"": Code.INVALID_REQUEST}, {"": Code.INVALID_REQUEST}, names_hidden=False,
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
        ApiKey.UPDATE_FEATURES, 2, {(ALTER, ON_CLUSTER)},
        always({"feature_updates": [], "timeout": 1_000, "validate_only": True}),
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
        lambda answer: {(response.name, response.topic_id.int == 99): response.error_code
                        for response in answer.responses},
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
        ApiKey.LIST_CONFIG_RESOURCES, 1, {(Operation.DESCRIBE_CONFIGS, ON_CLUSTER)},
        always({"resource_types": []}), whole, {"": CLUSTER}, {"": CLUSTER}, names_hidden=False,
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
            result.topic: result.partition_result[0].error_code
            for result in answer.replica_election_results
        },
        {"": CLUSTER, OPEN: CLUSTER, HIDDEN: CLUSTER},
        {"": CLUSTER, OPEN: CLUSTER, HIDDEN: CLUSTER},
    ),
]  # fmt: skip


def of_fetched(answer: Any) -> Codes:
    groups: Codes = {group.group_id: group.error_code for group in answer.groups}
    return groups | {
        (group.group_id, topic.name): topic.partitions[0].error_code
        for group in answer.groups
        for topic in group.topics
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
        ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {(READ, ON_GROUP)}, always(enter(HIDDEN, OPEN)),
        whole, {"": GROUP}, {"": GROUP},
    ),
    Case(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {(READ, ON_GROUP), (DESCRIBE, ON_TOPIC)},
        always(enter("new", OPEN, HIDDEN)), whole, {"": GROUP}, {"": TOPIC},
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
        ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {(DESCRIBE, ON_GROUP)},
        always({"group_ids": [OPEN, HIDDEN], "include_authorized_operations": True}),
        of_each("groups", "group_id"), {OPEN: GROUP, HIDDEN: GROUP},
        {OPEN: Code.GROUP_ID_NOT_FOUND, HIDDEN: GROUP},
    ),
    Case(
        ApiKey.LIST_GROUPS, 4, {(DESCRIBE, ON_CLUSTER), (DESCRIBE, ON_GROUP)},
        always({"states_filter": []}),
        lambda answer: {group.group_id: answer.error_code for group in answer.groups},
        {}, {OPEN: NONE}, names_hidden=False,
    ),
    Case(
        ApiKey.DELETE_GROUPS, 2, {(DELETE, ON_GROUP)}, always({"groups_names": [OPEN, HIDDEN]}),
        of_each("results", "group_id"), {OPEN: GROUP, HIDDEN: GROUP}, {OPEN: NONE, HIDDEN: GROUP},
    ),
]  # fmt: skip

ON_TRANSACTION = Resource.TRANSACTIONAL_ID
_PRODUCER = {"producer_id": 5, "producer_epoch": 0}

TRANSACTION_CASES = [
    Case(
        ApiKey.FIND_COORDINATOR, 4, {(DESCRIBE, ON_TRANSACTION)},
        always({"key_type": 1, "coordinator_keys": [HIDDEN]}),
        of_each("coordinators", "key"), {HIDDEN: TRANSACTION}, {HIDDEN: TRANSACTION},
    ),
    Case(
        ApiKey.INIT_PRODUCER_ID, 4, {(WRITE, ON_TRANSACTION)},
        always({
            "transactional_id": HIDDEN, "transaction_timeout": ms(9_000), "producer_id": -1,
            "producer_epoch": -1,
        }),
        whole, {"": TRANSACTION}, {"": TRANSACTION},
    ),
    Case(
        ApiKey.ADD_PARTITIONS_TO_TXN, 3, {(WRITE, ON_TRANSACTION), (WRITE, ON_TOPIC)},
        always({
            "v3_and_below_transactional_id": OPEN,
            "v3_and_below_topics": named(OPEN, HIDDEN, ABSENT, partitions=[0]),
            **{f"v3_and_below_{key}": value for key, value in _PRODUCER.items()},
        }),
        lambda answer: {
            one.name: one.results_by_partition[0].partition_error_code
            for one in answer.results_by_topic_v3_and_below
        },
        {OPEN: TRANSACTION, HIDDEN: TRANSACTION, ABSENT: TRANSACTION},
        {OPEN: Code.OPERATION_NOT_ATTEMPTED, HIDDEN: TOPIC, ABSENT: TOPIC},
    ),
    Case(
        ApiKey.ADD_OFFSETS_TO_TXN, 3, {(WRITE, ON_TRANSACTION), (READ, ON_GROUP)},
        always({"transactional_id": OPEN, "group_id": HIDDEN, **_PRODUCER}),
        whole, {"": TRANSACTION}, {"": GROUP},
    ),
    Case(
        ApiKey.TXN_OFFSET_COMMIT, 3,
        {(WRITE, ON_TRANSACTION), (READ, ON_GROUP), (READ, ON_TOPIC)},
        always({
            "transactional_id": OPEN, "group_id": OPEN, "generation_id": -1, "member_id": "",
            "group_instance_id": None, **_PRODUCER,
            "topics": named(HIDDEN, ABSENT, partitions=[
                {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1,
                 "committed_metadata": ""}
            ]),
        }),
        of_parts("topics", "partitions"), {HIDDEN: TRANSACTION, ABSENT: TRANSACTION},
        {HIDDEN: TOPIC, ABSENT: TOPIC},
    ),
    Case(
        ApiKey.END_TXN, 4, {(WRITE, ON_TRANSACTION)},
        always({"transactional_id": HIDDEN, "committed": True, **_PRODUCER}),
        whole, {"": TRANSACTION}, {"": TRANSACTION},
    ),
    Case(
        ApiKey.WRITE_TXN_MARKERS, 1,
        {(ALTER, ON_CLUSTER), (Operation.CLUSTER_ACTION, ON_CLUSTER)},
        always({"markers": [{
            "producer_id": 1, "producer_epoch": 0, "transaction_result": False,
            "coordinator_epoch": 0, "topics": [{"name": HIDDEN, "partition_indexes": [0]}],
        }]}),
        lambda answer: {
            HIDDEN: answer.markers[0].topics[0].partitions[0].error_code,
        },
        {HIDDEN: CLUSTER}, {HIDDEN: CLUSTER},
    ),
    Case(
        ApiKey.DESCRIBE_TRANSACTIONS, 0, {(DESCRIBE, ON_TRANSACTION)},
        always({"transactional_ids": [HIDDEN]}),
        of_each("transaction_states", "transactional_id"),
        {HIDDEN: TRANSACTION}, {HIDDEN: TRANSACTION},
    ),
    Case(
        ApiKey.LIST_TRANSACTIONS, 1, set(),
        always({"state_filters": [], "producer_id_filters": [], "duration_filter": -1}),
        whole, {"": NONE}, {"": NONE}, names_hidden=False,
    ),
]  # fmt: skip

_OF_CLUSTER = [*CLUSTER_CASES, *REASSIGNMENT_CASES, *ACL_CASES, *ACCESS_CASES]
ASKED_OF_BROKERS = [*RECORDS, *_OF_CLUSTER, *TRANSACTION_CASES]
CASES = [*ASKED_OF_BROKERS, *GROUP_CASES, *STREAMS_CASES, *SHARE_CASES]
