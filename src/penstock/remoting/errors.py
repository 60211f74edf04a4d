"""Errors of the remoting room: bytes and messages that a RocketMQ client should not have sent.

    RemotingError
      MalformedFrame(reason)   no command can be read: the connection is closed
      MalformedBody(reason)    the command can be read, and what it carries can not: it is refused
      IllegalMessage(reason)   a message that RocketMQ refuses too, or that has no place in a record
      MessageGone(reason)      a message that is sent back, and is not where its client says
      WrongHalf(reason)        a decision about a half message that is not its client's
      AlreadyDecided(reason)   a decision that contradicts the one before
      HalvesNotReady(reason)   half messages of the set are being read by its new master
      TooManyHalves(reason)    no more half messages before others are decided
      BadReceipt(reason)       a receipt of a popped message is none, or not valid any more
      PopUnavailable(reason)   who has which message can not be told now
      IndexBehind(reason)      a message may be where the index has not come to yet
      SendTimedOut             messages that were appended and not confirmed

Source: RocketMQ closes the channel on a RemotingCommandException of its decoder, and answers
SYSTEM_ERROR or MESSAGE_ILLEGAL otherwise.
"""

from penstock.base.errors import PlatformError


class RemotingError(PlatformError):
    """Root of the errors of the remoting front."""

    def __init__(self, reason: str) -> None:
        """`reason` is one short phrase, for logs and for the remark of an answer."""
        super().__init__(reason)
        self.reason = reason


class MalformedFrame(RemotingError):
    """The frame does not hold one command."""


class MalformedBody(RemotingError):
    """The body, or a field, does not follow its layout."""


class IllegalMessage(RemotingError):
    """The message can not be stored."""


class MessageGone(RemotingError):
    """There is no such message, or there is none any more."""


class InvalidParameter(RemotingError):
    """What is asked for can not be, here or anywhere."""


class WrongHalf(RemotingError):
    """The half message is not the one that the client means, or of another group or topic."""


class AlreadyDecided(RemotingError):
    """The half message was committed, rolled back or discarded before."""


class HalvesNotReady(RemotingError):
    """The master does not know yet which half messages wait."""


class TooManyHalves(RemotingError):
    """Too many half messages, or decisions, wait."""


class SendTimedOut(RemotingError):
    """Messages were appended, and not confirmed in time; they may be there."""

    def __init__(self, reason: str = "not confirmed in time") -> None:
        super().__init__(reason)


class IndexBehind(RemotingError):
    """What is asked for is not in the index, which lacks a part of the log."""


class PositionRefused(RemotingError):
    """The coordinator of a group does not keep, or does not tell, a position."""


class BadReceipt(RemotingError):
    """A receipt of a popped message is none, or its hand-out is over."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"invalid receipt handle: {reason}")


class PopUnavailable(RemotingError):
    """Nothing can be popped, or said of what was, at the moment: clients ask again."""
