"""Requests whose answers say whether the client may do something, and what else they say.

    a name, by an API of each operation    the code of its resource, or any other
    Metadata, DescribeCluster              the bits of all operations that are permitted
    Metadata of all topics                 whether the topic of the history is among them
    InitProducerId                         whether some topic may be written to (KIP-679)

Source: `kafka/needs.py` says which API needs what; KIP-430 (operations as bits).
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random
from typing import Any, NamedTuple

from penstock.access.rules import CLUSTER_NAME, AclOperation, AclResource
from penstock.client.produce_request import encode_produce
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import decode_response
from penstock.record.build import Record, build_batch
from simulator.clients.wire import BrokerLink
from simulator.history.access import Decide, Question, decides, decides_some
from simulator.run.topology import TOPIC

PRODUCE_VERSION = 8
WAIT_MS = 500
TOPIC_TYPE = 2
NO_PARTITION = 99
DENIED = {
    AclResource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Told(NamedTuple):
    """What an answer says of one question."""

    text: str
    decide: Decide
    is_allowed: bool
    is_of_rules: bool = True
    """Whether nothing but rules could be the reason; else only who has followed all can be wrong.
    """


class Asker(NamedTuple):
    """Who asks, and from where."""

    principal: str
    host: str

    def may(self, operation: AclOperation, resource: AclResource, name: str) -> Decide:
        """Return what rules have to say of this."""
        asked = Question(self.principal, self.host, operation, resource, name)
        return lambda rules: decides(rules, asked)


class _Api(NamedTuple):
    """An API that asks for one operation: its fields for a name, and the code for that name."""

    operation: AclOperation
    key: ApiKey
    version: int
    fields: Callable[[str], Mapping[str, Any]]
    code: Callable[[Any], int]


def _timed(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "timeout": WAIT_MS, "timeout_ms": WAIT_MS, "validate_only": True}


def _fetch(name: str) -> Mapping[str, Any]:
    wanted = {
        "partition": NO_PARTITION,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1,
    }
    return {
        "cluster_id": None,
        "replica_id": -1,
        "max_wait_ms": 0,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": name, "partitions": [wanted]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def _alter(name: str) -> Mapping[str, Any]:
    edit = {"name": "retention.ms", "config_operation": 0, "value": "100000"}
    resource = {"resource_type": TOPIC_TYPE, "resource_name": name, "configs": [edit]}
    return {"resources": [resource], "validate_only": True}


def _describe(name: str) -> Mapping[str, Any]:
    resource = {
        "resource_type": TOPIC_TYPE,
        "resource_name": name,
        "configuration_keys": ["retention.ms"],
    }
    return {"resources": [resource], "include_synonyms": False, "include_documentation": False}


def _metadata(names: list[str] | None) -> Mapping[str, Any]:
    return {
        "topics": None if names is None else [{"name": name} for name in names],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": True,
    }


_TOPIC_APIS = (
    _Api(
        AclOperation.DESCRIBE, ApiKey.METADATA, 9,
        lambda name: _metadata([name]), lambda answer: answer.topics[0].error_code,
    ),
    _Api(
        AclOperation.READ, ApiKey.FETCH, 12,
        _fetch, lambda answer: answer.responses[0].partitions[0].error_code,
    ),
    _Api(
        AclOperation.DELETE, ApiKey.DELETE_RECORDS, 1,
        lambda name: _timed({"topics": [
            {"name": name, "partitions": [{"partition_index": NO_PARTITION, "offset": 0}]}
        ]}),
        lambda answer: answer.topics[0].partitions[0].error_code,
    ),
    _Api(
        AclOperation.ALTER, ApiKey.CREATE_PARTITIONS, 1,
        lambda name: _timed({"topics": [{"name": name, "count": 50, "assignments": None}]}),
        lambda answer: answer.results[0].error_code,
    ),
    _Api(
        AclOperation.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1,
        _alter, lambda answer: answer.responses[0].error_code,
    ),
    _Api(
        AclOperation.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_CONFIGS, 4,
        _describe, lambda answer: answer.results[0].error_code,
    ),
)  # fmt: skip
_GROUP_APIS = (
    _Api(
        AclOperation.DESCRIBE, ApiKey.DESCRIBE_GROUPS, 5,
        lambda name: {"groups": [name], "include_authorized_operations": True},
        lambda answer: answer.groups[0].error_code,
    ),
    _Api(
        AclOperation.READ, ApiKey.HEARTBEAT, 3,
        lambda name: {
            "group_id": name, "generation_id": 1, "member_id": "nobody", "group_instance_id": None,
        },
        lambda answer: answer.error_code,
    ),
    _Api(
        AclOperation.DELETE, ApiKey.DELETE_GROUPS, 2,
        lambda name: {"groups_names": [name]}, lambda answer: answer.results[0].error_code,
    ),
)  # fmt: skip
_TRANSACTION_APIS = (
    _Api(
        AclOperation.DESCRIBE, ApiKey.DESCRIBE_TRANSACTIONS, 0,
        lambda name: {"transactional_ids": [name]},
        lambda answer: answer.transaction_states[0].error_code,
    ),
    _Api(
        AclOperation.WRITE, ApiKey.END_TXN, 3,
        lambda name: {
            "transactional_id": name, "producer_id": 1, "producer_epoch": 0, "committed": True,
        },
        lambda answer: answer.error_code,
    ),
)  # fmt: skip
_CLUSTER_APIS = (
    _Api(
        AclOperation.DESCRIBE, ApiKey.DESCRIBE_ACLS, 3,
        lambda _: {
            "resource_type_filter": AclResource.GROUP, "resource_name_filter": "nobody's",
            "pattern_type_filter": 3, "principal_filter": None, "host_filter": None,
            "operation": 1, "permission_type": 1,
        },
        lambda answer: answer.error_code,
    ),
    _Api(
        AclOperation.ALTER, ApiKey.CREATE_ACLS, 3,
        lambda _: {"creations": [{
            "resource_type": 2, "resource_name": "", "resource_pattern_type": 3,
            "principal": "User:nobody", "host": "*", "operation": 3, "permission_type": 3,
        }]},
        lambda answer: answer.results[0].error_code,
    ),
    _Api(
        AclOperation.ALTER, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0,
        lambda _: {"deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": []},
        lambda answer: answer.results[0].error_code,
    ),
    _Api(
        AclOperation.ALTER, ApiKey.ELECT_LEADERS, 2,
        lambda _: {
            "election_type": 0, "timeout": WAIT_MS,
            "topic_partitions": [{"topic": "no-topic", "partitions": [0]}],
        },
        lambda answer: answer.error_code,
    ),
    _Api(
        AclOperation.DESCRIBE_CONFIGS, ApiKey.LIST_CONFIG_RESOURCES, 1,
        lambda _: {"resource_types": [TOPIC_TYPE]}, lambda answer: answer.error_code,
    ),
)  # fmt: skip
_DELETE = _Api(
    AclOperation.DELETE, ApiKey.DELETE_TOPICS, 6,
    lambda name: _timed({"topics": [{"name": name, "topic_id": None}]}),
    lambda answer: answer.responses[0].error_code,
)  # fmt: skip
_APIS = {
    AclResource.TOPIC: _TOPIC_APIS,
    AclResource.GROUP: _GROUP_APIS,
    AclResource.TRANSACTIONAL_ID: _TRANSACTION_APIS,
    AclResource.CLUSTER: _CLUSTER_APIS,
}

Ask = Callable[[BrokerLink, Asker], Awaitable[list[Told]]]


def questions(names: tuple[str, ...]) -> list[Ask]:
    """Return all that can be asked about resources of these names, own ones first."""
    asks = [
        partial(_by_api, api, resource, name)
        for resource, apis in _APIS.items()
        for api in apis
        for name in ((CLUSTER_NAME,) if resource is AclResource.CLUSTER else names)
    ]
    own = [name for name in names if name != TOPIC]
    asks += [partial(ask, name) for ask in (_write, _create) for name in own]
    asks += [partial(_by_api, _DELETE, AclResource.TOPIC, name) for name in own]
    return [*asks, _bits, _all_topics, _some_topic, _cluster_bits]


async def _by_api(
    api: _Api, resource: AclResource, name: str, link: BrokerLink, asker: Asker
) -> list[Told]:
    answer = await link.call(api.key, api.version, api.fields(name))
    code = api.code(answer)
    text = f"{api.operation.name} {resource.name} {name} of {asker.principal}: {code!r}"
    decide = asker.may(api.operation, resource, name)
    return [Told(text, decide, code != DENIED[resource])]


async def _write(name: str, link: BrokerLink, asker: Asker) -> list[Told]:
    """Write to a topic that there is not."""
    data = bytes(build_batch([Record(None, b"not wanted")]))
    link.send(ApiKey.PRODUCE, PRODUCE_VERSION, *encode_produce({(name, 0): data}, WAIT_MS))
    frame, at = await link.receive()
    answer: Any = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, frame, at)
    code = answer.responses[0].partition_responses[0].error_code
    decide = asker.may(AclOperation.WRITE, AclResource.TOPIC, name)
    text = f"WRITE TOPIC {name} of {asker.principal}: {code!r}"
    return [Told(text, decide, code != DENIED[AclResource.TOPIC])]


async def _create(name: str, link: BrokerLink, asker: Asker) -> list[Told]:
    """See whether a topic could be made: the cluster's permission will do, or the name's."""
    topic = {
        "name": name, "num_partitions": 1, "replication_factor": -1, "assignments": [],
        "configs": [],
    }  # fmt: skip
    answer = await link.call(ApiKey.CREATE_TOPICS, 4, _timed({"topics": [topic]}))
    code = answer.topics[0].error_code
    anywhere = asker.may(AclOperation.CREATE, AclResource.CLUSTER, CLUSTER_NAME)
    here = asker.may(AclOperation.CREATE, AclResource.TOPIC, name)
    text = f"CREATE TOPIC {name} of {asker.principal}: {code!r}"
    return [
        Told(
            text,
            lambda rules: anywhere(rules) or here(rules),
            code != DENIED[AclResource.TOPIC],
        )
    ]


_ON_TOPICS = (
    AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE,
    AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)  # fmt: skip
_ON_CLUSTER = (
    AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS, AclOperation.IDEMPOTENT_WRITE,
)  # fmt: skip


async def _bits(link: BrokerLink, asker: Asker) -> list[Told]:
    """Read the operations that are permitted on the topic of the history."""
    answer = await link.call(ApiKey.METADATA, 9, _metadata([TOPIC]))
    (topic,) = answer.topics
    if topic.error_code != ErrorCode.NONE:
        return []
    bits = topic.topic_authorized_operations
    return [
        Told(
            f"bit of {operation.name} TOPIC {TOPIC} of {asker.principal} in {bits:#x}",
            asker.may(operation, AclResource.TOPIC, TOPIC),
            bool(bits >> operation & 1),
        )
        for operation in _ON_TOPICS
    ]


async def _cluster_bits(link: BrokerLink, asker: Asker) -> list[Told]:
    """Read the operations that are permitted on the cluster: none is told to whom it is hidden."""
    fields = {"include_cluster_authorized_operations": True}
    answer = await link.call(ApiKey.DESCRIBE_CLUSTER, 0, fields)
    bits = answer.cluster_authorized_operations
    is_seen = asker.may(AclOperation.DESCRIBE, AclResource.CLUSTER, CLUSTER_NAME)

    def told(operation: AclOperation) -> Told:
        may = asker.may(operation, AclResource.CLUSTER, CLUSTER_NAME)
        text = f"bit of {operation.name} CLUSTER of {asker.principal} in {bits:#x}"
        return Told(text, lambda rules: is_seen(rules) and may(rules), bool(bits >> operation & 1))

    return [told(operation) for operation in _ON_CLUSTER]


async def _all_topics(link: BrokerLink, asker: Asker) -> list[Told]:
    """Look whether the topic of the history is among all topics."""
    answer = await link.call(ApiKey.METADATA, 9, _metadata(None))
    is_there = any(topic.name == TOPIC for topic in answer.topics)
    decide = asker.may(AclOperation.DESCRIBE, AclResource.TOPIC, TOPIC)
    text = f"{TOPIC} in the list for {asker.principal}: {is_there}"
    return [Told(text, decide, is_there, is_of_rules=is_there)]


async def _some_topic(link: BrokerLink, asker: Asker) -> list[Told]:
    """Ask for a producer id, which needs the cluster's permission, or to write to some topic."""
    fields = {
        "transactional_id": None, "transaction_timeout_ms": 1_000, "transaction_timeout": 1_000,
        "producer_id": -1, "producer_epoch": -1,
    }  # fmt: skip
    answer = await link.call(ApiKey.INIT_PRODUCER_ID, 4, fields)
    anywhere = asker.may(AclOperation.IDEMPOTENT_WRITE, AclResource.CLUSTER, CLUSTER_NAME)
    topic = (AclOperation.WRITE, AclResource.TOPIC, "some topic")
    some = Question(asker.principal, asker.host, *topic)
    return [
        Told(
            f"a producer id for {asker.principal}: {answer.error_code!r}",
            lambda rules: anywhere(rules) or decides_some(rules, some),
            answer.error_code != DENIED[AclResource.CLUSTER],
        )
    ]


async def ask_some(
    link: BrokerLink, asker: Asker, names: tuple[str, ...], draw: Random, count: int
) -> list[Told]:
    """Ask some of all that can be asked. Raises LinkFailed."""
    told: list[Told] = []
    for ask in draw.sample(questions(names), count):
        told += await ask(link, asker)
    return told
