"""Which permission each method of the service needs: the table that tests hold methods to.

Those of a group are of consumers alone: producers have none. QueryRoute creates a topic that is
missing, where that is on, for whom may create it by name or on the cluster.

Methods ask the gate, and not this table. tests/grpc/test_needs.py compares what they ask with their
rows, and takes each permission of a row from a client. The page docs/operations/permissions.md is
written from it.

Source: RocketMQ's proxy `DefaultAuthorizationContextBuilder`; remoting/needs.py.
"""

from collections.abc import Mapping
from typing import Final

from penstock.broker.access import Operation, Resource

Need = tuple[Operation, Resource]

READ_TOPIC: Final = (Operation.READ, Resource.TOPIC)
WRITE_TOPIC: Final = (Operation.WRITE, Resource.TOPIC)
DESCRIBE_TOPIC: Final = (Operation.DESCRIBE, Resource.TOPIC)
CREATE_TOPIC: Final = (Operation.CREATE, Resource.TOPIC)
CREATE_CLUSTER: Final = (Operation.CREATE, Resource.CLUSTER)
READ_GROUP: Final = (Operation.READ, Resource.GROUP)

_RECEIVES: Final = frozenset({READ_TOPIC, READ_GROUP})

NEEDS: Final[Mapping[str, frozenset[Need]]] = {
    "QueryRoute": frozenset({DESCRIBE_TOPIC, CREATE_TOPIC, CREATE_CLUSTER}),
    "Heartbeat": frozenset({READ_GROUP}),
    "SendMessage": frozenset({WRITE_TOPIC}),
    "EndTransaction": frozenset({WRITE_TOPIC}),
    "RecallMessage": frozenset({WRITE_TOPIC}),
    "QueryAssignment": _RECEIVES,
    "ReceiveMessage": _RECEIVES,
    "AckMessage": _RECEIVES,
    "ForwardMessageToDeadLetterQueue": _RECEIVES,
    "ChangeInvisibleDuration": _RECEIVES,
    "Telemetry": frozenset({READ_GROUP}),
    "NotifyClientTermination": frozenset({READ_GROUP}),
}

EITHER: Final[Mapping[str, tuple[Need, Need]]] = {"QueryRoute": (CREATE_TOPIC, CREATE_CLUSTER)}
"""One of the two suffices."""
