"""Errors of the broker room: requests that are well formed and can not be served.

BrokerError(PlatformError)
UnknownPartition           no such topic or partition on this node
InternalTopicRefused       clients may not write to internal topics
TransactionsNotSupported   transactional batches; no transactional API is advertised
InvalidAcks(acks)          acks is none of 0, 1, -1
NotAuthorised              the client may not do this
  TopicNotAuthorised, GroupNotAuthorised, ClusterNotAuthorised, TransactionNotAuthorised
OffsetNotAvailable         a new master or a slave does not know yet; asking again helps
ElectionNotNeeded          the set has the master that the request wants
PreferredMasterNotAvailable(broker_id)   it is dead or not in step
"""

from penstock.base.errors import PlatformError


class BrokerError(PlatformError):
    """A request that this broker does not serve."""


class UnknownPartition(BrokerError):
    """No such topic or partition on this node."""


class InternalTopicRefused(BrokerError):
    """Clients may not write to internal topics."""


class TransactionsNotSupported(BrokerError):
    """Transactional batches are refused: transactions are not part of this version."""


class InvalidAcks(BrokerError):
    """The request's acks is none of 0, 1 and -1."""

    def __init__(self, acks: int) -> None:
        super().__init__(f"acks={acks} is not one of 0, 1, -1 (all)")
        self.acks = acks


class NotAuthorised(BrokerError):
    """The client may not do this. What it named is not told, nor whether it exists."""

    kind = "resource"

    def __init__(self) -> None:
        super().__init__(f"not authorized to do this with the {self.kind}")


class TopicNotAuthorised(NotAuthorised):
    kind = "topic"


class GroupNotAuthorised(NotAuthorised):
    kind = "group"


class ClusterNotAuthorised(NotAuthorised):
    kind = "cluster"


class TransactionNotAuthorised(NotAuthorised):
    kind = "transactional id"


class OffsetNotAvailable(BrokerError):
    """This replica can not tell yet what is readable there: its confirm position lags behind."""


class ElectionNotNeeded(BrokerError):
    """There is nothing to elect: the master is the one that is wanted."""

    def __init__(self) -> None:
        super().__init__("the partition has the leader that is asked for")


class PreferredMasterNotAvailable(BrokerError):
    """The preferred master is not alive, or has not caught up with the sync-state set."""

    def __init__(self, broker_id: int) -> None:
        super().__init__(f"the preferred leader, broker {broker_id}, is not in sync and alive")
        self.broker_id = broker_id
