"""What the client may do with a topic, as a broker tells it (KIP-430)."""

from penstock.access.rules import AclOperation
from penstock.client.cluster import Cluster, check_code
from penstock.client.errors import error_code
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

_FIRST_VERSION = 8
"""Of Metadata, with the operations."""
_NOT_TOLD = -(1 << 31)


def permitted_operations(cluster: Cluster, topic: str) -> frozenset[AclOperation] | None:
    """Return the operations that the client may do; None if it is not told, or nothing is there.

    Retries. Raises BrokerError if the client may not even know of the topic.
    """

    def attempt() -> frozenset[AclOperation] | None:
        connection = cluster.any_connection()
        if connection.version(ApiKey.METADATA) < _FIRST_VERSION:
            return None
        fields = {
            "topics": [{"name": topic}],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
        }
        (answer,) = connection.call(ApiKey.METADATA, fields).topics
        code = error_code(int(answer.error_code))
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        check_code(code, f"topic {topic}")
        bits = int(answer.topic_authorized_operations)
        if bits == _NOT_TOLD:
            return None
        return frozenset(one for one in AclOperation if bits >> one & 1)

    return cluster.retry(f"permissions of topic {topic}", attempt)
