"""Passes frames of remoting clients to handlers, and maps what these raise to answers.

    malformed frame          the connection is closed and counted
    not signed as it has to  NO_PERMISSION, and the connection is closed (signed.py)
    unknown code             REQUEST_CODE_NOT_SUPPORTED, with which clients go on
    PlatformError            its code (error_map.py) and its text as remark
    any other exception      a bug: logged with its traceback, counted; the connection is closed
    InvariantViolation       the node stops: its state can not be trusted

A client may have so many requests unanswered, else it is told to come back: its pulls wait without
holding the connection.

Source: RocketMQ `NettyRemotingAbstract.processRequestCommand`.
"""

import logging
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Final

from penstock.base.errors import PlatformError
from penstock.base.invariant import InvariantViolation
from penstock.broker.metering import Kind, RequestMeter
from penstock.net.connection import Connection
from penstock.remoting.config import LISTENER_NAME
from penstock.remoting.errors import MalformedBody, MalformedFrame
from penstock.remoting.front import OTHER, RemotingFront
from penstock.remoting.handlers import (
    acks,
    assignments,
    clients,
    end_transaction,
    locks,
    offsets,
    pop,
    pull,
    recall,
    routes,
    search,
    send,
    send_back,
)
from penstock.remoting.handlers.admin import (
    broker_progress,
    brokers,
    change_brokers,
    change_groups,
    change_topics,
    groups,
    known_groups,
    progress,
    query,
    reset,
    running,
    topics,
    view,
)
from penstock.remoting.needs import NEEDS
from penstock.remoting.operating.refusals import why_not_served
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.signed import NOT_SIGNED, SignedClient
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.frame import decode_frame

log = logging.getLogger(__name__)

UNANSWERED_MAX: Final = 20_000
"""Requests of one connection. A consumer has one pull for each of its queues, and an asynchronous
producer of Java 10,000 sends at most; each takes about 1 KiB beside its message."""

BODY_BYTES_MAX: Final = 1 << 20
"""Of requests without messages: some milliseconds of JSON. A lock of 2,000 queues has 0.7 MB with
names of the greatest length."""

LENGTH_BYTES: Final = 4
"""Before each frame."""
KINDS: Final[Mapping[int, Kind]] = {
    **dict.fromkeys(send.CODES, Kind.SEND),
    **dict.fromkeys(pull.CODES, Kind.READ),
    RequestCode.POP_MESSAGE: Kind.READ,
    RequestCode.VIEW_MESSAGE_BY_ID: Kind.READ,
    RequestCode.QUERY_MESSAGE: Kind.READ,
}
"""Of which requests and answers the bytes count against quotas."""

Handle = Callable[[RemotingContext, Command, Reply], None]
_MODULES: Final[tuple[ModuleType, ...]] = (
    acks,
    assignments,
    broker_progress,
    brokers,
    change_brokers,
    change_groups,
    change_topics,
    clients,
    end_transaction,
    groups,
    known_groups,
    locks,
    offsets,
    pop,
    progress,
    pull,
    query,
    recall,
    reset,
    routes,
    running,
    search,
    send,
    send_back,
    topics,
    view,
)


class RemotingDispatcher:
    """See the module; one for each front."""

    def __init__(self, front: RemotingFront) -> None:
        self._front = front
        self._handlers: dict[int, Handle] = {
            code: module.handle for module in _MODULES for code in module.CODES
        }
        stats = front.broker.stats
        self._turns = {
            code: stats.turns_of(LISTENER_NAME, RequestCode(code).name) for code in self._handlers
        }
        missing = self._handlers.keys() - NEEDS.keys()
        assert not missing, f"{missing}: without rows in remoting/needs.py"

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        """Handle one whole frame (without its length field)."""
        guard = connection.guard
        if guard is not None and not guard.lets(frame):
            return
        try:
            command = decode_frame(frame)
        except MalformedFrame as error:
            self._front.broker.stats.count_request_error("MalformedFrame")
            connection.close(str(error))
            return
        if command.is_answer:
            self._front.questions.answered(connection, command)
            return
        is_known = not isinstance(guard, SignedClient) or guard.knows(command)
        context = connection.state
        if context is None:
            context = connection.state = RemotingContext(self._front, connection)
        self._front.requests[command.code if command.code in self._handlers else OTHER] += 1
        context.meter = self._meter(context, command, len(frame)) if is_known else None
        reply = Reply(context, command, len(frame))
        handle = self._handlers.get(command.code)
        if not is_known:
            reply(code=ResponseCode.NO_PERMISSION, remark=NOT_SIGNED)
        elif handle is None:
            told = why_not_served(command.code)
            reply(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=told)
        elif context.unanswered > UNANSWERED_MAX:
            reply(code=ResponseCode.SYSTEM_BUSY, remark="too many requests are unanswered")
        elif len(command.body) > BODY_BYTES_MAX and command.code not in send.CODES:
            told = f"a body of {len(command.body)} bytes, at most {BODY_BYTES_MAX}"
            reply.fail(MalformedBody(told))
        else:
            self._call(handle, context, command, reply)
        if context.meter is not None:
            context.meter.handled()
            context.meter = None

    def _meter(self, context: RemotingContext, command: Command, size: int) -> RequestMeter | None:
        """Return what counts the request; None where nothing is counted."""
        broker = self._front.broker
        if broker.quotas is None and broker.audit is None:
            return None
        context.software = f"rocketmq-{command.language.lower()}", str(command.version)
        is_served = command.code in self._handlers
        operation = RequestCode(command.code).name.lower() if is_served else "not_supported"
        kind = KINDS.get(command.code, Kind.OTHER)
        return RequestMeter(broker, context, operation, kind, LENGTH_BYTES + size)

    def _call(
        self, handle: Handle, context: RemotingContext, command: Command, reply: Reply
    ) -> None:
        clock, turns = self._front.broker.clock, self._turns[command.code]
        begun_us = clock.monotonic_us()
        try:
            handle(context, command, reply)
        except InvariantViolation:
            raise
        except PlatformError as error:
            reply.fail(error)
        except Exception:
            log.exception("code=%d client: %s; unhandled", command.code, context.host)
            self._front.broker.stats.count_request_error("unhandled")
            context.connection.close("internal error")
        finally:
            turns.note(clock.monotonic_us() - begun_us)
