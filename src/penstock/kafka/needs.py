"""Which permission each API needs: the table that tests hold the handlers to.

A request needs those of the row that belong to what it names; where EITHER has a pair, one of the
two suffices. A node does not start with an API without a row.

A handler asks the gate, and not this table: what it asks depends on what a request names. Tests
record what each handler asks for (tests/kafka/test_gate.py), compare that with its row, and take
away each permission of a row from a real broker (tests/kafka/test_needs.py). The page
docs/operations/permissions.md is written from it.

Source: Kafka `KafkaApis`, `ControllerApis`; KIP-430, KIP-679, KIP-848, KIP-932, KIP-1071.
"""

from collections.abc import Mapping
from typing import Final

from penstock.broker.access import Operation, Resource
from penstock.protocol.api_keys import ApiKey

Need = tuple[Operation, Resource]

READ_TOPIC: Final = (Operation.READ, Resource.TOPIC)
WRITE_TOPIC: Final = (Operation.WRITE, Resource.TOPIC)
CREATE_TOPIC: Final = (Operation.CREATE, Resource.TOPIC)
DELETE_TOPIC: Final = (Operation.DELETE, Resource.TOPIC)
ALTER_TOPIC: Final = (Operation.ALTER, Resource.TOPIC)
DESCRIBE_TOPIC: Final = (Operation.DESCRIBE, Resource.TOPIC)
READ_GROUP: Final = (Operation.READ, Resource.GROUP)
DELETE_GROUP: Final = (Operation.DELETE, Resource.GROUP)
DESCRIBE_GROUP: Final = (Operation.DESCRIBE, Resource.GROUP)
CREATE_CLUSTER: Final = (Operation.CREATE, Resource.CLUSTER)
ALTER_CLUSTER: Final = (Operation.ALTER, Resource.CLUSTER)
DESCRIBE_CLUSTER: Final = (Operation.DESCRIBE, Resource.CLUSTER)
ACTION_CLUSTER: Final = (Operation.CLUSTER_ACTION, Resource.CLUSTER)
IDEMPOTENT: Final = (Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)
WRITE_TXN: Final = (Operation.WRITE, Resource.TRANSACTIONAL_ID)
DESCRIBE_TXN: Final = (Operation.DESCRIBE, Resource.TRANSACTIONAL_ID)
DESCRIBE_TOKEN: Final = (Operation.DESCRIBE, Resource.DELEGATION_TOKEN)
TOKENS_OF_USER: Final = (Operation.DESCRIBE_TOKENS, Resource.USER)

_CONFIGURED: Final = (Resource.TOPIC, Resource.GROUP, Resource.CLUSTER)


def _needs(*needs: Need) -> frozenset[Need]:
    return frozenset(needs)


def _configs(operation: Operation) -> frozenset[Need]:
    return frozenset((operation, resource) for resource in _CONFIGURED)


