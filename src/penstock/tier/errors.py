"""What can go wrong with a store, and with what is read from it.

    PlatformError
      TierError
        StoreError              a request to a store failed
          ObjectNotFound        there is no object of that name
          PreconditionFailed    the object is there already, or is another one than was expected
          StoreThrottled        too many requests: ask later, and less
          CredentialsRefused    nothing works until a person has changed something
          StoreUnavailable      no answer, or one that says nothing: the same request may work later
          StoreCanNot           the store lacks what was asked for
        LyingObject             the bytes are not those that the metadata, or the object, tell of
        LostObject              the metadata has an object that the store has not
        NotInTier               the tier does not have the offset

A put that fails, however it fails, may have been done, or may be done later.
"""

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicPartition


class TierError(PlatformError):
    """Root of the errors of the tier."""


class StoreError(TierError):
    """A request to a store about the object `name` (or the prefix) failed."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


class ObjectNotFound(StoreError):
    """No object has that name."""


class PreconditionFailed(StoreError):
    """The condition of a put does not hold. The put itself may have made it so, when repeated."""


class StoreThrottled(StoreError):
    """The store asks for fewer requests."""


class CredentialsRefused(StoreError):
    """The store does not know the credentials, or they do not permit the request."""


class StoreUnavailable(StoreError):
    """No answer in time, a broken connection, an error of the store's own."""


class StoreCanNot(StoreError):
    """The store has no such operation; see Capabilities."""


class LyingObject(TierError):
    """An object is damaged, or another one than it should be; nothing of it is served."""

    def __init__(self, name: str, at: int, reason: str) -> None:
        super().__init__(f"object {name} is not to be believed at byte {at}: {reason}")
        self.name = name
        self.at = at
        self.reason = reason


class LostObject(TierError):
    """Data that the tier had is gone; `offset` is the first that can not be read."""

    def __init__(self, name: str, topic_partition: TopicPartition, offset: int) -> None:
        super().__init__(f"object {name} with offset {offset} of {topic_partition} is lost")
        self.name = name
        self.topic_partition = topic_partition
        self.offset = offset


class NotInTier(TierError):
    """No run of the partition has the offset."""

    def __init__(self, topic_partition: TopicPartition, offset: int) -> None:
        super().__init__(f"the tier does not have offset {offset} of {topic_partition}")
        self.topic_partition = topic_partition
        self.offset = offset
