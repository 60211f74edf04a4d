"""What the cases of gate_cases.py are made of: requests, and the codes of their answers.

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
    who: str = ""
    """Whom the client has proved to be; nobody where nothing has to be proved."""


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


def share_fetch(id_of: IdOf) -> dict[str, Any]:
    """A member opens a session of partition 0 of the open and the hidden topic."""
    part = {"partition_index": 0, "acknowledgement_batches": []}
    topics = [{"topic_id": id_of(name), "partitions": [part]} for name in (OPEN, HIDDEN)]
    counts = {"min_bytes": 1, "max_bytes": 1 << 20, "max_records": 10, "batch_size": 10}
    modes = {"share_acquire_mode": 0, "is_renew_ack": False}
    who = {"group_id": OPEN, "member_id": "m", "share_session_epoch": 0}
    return who | counts | modes | {"max_wait": ms(0), "topics": topics, "forgotten_topics_data": []}


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


def enter(group: str, *topics: str) -> dict[str, Any]:
    """A member of a consumer group (KIP-848) joins."""
    return {
        "group_id": group,
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": ms(9_000),
        "subscribed_topic_names": topics,
        "topic_partitions": [],
    }


def play(group: str, *topics: str) -> dict[str, Any]:
    """A member of a streams group (KIP-1071) joins."""
    part = {
        "subtopology_id": "0",
        "source_topics": topics,
        "source_topic_regex": [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
    }
    return {
        "group_id": group,
        "member_id": "m",
        "member_epoch": 0,
        "endpoint_information_epoch": 0,
        "rebalance_timeout": ms(9_000),
        "topology": {"epoch": 1, "subtopologies": [part]},
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p",
        "client_tags": [],
        "task_offsets": None,
        "task_end_offsets": None,
        "shutdown_application": False,
    }


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
    return {topic.name: topic.error_code for topic in answer.topics}


READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE = Operation.ALTER, Operation.DESCRIBE
ON_TOKEN, ON_USER = Resource.DELEGATION_TOKEN, Resource.USER
ON_TOPIC, ON_GROUP, ON_CLUSTER = Resource.TOPIC, Resource.GROUP, Resource.CLUSTER
ALL_TOPICS_REFUSED = {OPEN: TOPIC, HIDDEN: TOPIC}
HIDDEN_REFUSED = {OPEN: NONE, HIDDEN: TOPIC}
OFFSETS = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
EPOCHS = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
BEAT = {"generation_id": 1, "member_id": "m"}
NOBODY = {"": Code.UNKNOWN_MEMBER_ID}


def share_enter(group: str, *topics: str) -> dict[str, Any]:
    """A member of a share group (KIP-932) joins."""
    return {
        "group_id": group,
        "member_id": "m",
        "member_epoch": 0,
        "subscribed_topic_names": topics,
    }
