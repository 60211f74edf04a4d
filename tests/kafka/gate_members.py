"""What APIs ask for once groups have members and transactions are open.

The cases of gate_cases.py meet none of these; only test_needs.py takes permissions away here.
"""

from typing import TYPE_CHECKING, Any

from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.broker.access import Operation, Resource
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.kafka.gate_asks import (
    CREATE,
    DESCRIBE,
    ON_CLUSTER,
    ON_GROUP,
    ON_TOPIC,
    OPEN,
    READ,
    Case,
    Codes,
    IdOf,
    always,
    enter,
    ms,
    new_topic,
    of_each,
    of_parts,
    play,
    share_enter,
    share_fetch,
    told,
    whole,
)
from tests.kafka.test_streams_groups import counting
from tests.kafka.transacting import add, begin

if TYPE_CHECKING:
    from tests.kafka.test_gate import World

CONSUMERS, SHARERS, PLAYERS, TRANSACTION = "consumers", "sharers", "players", "payments"
ON_TRANSACTION = Resource.TRANSACTIONAL_ID


def prepare(world: "World") -> None:
    """Let each kind of group have a member with partitions, and a transaction be open."""
    ask = world.client.ask
    joined = ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, enter(CONSUMERS, OPEN))
    assert joined.error_code == Code.NONE
    join_shares(world)
    assert ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, play(PLAYERS, OPEN)).error_code == Code.NONE
    producer = begin(world.node, world.client, TRANSACTION)
    assert add(world.client, producer, {OPEN: [0]}, TRANSACTION) == {0}


def join_shares(world: "World") -> None:
    ask = world.client.ask
    beat = share_enter(SHARERS, OPEN)

    def is_served() -> bool:
        answer = ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, beat)
        beat["member_epoch"] = answer.member_epoch
        shares = world.node.call(lambda: world.node.broker.groups.shares.shared(SHARERS))
        return not isinstance(shares, Code) and bool(shares.partitions)

    assert wait_until(is_served, UNTIL_SECONDS)
    emptied = share_enter("emptied", OPEN)
    assert ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, emptied).error_code == Code.NONE
    ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, emptied | {"member_epoch": -1})
    answer = ask(ApiKey.SHARE_FETCH, 2, fetch_share(world.id_of))
    assert answer.error_code == Code.NONE


def fetch_share(id_of: IdOf) -> dict[str, Any]:
    fields = share_fetch(id_of)
    return {**fields, "group_id": SHARERS, "topics": fields["topics"][:1]}


def acknowledge(id_of: IdOf) -> dict[str, Any]:
    batch = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
    part = {"partition_index": 0, "acknowledgement_batches": [batch]}
    who = {"group_id": SHARERS, "member_id": "m", "share_session_epoch": 1, "is_renew_ack": False}
    return {**who, "topics": [{"topic_id": id_of(OPEN), "partitions": [part]}]}


def described(answer: Any) -> Codes:
    """The code of a group, and nothing where no member is told."""
    return {one.group_id: one.error_code for one in answer.groups if one.error_code or one.members}


def asked_shares(**part: Any) -> dict[str, Any]:
    return {"topic_name": OPEN, "partitions": [{"partition_index": 0, **part}]}


def of_share_offsets(answer: Any) -> Codes:
    return {
        topic.topic_name: topic.partitions[0].error_code
        for group in answer.groups
        for topic in group.topics
    }


def describe_of(group: str) -> Any:
    return always({"group_ids": [group], "include_authorized_operations": False})


GROUP_CONFIG = {"resource_type": 32, "resource_name": OPEN}
DESCRIBE_GROUP_TOPICS = {(DESCRIBE, ON_GROUP), (DESCRIBE, ON_TOPIC)}

