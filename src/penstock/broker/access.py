"""Authorisation: the question that every front asks for a name, and the interface that answers it.

    front ─► may `requester` do `operation` on the `resource` of this name? ─► Authoriser

A front asks where it resolves names (Kafka's: kafka/gate.py), and nowhere else. By default
everything is permitted; an authoriser that refuses replaces `PermitsAll` in `Broker.authoriser`
(penstock.access has the one that decides by rules).

The numbers are Kafka's, since its answers carry them. ANY and ALL are missing: they occur in
filters and rules, never in a question.

Source: Kafka `AclOperation`, `ResourceType`, `AclEntry.supportedOperations`, `Authorizer`; KIP-11,
KIP-679 (`permits_some`).
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, Protocol

from penstock.access import rules

CLUSTER_NAME: Final = rules.CLUSTER_NAME
"""Name of the only cluster resource in rules."""
ANONYMOUS: Final = "User:ANONYMOUS"
"""Principal of an unauthenticated client."""


class Operation(IntEnum):
    """An operation on a resource."""

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


class Resource(IntEnum):
    """A type of resource; each type has names of its own."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    """By its id."""
    USER = 7
    """A user by its principal, `User:name`, for what others may do in its name."""


OPERATIONS_ON: Final[Mapping[Resource, tuple[Operation, ...]]] = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    Resource.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    Resource.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""Operations that exist for each type of resource: groups have no configuration."""


class Requester(Protocol):
    """The client that asks; fronts extend it."""

    @property
    def principal(self) -> str: ...

    @property
    def host(self) -> str: ...


class Authoriser(Protocol):
    """Answers at once, from memory: it is called while a request is handled."""

    @property
    def permits_all(self) -> bool:
        """Whether nothing is refused at present; read once per request, to skip all checks."""

    @property
    def generation(self) -> int:
        """Another number after each change of what is permitted: answers may be kept until then."""

    def permits(
        self, who: Requester, operation: Operation, resource: Resource, name: str
    ) -> bool: ...

    def permits_some(self, who: Requester, operation: Operation, resource: Resource) -> bool:
        """Whether the operation is permitted on any name, existing or not (KIP-679)."""


class PermitsAll:
    """Permits everything."""

    permits_all = True
    generation = 0

    def permits(self, who: Requester, operation: Operation, resource: Resource, name: str) -> bool:
        """Return True."""
        del who, operation, resource, name
        return True

    def permits_some(self, who: Requester, operation: Operation, resource: Resource) -> bool:
        """Return True."""
        del who, operation, resource
        return True
