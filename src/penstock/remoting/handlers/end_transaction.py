"""END_TRANSACTION: the producer of a half message commits it, or rolls it back.

Answered when the decision is confirmed; clients send it one-way, and a decision that is lost on its
way is asked for later (halves/checking.py). What contradicts an earlier decision is refused, an
equal one succeeds and changes nothing.

A half message is named by its locator and its number, which both were told to its sender, and has
to be of the same group, topic and message id.

Source: RocketMQ `EndTransactionProcessor`, `EndTransactionRequestHeader`. Departures: a second
decision is none; `CHECK_IMMUNITY_TIME_IN_SECONDS` puts off checks and refuses no decision; a
request that says that the outcome is unknown is answered.
"""

from functools import partial
from typing import Final

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation, Resource
from penstock.broker.partitions import HostedPartition, HostedTopic
from penstock.remoting.errors import MalformedBody, MessageGone, WrongHalf
from penstock.remoting.fields import number, text
from penstock.remoting.gate import check
from penstock.remoting.halves.record import Outcome
from penstock.remoting.halves.work import Decide
from penstock.remoting.ids import located
from penstock.remoting.later.group_topics import stored_name
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command

CODES: Final = (RequestCode.END_TRANSACTION,)
_UNKNOWN: Final = 0
_OUTCOMES: Final = {8: Outcome.COMMIT, 12: Outcome.ROLLBACK}


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Decide the half message. Raises what is told to the client."""
    told = number(command, "commitOrRollback")
    outcome = _OUTCOMES.get(told)
    if outcome is None and told != _UNKNOWN:
        raise MalformedBody(f"{told} is neither commit (8), rollback (12) nor unknown (0)")
    group = text(command, "producerGroup")
    place, half_number = _place(context, command)
    halves = context.front.halves
    _check_topic(context, command, halves.topic_of(place, half_number))
    found = halves.find(place, half_number)
    if found is not None and found.half.group != group:
        raise WrongHalf("the half message is of another producer group")
    if outcome is None:
        reply()
        return
    message_id = command.fields.get("msgId", "")
    work = Decide(half_number, outcome, partial(_answer, reply), message_id)
    halves.end(place, work)


def _place(context: RemotingContext, command: Command) -> tuple[HostedPartition, int]:
    """Return where half messages of the set are, and the number that the client tells."""
    place = located(number(command, "commitLogOffset"))
    half_number = number(command, "tranStateTableOffset")
    if place is None or place.is_retry:
        raise MessageGone("the commit log offset is that of no half message")
    if place.offset != half_number:
        raise WrongHalf("commit log offset and transaction state table offset are of two messages")
    return context.front.halves.place(place.partition), half_number


def _check_topic(context: RemotingContext, command: Command, topic: HostedTopic | None) -> None:
    """Check that the client may decide what is of this topic, or hear how it was decided.

    Raises WrongHalf, TopicNotAuthorised.
    """
    told = command.fields.get("topic")
    name = None if told is None else stored_name(told)
    asked = topic.name if topic is not None else name
    if asked is not None:
        check(context, Operation.WRITE, Resource.TOPIC, asked)
    if topic is not None and name is not None and name != topic.name:
        raise WrongHalf("the half message is of another topic")


def _answer(reply: Reply, outcome: int | PlatformError) -> None:
    if isinstance(outcome, PlatformError):
        reply.fail(outcome)
    else:
        reply()
