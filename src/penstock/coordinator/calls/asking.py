"""Asking another broker: what a question is, what an answer, and what a caller hears.

    answer = await calls.ask(broker_id, VerifyRequest(...), timeout_ms=...)

    transactions.py    write these markers; is the partition in that transaction
    shares.py          what share groups ask
    positions.py       positions of groups that another broker coordinates
    extents.py         what a member with a damaged extent file asks
    tier.py            what the object store has, for a slave that reads it for consumers
    recall.py          messages that wait in a set that another broker leads

    CallError
      CallNotBegun       nothing was done there
        CallsFull          too many calls to that broker wait already
        CallTooLarge       divide it
        CallNotSent        it waited for its time behind others, or for a link
        BrokerNotReached   no link: unknown address, refused, an earlier release
        CallNotServed      it has said that it does not know the question, or has nobody for it
      CallOutcomeUnknown it may have been done, or be done later
        CallTimedOut, LinkLost, CallFailed

A new question is a class here, with its answer; a number in runtime/calls/messages.py; and a
handler that is registered. Links, time-outs and bounds are in runtime/calls. Codes are Kafka's, as
numbers; only those who ask and answer know them.

Source: docs/adr/0090, docs/adr/0169.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar, cast, get_args, get_origin

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId

NO_TOPIC_ID: Final = bytes(16)
FRAME_BYTES_MAX: Final = 256 << 10
"""Largest message of a call, both ways."""
SMALL_BYTES_MAX: Final = 4 << 10
"""Of one without lists."""


class CallError(PlatformError):
    """A call without an answer."""


class CallNotBegun(CallError):
    """Nothing was done at the other broker; asking again is safe."""


class CallsFull(CallNotBegun):
    """Too many calls to that broker wait."""


class CallTooLarge(CallNotBegun):
    """The question has to be divided."""


class CallNotSent(CallNotBegun):
    """Not sent in time."""


class BrokerNotReached(CallNotBegun):
    """There is no link to that broker."""


class CallNotServed(CallNotBegun):
    """The other broker does not serve this question: another release, or not started that far."""


class CallOutcomeUnknown(CallError):
    """It may have been done, or may be done yet."""


class CallTimedOut(CallOutcomeUnknown):
    """No answer in time."""


class LinkLost(CallOutcomeUnknown):
    """The link ended between question and answer."""


class CallFailed(CallOutcomeUnknown):
    """The other broker began with it and could not end it, or its answer can not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A question or an answer."""

    BYTES_MAX: ClassVar[int] = SMALL_BYTES_MAX
    COUNTS_MAX: ClassVar[Mapping[str, int]] = {}
    """Most elements, by the name of a field that is a tuple."""

    correlation: int = 0
    """The business of the link."""

    def ids(self) -> Iterable[bytes]:
        """Return the ids of topics in it, which have 16 bytes each."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Told(Message):
    """An answer."""


ToldT = TypeVar("ToldT", bound=Told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks(Message, Generic[ToldT]):
    """A question, by the class of its answer."""

    def fits(self, answer: ToldT) -> bool:
        """Whether an answer of the right kind has exactly what is asked for."""
        del answer
        return True


class Caller(Protocol):
    """Asks brokers."""

    async def ask(self, broker_id: BrokerId, question: Asks[ToldT], *, timeout_ms: int) -> ToldT:
        """Return the answer of a broker, perhaps of this one. Raises CallError."""


def fits(question: Asks[Any], answer: Told) -> bool:
    """Whether an answer is of the kind that a question asks for, with exactly what it asks for."""
    return isinstance(answer, answer_of(type(question))) and question.fits(answer)


def answer_of(kind: type[Asks[ToldT]]) -> type[ToldT]:
    """Return the class of the answers to a kind of questions: what stands behind its Asks."""
    found = _ANSWERS.get(kind)
    if found is None:
        bases = getattr(kind, "__orig_bases__", ())
        (base,) = [one for one in bases if get_origin(one) is Asks]
        found = _ANSWERS[kind] = get_args(base)[0]
    return cast("type[ToldT]", found)


_ANSWERS: Final[dict[type[Any], type[Told]]] = {}
