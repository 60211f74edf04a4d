"""Errors of the broker room: requests that are well-formed and cannot be served.

BrokerError(PlatformError)
UnknownPartition           no such topic or partition on this node
InternalTopicRefused       clients may not write to internal topics
DeletionAgainstPolicy      records of a compacted topic go as newer ones of their keys come
InvalidTransaction         a batch outside of its transaction, or inside of one that it is not of
VerificationRefused(code)  the coordinator of a transaction does not confirm a partition
TooManyTransactions        a log has as many open transactions as it may
CoordinatorFenced          a marker of a coordinator that was replaced
InvalidAcks(acks)          acks is none of 0, 1, -1
NotAuthorised              the client may not do this
  TopicNotAuthorised, GroupNotAuthorised, ClusterNotAuthorised, TransactionNotAuthorised,
  TokenNotAuthorised
TokensDisabled             this broker has no secret for delegation tokens
TokenRequestRefused        who is not known, or only by a token, asks for delegation tokens
InvalidPrincipalKind       a delegation token of, or renewed by, what is no user
NoAuthoriser               there are no rules where everything is permitted
OffsetNotAvailable         not known yet at a new master or a slave; the client retries
ElectionNotNeeded          the set has the requested master already
PreferredMasterNotAvailable(broker_id)   it is dead or not in sync
TierUnavailable            what only the object store has can not be read now; the client retries
"""

from penstock.base.errors import PlatformError


class BrokerError(PlatformError):
    """A request that this broker does not serve."""


class UnknownPartition(BrokerError):
    """No such topic or partition on this node."""


class InternalTopicRefused(BrokerError):
    """Clients may not write to internal topics."""


class DeletionAgainstPolicy(BrokerError):
    """The topic is compacted and not deleted from: a client may not cut its oldest records."""


class InvalidTransaction(BrokerError):
    """The batch is not of a transaction that the partition is in."""


class NotVerified(InvalidTransaction):
    """The coordinator did not confirm the partition, or a marker or an election came after that."""


class VerificationRefused(BrokerError):
    """The coordinator did not confirm that a partition is in its transaction."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        """The error code for the client."""


class TooManyTransactions(BrokerError):
    """A log has as many open transactions as it may have; the client tries again later."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} transactions are open in the log of this partition")


class CoordinatorFenced(BrokerError):
    """The marker is of a coordinator that another one has replaced."""

    def __init__(self, epoch: int, known: int) -> None:
        super().__init__(f"coordinator epoch {epoch} is older than {known}")


class InvalidAcks(BrokerError):
    """The request's acks is none of 0, 1 and -1."""

    def __init__(self, acks: int) -> None:
        super().__init__(f"acks={acks} is not one of 0, 1, -1 (all)")
        self.acks = acks


class NotAuthorised(BrokerError):
    """The client may not do this. Neither the name nor whether it exists is disclosed.

    `operation` names the permission that is missing, where one would suffice.
    """

    kind = "resource"

    def __init__(self, operation: str = "") -> None:
        needed = f": it needs the permission {operation}" if operation else ""
        super().__init__(f"not authorized to do this with the {self.kind}{needed}")


class TopicNotAuthorised(NotAuthorised):
    kind = "topic"


class GroupNotAuthorised(NotAuthorised):
    kind = "group"


class ClusterNotAuthorised(NotAuthorised):
    kind = "cluster"


class TransactionNotAuthorised(NotAuthorised):
    kind = "transactional id"


class TokenNotAuthorised(NotAuthorised):
    """Of delegation tokens, and of the users whose they are."""

    kind = "delegation token"


class TokensDisabled(BrokerError):
    """This broker has no secret for delegation tokens."""

    def __init__(self) -> None:
        super().__init__("Delegation tokens are off. (security.delegation_token_secret_file)")


class TokenRequestRefused(BrokerError):
    """Who is not known, or only by a token, may not ask for tokens."""

    def __init__(self) -> None:
        super().__init__("Prove who you are, and not by a token, to ask for delegation tokens.")


class InvalidPrincipalKind(BrokerError):
    """Delegation tokens are of users, and renewed by users."""

    def __init__(self) -> None:
        super().__init__("Principals of delegation tokens are of type User.")


class NoAuthoriser(BrokerError):
    """Rules can be neither seen nor changed where nobody goes by them."""

    def __init__(self) -> None:
        super().__init__(
            "No Authorizer is configured. (access.authorizer is off: set it to acl on each node)"
        )


class OffsetNotAvailable(BrokerError):
    """This replica does not know yet what is readable there: its confirm position is behind."""


class ElectionNotNeeded(BrokerError):
    """There is nothing to elect: the set has the requested master already."""

    def __init__(self) -> None:
        super().__init__("the partition has the requested leader already")


class PreferredMasterNotAvailable(BrokerError):
    """The preferred master is not alive, or has not caught up with the sync-state set."""

    def __init__(self, broker_id: int) -> None:
        super().__init__(f"the preferred leader, broker {broker_id}, is not in sync and alive")
        self.broker_id = broker_id


class MutationQuotaExceeded(BrokerError):
    """A client has created and deleted more partitions than its quota lets it."""

    def __init__(self) -> None:
        super().__init__("The throttling quota has been exceeded.")


class TierUnavailable(BrokerError):
    """What only the object store has, or where that begins, can not be told now: ask again."""
