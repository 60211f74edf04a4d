"""The versions that stock clients may meet: the ranges of the support table."""

from penstock.protocol.api_keys import ApiKey

ADVERTISED: dict[ApiKey, range] = {
    ApiKey.PRODUCE: range(3, 14),
    ApiKey.FETCH: range(4, 19),
    ApiKey.LIST_OFFSETS: range(1, 12),
    ApiKey.METADATA: range(14),
    ApiKey.OFFSET_COMMIT: range(2, 11),
    ApiKey.OFFSET_FETCH: range(1, 11),
    ApiKey.FIND_COORDINATOR: range(7),
    ApiKey.JOIN_GROUP: range(10),
    ApiKey.HEARTBEAT: range(5),
    ApiKey.LEAVE_GROUP: range(6),
    ApiKey.SYNC_GROUP: range(6),
    ApiKey.DESCRIBE_GROUPS: range(7),
    ApiKey.LIST_GROUPS: range(6),
    ApiKey.API_VERSIONS: range(5),
    ApiKey.CREATE_TOPICS: range(2, 8),
    ApiKey.DELETE_TOPICS: range(1, 7),
    ApiKey.DELETE_RECORDS: range(3),
    ApiKey.INIT_PRODUCER_ID: range(6),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: range(2, 5),
    ApiKey.DESCRIBE_CONFIGS: range(1, 5),
    ApiKey.ALTER_CONFIGS: range(3),
    ApiKey.CREATE_PARTITIONS: range(4),
    ApiKey.DELETE_GROUPS: range(3),
    ApiKey.ELECT_LEADERS: range(3),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: range(2),
    ApiKey.OFFSET_DELETE: range(1),
    ApiKey.DESCRIBE_LOG_DIRS: range(1, 5),
    ApiKey.DESCRIBE_QUORUM: range(3),
    ApiKey.DESCRIBE_CLUSTER: range(3),
    ApiKey.UPDATE_FEATURES: range(3),
    ApiKey.DESCRIBE_PRODUCERS: range(1),
    ApiKey.UNREGISTER_BROKER: range(1),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: range(2),
    ApiKey.CONSUMER_GROUP_DESCRIBE: range(2),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: range(1),
    ApiKey.LIST_CONFIG_RESOURCES: range(2),
}

EVERY_VERSION = [(key, version) for key, versions in ADVERTISED.items() for version in versions]
