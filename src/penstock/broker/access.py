"""Who may do what with which name: the question that every front asks, and whoever answers it.

    front ─► may `requester` do `operation` with the `resource` of this name? ─► Authoriser

A front asks where it resolves names (Kafka's: kafka/gate.py), and nowhere else. Here everybody may
do everything; an authoriser that refuses takes the place of `PermitsAll` in `Broker.authoriser`.

The numbers are Kafka's, since its answers carry them. What is asked has no such operations as ANY
and ALL, which stand in filters and in rules.

Source: Kafka `AclOperation`, `ResourceType`, `AclEntry.supportedOperations`, `Authorizer`; KIP-11,
KIP-679 (`permits_some`).
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, Protocol

CLUSTER_NAME: Final = "kafka-cluster"
"""The cluster is one resource; rules give it this name."""
ANONYMOUS: Final = "User:ANONYMOUS"
"""Whoever has not proved who he is."""


class Operation(IntEnum):
    """What is done with a resource."""

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


class Resource(IntEnum):
    """What something is done with; each has names of its own."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


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
}
"""What can be done with each kind of resource here: groups have no configuration."""


class Requester(Protocol):
    """Who asks; fronts have more to say of him."""

    @property
    def principal(self) -> str: ...

    @property
    def host(self) -> str: ...


class Authoriser(Protocol):
    """Answers at once, from memory: it is asked in the middle of requests."""

    @property
    def permits_all(self) -> bool:
        """Whether nobody is refused anything now: a request looks once, and asks no more."""

    def permits(
        self, who: Requester, operation: Operation, resource: Resource, name: str
    ) -> bool: ...

    def permits_some(self, who: Requester, operation: Operation, resource: Resource) -> bool:
        """Whether there is any name that he may do this with, of something that exists or not."""


class PermitsAll:
    """Refuses nobody anything."""

    permits_all = True

    def permits(self, who: Requester, operation: Operation, resource: Resource, name: str) -> bool:
        """Permit it."""
        del who, operation, resource, name
        return True

    def permits_some(self, who: Requester, operation: Operation, resource: Resource) -> bool:
        """Permit it."""
        del who, operation, resource
        return True
