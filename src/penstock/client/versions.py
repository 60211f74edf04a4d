"""The request versions that our client supports.

Both ends of a range are offered by Penstock and Apache Kafka 2.1 to 4.x, but for APIs that are
newer. The upper end is the last version with the layout that our code reads (FindCoordinator 4 and
OffsetFetch 8 take many keys at once, DeleteTopics 6 and Produce 13 use topic ids), or later
versions add nothing that we use. Transactions are those of version 2 alone: a Produce of such a
version adds its partition to the transaction, a TxnOffsetCommit its group, and EndTxn gives each
transaction an epoch.

Source: Kafka's message JSON; KIP-896 for the lower ends, KIP-890 for transactions.
"""

from penstock.client.errors import UnsupportedByBroker
from penstock.protocol.api_keys import ApiKey

CLIENT_VERSIONS: dict[ApiKey, tuple[int, int]] = {
    ApiKey.PRODUCE: (3, 8),
    ApiKey.FETCH: (4, 11),
    ApiKey.LIST_OFFSETS: (1, 7),
    ApiKey.METADATA: (4, 12),
    ApiKey.OFFSET_COMMIT: (2, 8),
    ApiKey.OFFSET_FETCH: (1, 7),
    ApiKey.FIND_COORDINATOR: (0, 3),
    ApiKey.DESCRIBE_GROUPS: (0, 5),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.API_VERSIONS: (0, 0),
    ApiKey.SASL_HANDSHAKE: (1, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 1),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 5),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 4),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.CREATE_DELEGATION_TOKEN: (3, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: (1, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (1, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (3, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.STREAMS_GROUP_DESCRIBE: (0, 0),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: (1, 1),
    ApiKey.END_TXN: (5, 5),
    ApiKey.TXN_OFFSET_COMMIT: (5, 5),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.WRITE_TXN_MARKERS: (1, 1),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 1),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
}
TRANSACTIONAL_PRODUCE = 12, 12
"""Versions of Produce for the batches of a transaction."""


def choose_version(
    api_key: ApiKey,
    offered: dict[int, tuple[int, int]],
    ours: tuple[int, int] | None = None,
) -> int:
    """Return the newest version that both sides know; `ours` are the versions of CLIENT_VERSIONS if
    they are not given. Raises UnsupportedByBroker.
    """
    ours_min, ours_max = CLIENT_VERSIONS[api_key] if ours is None else ours
    theirs_min, theirs_max = offered.get(api_key, (0, -1))
    chosen = min(ours_max, theirs_max)
    if chosen < max(ours_min, theirs_min):
        raise UnsupportedByBroker(f"{api_key.name} version {ours_min} to {ours_max}")
    return chosen