NEEDS: Final[Mapping[ApiKey, frozenset[Need]]] = {
    ApiKey.PRODUCE: _needs(WRITE_TOPIC, WRITE_TXN),
    ApiKey.FETCH: _needs(READ_TOPIC),
    ApiKey.LIST_OFFSETS: _needs(DESCRIBE_TOPIC),
    ApiKey.METADATA: _needs(DESCRIBE_TOPIC, CREATE_TOPIC, CREATE_CLUSTER, DESCRIBE_CLUSTER),
    ApiKey.OFFSET_COMMIT: _needs(READ_GROUP, READ_TOPIC),
    ApiKey.OFFSET_FETCH: _needs(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ApiKey.FIND_COORDINATOR: _needs(DESCRIBE_GROUP, DESCRIBE_TXN),
    ApiKey.JOIN_GROUP: _needs(READ_GROUP),
    ApiKey.HEARTBEAT: _needs(READ_GROUP),
    ApiKey.LEAVE_GROUP: _needs(READ_GROUP),
    ApiKey.SYNC_GROUP: _needs(READ_GROUP),
    ApiKey.DESCRIBE_GROUPS: _needs(DESCRIBE_GROUP),
    ApiKey.LIST_GROUPS: _needs(DESCRIBE_CLUSTER, DESCRIBE_GROUP),
    ApiKey.SASL_HANDSHAKE: _needs(),
    ApiKey.API_VERSIONS: _needs(),
    ApiKey.CREATE_TOPICS: _needs(
        CREATE_CLUSTER, CREATE_TOPIC, (Operation.DESCRIBE_CONFIGS, Resource.TOPIC)
    ),
    ApiKey.DELETE_TOPICS: _needs(DELETE_TOPIC, DESCRIBE_TOPIC),
    ApiKey.DELETE_RECORDS: _needs(DELETE_TOPIC),
    ApiKey.INIT_PRODUCER_ID: _needs(IDEMPOTENT, WRITE_TOPIC, WRITE_TXN),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _needs(DESCRIBE_TOPIC),
    ApiKey.ADD_PARTITIONS_TO_TXN: _needs(WRITE_TXN, WRITE_TOPIC),
    ApiKey.ADD_OFFSETS_TO_TXN: _needs(WRITE_TXN, READ_GROUP),
    ApiKey.END_TXN: _needs(WRITE_TXN),
    ApiKey.WRITE_TXN_MARKERS: _needs(ALTER_CLUSTER, ACTION_CLUSTER),
    ApiKey.TXN_OFFSET_COMMIT: _needs(WRITE_TXN, READ_GROUP, READ_TOPIC),
    ApiKey.DESCRIBE_ACLS: _needs(DESCRIBE_CLUSTER),
    ApiKey.CREATE_ACLS: _needs(ALTER_CLUSTER),
    ApiKey.DELETE_ACLS: _needs(ALTER_CLUSTER),
    ApiKey.DESCRIBE_CONFIGS: _configs(Operation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CONFIGS: _configs(Operation.ALTER_CONFIGS),
    ApiKey.DESCRIBE_LOG_DIRS: _needs(DESCRIBE_CLUSTER),
    ApiKey.SASL_AUTHENTICATE: _needs(),
    ApiKey.CREATE_PARTITIONS: _needs(ALTER_TOPIC),
    ApiKey.CREATE_DELEGATION_TOKEN: _needs((Operation.CREATE_TOKENS, Resource.USER)),
    ApiKey.RENEW_DELEGATION_TOKEN: _needs(),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _needs(),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _needs(DESCRIBE_TOKEN, TOKENS_OF_USER),
    ApiKey.DELETE_GROUPS: _needs(DELETE_GROUP),
    ApiKey.ELECT_LEADERS: _needs(ALTER_CLUSTER),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _needs(ALTER_CLUSTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _needs(DESCRIBE_CLUSTER),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs(Operation.ALTER_CONFIGS),
    ApiKey.OFFSET_DELETE: _needs(DELETE_GROUP, READ_TOPIC),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _needs((Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)),
    ApiKey.ALTER_CLIENT_QUOTAS: _needs((Operation.ALTER_CONFIGS, Resource.CLUSTER)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _needs(DESCRIBE_CLUSTER),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _needs(ALTER_CLUSTER),
    ApiKey.DESCRIBE_QUORUM: _needs(DESCRIBE_CLUSTER),
    ApiKey.UPDATE_FEATURES: _needs(ALTER_CLUSTER),
    ApiKey.DESCRIBE_CLUSTER: _needs(DESCRIBE_CLUSTER),
    ApiKey.DESCRIBE_PRODUCERS: _needs(READ_TOPIC),
    ApiKey.UNREGISTER_BROKER: _needs(ALTER_CLUSTER),
    ApiKey.DESCRIBE_TRANSACTIONS: _needs(DESCRIBE_TXN, DESCRIBE_TOPIC),
    ApiKey.LIST_TRANSACTIONS: _needs(DESCRIBE_TXN),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _needs(READ_GROUP, DESCRIBE_TOPIC),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _needs(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _needs(),
    ApiKey.PUSH_TELEMETRY: _needs(),
    ApiKey.LIST_CONFIG_RESOURCES: _needs((Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _needs(DESCRIBE_TOPIC),
    ApiKey.SHARE_GROUP_HEARTBEAT: _needs(READ_GROUP, DESCRIBE_TOPIC),
    ApiKey.SHARE_GROUP_DESCRIBE: _needs(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ApiKey.SHARE_FETCH: _needs(READ_GROUP, READ_TOPIC),
    ApiKey.SHARE_ACKNOWLEDGE: _needs(READ_GROUP, READ_TOPIC),
    ApiKey.STREAMS_GROUP_HEARTBEAT: _needs(
        READ_GROUP, DESCRIBE_TOPIC, CREATE_TOPIC, CREATE_CLUSTER
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: _needs(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _needs(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _needs(READ_GROUP, READ_TOPIC),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _needs(DELETE_GROUP, READ_TOPIC),
}

EITHER: Final[Mapping[ApiKey, tuple[Need, Need]]] = {
    ApiKey.METADATA: (CREATE_CLUSTER, CREATE_TOPIC),
    ApiKey.CREATE_TOPICS: (CREATE_CLUSTER, CREATE_TOPIC),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (CREATE_CLUSTER, CREATE_TOPIC),
    ApiKey.INIT_PRODUCER_ID: (IDEMPOTENT, WRITE_TOPIC),
    ApiKey.WRITE_TXN_MARKERS: (ALTER_CLUSTER, ACTION_CLUSTER),
    ApiKey.LIST_GROUPS: (DESCRIBE_CLUSTER, DESCRIBE_GROUP),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (DESCRIBE_TOKEN, TOKENS_OF_USER),
}
"""Where one of the two suffices."""
