"""What a client may do with a resource, as bits by AclOperation code.

There is no authoriser, so everybody may do everything that is done with such a resource.

Source: KIP-430; Kafka `AclEntry.supportedOperations` for what belongs to which kind.
"""

from typing import Final

NOT_ASKED_FOR: Final = -(2**31)
"""Also what Kafka answers where it does not say."""
_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = (1 << code for code in range(3, 9))
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = (
    1 << code for code in range(9, 13)
)
ON_TOPIC: Final = (
    _READ | _WRITE | _CREATE | _DELETE | _ALTER | _DESCRIBE | _DESCRIBE_CONFIGS | _ALTER_CONFIGS
)
ON_GROUP: Final = _READ | _DELETE | _DESCRIBE
ON_CLUSTER: Final = (
    _CREATE
    | _ALTER
    | _DESCRIBE
    | _CLUSTER_ACTION
    | _DESCRIBE_CONFIGS
    | _ALTER_CONFIGS
    | _IDEMPOTENT_WRITE
)