GROUP_CASES = [
    Case(
        ApiKey.CONSUMER_GROUP_DESCRIBE, 1, DESCRIBE_GROUP_TOPICS, describe_of(CONSUMERS),
        described, {}, {},
    ),
    Case(
        ApiKey.SHARE_GROUP_DESCRIBE, 1, DESCRIBE_GROUP_TOPICS, describe_of(SHARERS),
        described, {}, {},
    ),
    Case(
        ApiKey.STREAMS_GROUP_DESCRIBE, 0, DESCRIBE_GROUP_TOPICS, describe_of(PLAYERS),
        described, {}, {},
    ),
    Case(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, {(DESCRIBE, ON_TOPIC)},
        always({"groups": [{
            "group_id": SHARERS, "topics": [{"topic_name": OPEN, "partitions": [0]}],
        }]}),
        of_share_offsets, {}, {},
    ),
    Case(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, {(READ, ON_TOPIC)},
        always({"group_id": "new", "topics": [asked_shares(start_offset=0)]}),
        of_parts("responses", "partitions", "topic_name"), {}, {},
    ),
    Case(
        ApiKey.SHARE_ACKNOWLEDGE, 2, {(READ, ON_TOPIC)}, acknowledge,
        lambda answer: {one.topic_id: one.partitions[0].error_code for one in answer.responses},
        {}, {},
    ),
    Case(
        ApiKey.STREAMS_GROUP_HEARTBEAT, 0,
        {(DESCRIBE, ON_TOPIC), (CREATE, ON_TOPIC), (CREATE, ON_CLUSTER)},
        always(counting("counts", OPEN)),
        lambda answer: {"": answer.error_code or _may_create(answer.status[0].status_detail)},
        {}, {},
    ),
]  # fmt: skip


def _may_create(detail: str) -> Code:
    return Code.TOPIC_AUTHORIZATION_FAILED if "Unauthorized" in detail else Code.NONE


OTHER_CASES = [
    Case(
        ApiKey.METADATA, 12,
        {(DESCRIBE, ON_TOPIC), (CREATE, ON_TOPIC), (CREATE, ON_CLUSTER)},
        always({"topics": [{"name": "created"}], "allow_auto_topic_creation": True}),
        told, {}, {},
    ),
    Case(
        ApiKey.METADATA, 10, {(DESCRIBE, ON_CLUSTER)},
        always({"topics": [], "include_cluster_authorized_operations": True}),
        lambda answer: {answer.cluster_authorized_operations: Code.NONE}, {}, {},
    ),
    Case(
        ApiKey.CREATE_TOPICS, 7, {(Operation.DESCRIBE_CONFIGS, ON_TOPIC)},
        always({"topics": [new_topic("created")], "timeout": ms(9_000)}),
        lambda answer: {"": answer.topics[0].topic_config_error_code}, {}, {},
    ),
    Case(
        ApiKey.DESCRIBE_CONFIGS, 4, {(Operation.DESCRIBE_CONFIGS, ON_GROUP)},
        always({
            "resources": [GROUP_CONFIG | {"configuration_keys": None}],
            "include_synonyms": False, "include_documentation": False,
        }),
        of_each("results", "resource_name"), {}, {},
    ),
    Case(
        ApiKey.ALTER_CONFIGS, 2, {(Operation.ALTER_CONFIGS, ON_GROUP)},
        always({"resources": [GROUP_CONFIG | {"configs": []}], "validate_only": True}),
        of_each("responses", "resource_name"), {}, {},
    ),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {(Operation.ALTER_CONFIGS, ON_GROUP)},
        always({"resources": [GROUP_CONFIG | {"configs": []}], "validate_only": True}),
        of_each("responses", "resource_name"), {}, {},
    ),
    Case(
        ApiKey.DESCRIBE_TRANSACTIONS, 0, {(DESCRIBE, ON_TRANSACTION), (DESCRIBE, ON_TOPIC)},
        always({"transactional_ids": [TRANSACTION]}),
        lambda answer: {
            one.transactional_id: one.error_code
            for one in answer.transaction_states if one.error_code or one.topics
        },
        {}, {}, names_hidden=False,
    ),
    Case(
        ApiKey.LIST_TRANSACTIONS, 1, {(DESCRIBE, ON_TRANSACTION)},
        always({"state_filters": [], "producer_id_filters": [], "duration_filter": -1}),
        lambda answer: {one.transactional_id: Code.NONE for one in answer.transaction_states},
        {}, {}, names_hidden=False,
    ),
    Case(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, {(READ, ON_TOPIC)},
        always({"group_id": "emptied", "topics": [{"topic_name": OPEN}]}),
        lambda answer: whole(answer) | of_each("responses", "topic_name")(answer), {}, {},
    ),
]  # fmt: skip

MEMBER_CASES = [*GROUP_CASES, *OTHER_CASES]
