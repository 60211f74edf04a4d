"""A failed message goes to its group's retry topic, after a delay, or to its dead letters.

Both topics are made as they are needed, in the set of the message, whatever settings say about
topics that clients ask for.

Source: ours, docs/adr/0127.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.base.errors import PlatformError
from penstock.controller.commands.topic_names import check_topic_name
from penstock.remoting.later.delayed import stamped
from penstock.remoting.later.group_topics import DEAD_LETTERS, RETRY, stored_name
from penstock.remoting.later.retries import Failed, again, dead_letter, retry_level
from penstock.remoting.sending import Done, Sent

if TYPE_CHECKING:
    from penstock.base.ids import ReplicaSetId
    from penstock.broker.partitions import HostedPartition
    from penstock.record.build import Record
    from penstock.remoting.request import RemotingContext


class Resend(NamedTuple):
    """A message that is to come again."""

    group: str
    set_id: ReplicaSetId
    record: Record
    failed: Failed


def resend(context: RemotingContext, one: Resend, done: Done) -> None:
    """Append it; `done` is called once, when that is confirmed or with why it can not be."""
    level = retry_level(one.failed)
    name = stored_name((DEAD_LETTERS if level is None else RETRY) + one.group)
    try:
        check_topic_name(name)
    except PlatformError as error:
        done(error)
        return
    kind = "dead_letter" if level is None else "retry"
    counted = partial(_count, context.front.sent_back, kind, done)
    context.front.places.use(name, one.set_id, partial(_append, context, one, level, counted))


def _append(
    context: RemotingContext,
    one: Resend,
    level: int | None,
    done: Done,
    place: HostedPartition | PlatformError,
) -> None:
    front = context.front
    if isinstance(place, PlatformError):
        done(place)
    elif level is None:
        letter = dead_letter(one.record, one.failed)
        now_ms = context.broker.clock.wall_ms()
        front.sending.add(place, Sent([stamped(letter, now_ms)], done))
    else:
        front.holding.hold(place, level, again(one.record, one.failed), done)


def _count(counts: Counter[str], kind: str, done: Done, outcome: int | PlatformError) -> None:
    counts[kind] += not isinstance(outcome, PlatformError)
    done(outcome)
