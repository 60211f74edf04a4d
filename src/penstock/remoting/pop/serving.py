"""Requests about popped messages: which share they mean, and work that goes on after their turn.

    run ─► PlatformError      its code and text, as of every request (dispatch.py)
        ─► anything else      a bug: logged with its traceback, counted; the connection is closed

Source: ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.invariant import InvariantViolation
from penstock.broker.access import Operation, Resource
from penstock.broker.coordinators.share_policies import share_group
from penstock.remoting.errors import MalformedBody
from penstock.remoting.gate import check, find_topic, led_queue
from penstock.remoting.later.group_topics import retry_group
from penstock.shares.state import ShareKey

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedPartition, HostedTopic
    from penstock.remoting.request import RemotingContext, Reply

log = logging.getLogger(__name__)


class Popped(NamedTuple):
    """A queue, and the share that a group has of it."""

    hosted: HostedPartition
    key: ShareKey


def popped_topic(context: RemotingContext, group: str, name: str) -> HostedTopic:
    """Return a topic that a group pops, if the client may. Raises what is told to the client."""
    topic = find_topic(context, name, Operation.READ)
    check(context, Operation.READ, Resource.GROUP, group)
    size = len(share_group(group).encode())
    if not group or size > context.broker.groups.config.group_id_bytes_max:
        raise MalformedBody(f"a group's name of {len(group.encode())} bytes")
    if retry_group(name) is not None:
        raise MalformedBody("retry topics are pulled, and not popped")
    return topic


def share_of(
    context: RemotingContext, group: str, name: str, broker_name: str | None, queue_id: int
) -> Popped:
    """Return a queue that is led here, and its share. Raises what is told to the client."""
    topic = popped_topic(context, group, name)
    if queue_id < 0:
        raise MalformedBody("it names no queue")
    found = led_queue(context, topic, broker_name, queue_id)
    return Popped(found.hosted, key_of(group, found.hosted))


def key_of(group: str, hosted: HostedPartition) -> ShareKey:
    """Return the share that a group has of a queue."""
    return ShareKey(share_group(group), bytes(hosted.topic.topic_id), hosted.partition)


def serve(
    context: RemotingContext, name: str, reply: Reply, work: Coroutine[Any, Any, None]
) -> None:
    """Run the rest of a request; it ends with `reply`."""
    context.front.spawn(name, _run(context, reply, work))


async def ended(work: Coroutine[Any, Any, None], over: Callable[[], None]) -> None:
    """Do some work whose turn has come (broker/look_ups.py), and tell when it is over."""
    try:
        await work
    finally:
        over()


async def _run(context: RemotingContext, reply: Reply, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except InvariantViolation:
        raise
    except PlatformError as error:
        reply.fail(error)
    except Exception:
        log.exception("client: %s; unhandled", context.host)
        context.front.broker.stats.count_request_error("unhandled")
        reply.end()
        context.connection.close("internal error")
