"""A rule of access (ACL): whom it is about, what they do, with which resources, allowed or denied.

    resource_type  pattern   resource_name     which resources
    TOPIC          LITERAL   "orders"          this one
    TOPIC          LITERAL   "*"               all of the type
    TOPIC          PREFIXED  "orders-"         those whose names begin so

    principal  "User:alice", or "User:*": everybody      host  an address, or "*": any

The numbers are Kafka's, since requests and records carry them.

Source: KIP-11, KIP-290 (prefixes); Kafka `AclBinding`, `ResourceType`, `PatternType`,
`AclOperation`, `AclPermissionType`. What rules come to together is decided in `index`.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

WILDCARD: Final = "*"
"""As the name of a literal pattern: every resource of the type. As a host: every host."""
EVERYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""Name of the only cluster resource."""


class AclResource(IntEnum):
    """Kinds of resources that a rule can be about."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPattern(IntEnum):
    """How a rule's resource name is compared."""

    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What a rule lets somebody do, or forbids."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """Whether a rule forbids or allows."""

    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """See the module. Two rules that are equal are one."""

    resource_type: AclResource
    resource_name: str
    pattern: AclPattern
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission
