"""Dispatches a frame to its handler, and maps errors of a handler to an answer or a close.

    bad header, unknown API or version    the connection is closed and counted (as in Kafka)
    MalformedRequest from a decoder       the same
    PlatformError from a handler          the same: a handler answers expected errors itself
    any other exception from a handler    a bug: logged with its traceback, counted as
                                          `unhandled`; only this connection is closed
    InvariantViolation                    the node stops: its state cannot be trusted

This module has no rules of its own. No view of a frame may be kept after `on_frame` returns, as the
receive buffer is reused.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.base.errors import PlatformError
from penstock.base.invariant import InvariantViolation
from penstock.broker.api_stats import ApiStats, Measure
from penstock.broker.turns import Pace
from penstock.kafka.audited import audited
from penstock.kafka.context import RequestContext, context_of
from penstock.kafka.long_requests import LONG_FRAME_BYTES, LongRequests
from penstock.kafka.registry import Api
from penstock.kafka.request import Reply, Request
from penstock.kafka.throttled import reply_of
from penstock.net.connection import Connection
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.compiled import parse_produce_run, parse_request_header
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.errors import WireError
from penstock.protocol.header import RequestHeader
from penstock.protocol.messages import decode_request

if TYPE_CHECKING:
    from penstock.kafka.front import KafkaFront

log = logging.getLogger(__name__)

TASK_FRAME_BYTES = 512
"""A larger request that can be cut into slices and may wait, or is heavy, is a long one. The work
of one that waits counts, up to its first wait, in the loop iteration that reads it; what follows
is not counted, and runs beside other requests."""

SIZE_BYTES = 4
"""Size field of each frame: counted bytes are those on the wire."""


class Dispatcher:
    """Passes frames of all connections to the handlers of one broker."""

    def __init__(self, front: "KafkaFront") -> None:
        broker = front.broker
        self._front = front
        self._broker = broker
        self._apis = apis = front.apis
        self._spawn = front.spawn
        self._begin = front.begin
        self._clock = broker.clock
        self._stats = {key: ApiStats(api.name) for key, api in apis.items()}
        self._produce = apis.get(ApiKey.PRODUCE)
        self._long = LongRequests(front)
        front.run_long = self._run_long
        front.tell_long = self._tell_long
        broker.stats.by_api = self._stats

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        """Handle one whole request frame (without its length field)."""
        guard = connection.guard
        if guard is not None and not guard.lets(frame):
            return
        started_us = self._clock.monotonic_us()
        try:
            header = parse_request_header(frame)
        except WireError as error:
            self._refuse(connection, error)
            return
        key, version, _, _, _ = header
        api = self._apis.get(key)
        if api is None or not api.min_version <= version <= api.max_version:
            self._on_unsupported(connection, header, started_us)
            return
        context = context_of(self._front, connection, header.client_id)
        stats, broker = self._stats[key], self._broker
        audit = broker.audit
        measure: Measure = stats if audit is None else audited(audit.fold, context, stats, api)
        size, clock, quotas = len(frame) + SIZE_BYTES, self._clock, broker.quotas
        measure.received(size)
        reply = (
            Reply(connection, header, clock, measure, started_us)
            if quotas is None
            else reply_of(quotas, context, connection, header, clock, measure, started_us, size)
        )
        try:
            if api.is_raw:
                api.handle(context, header, frame, reply)
            else:
                self._decode_and_call(api, context, header, frame, reply)
        except InvariantViolation:
            raise
        except PlatformError as error:
            stats.errors += 1
            self._refuse(connection, error)
        except Exception as error:  # noqa: BLE001  one request's bug must not end the others
            stats.errors += 1
            self._on_bug(connection, api, error)
        else:
            if reply.is_timed:
                reply.handled()

    def on_run(
        self, connection: Connection, memory: memoryview, at: int, end: int, most: int
    ) -> tuple[int, int]:
        """Handle the produce requests from `at` on that belong together (`OnRun` in net/context).

        A refused batch is answered in its partition; an exception of a handler is a bug, as above.
        """
        api = self._produce
        if connection.guard is not None:
            return 0, at
        run = parse_produce_run(memory, at, end, most) if api is not None else None
        if api is None or api.handle_run is None or run is None:
            return 0, at
        stats = self._stats[ApiKey.PRODUCE]
        started_us = self._clock.monotonic_us()
        context = context_of(self._front, connection, run.header.client_id)
        audit = self._broker.audit
        measure: Measure = stats if audit is None else audited(audit.fold, context, stats, api)
        owe: Callable[[int], Reply] = partial(
            Reply, connection, run.header, self._clock, measure, started_us
        )
        quotas = self._broker.quotas
        if quotas is not None:

            def owe_throttled(count: int) -> Reply:
                size = run.requests[count - 1].end - at
                rest = (run.header, self._clock, measure, started_us, size, count)
                return reply_of(quotas, context, connection, *rest)

            owe = owe_throttled
        try:
            reply = api.handle_run(context, memory, run, owe)
        except InvariantViolation:
            raise
        except Exception as error:  # noqa: BLE001  one connection's bug must not end the others
            taken = run.requests[0].end
            measure.received(taken - at)
            stats.errors += 1
            self._on_bug(connection, api, error)
            return 1, taken
        if reply is None:
            return 0, at
        taken = run.requests[reply.count - 1].end
        measure.received(taken - at, reply.count)
        if reply.is_timed:
            reply.handled()
        return reply.count, taken

    def _decode_and_call(
        self,
        api: Api,
        context: RequestContext,
        header: RequestHeader,
        frame: memoryview,
        reply: Reply,
    ) -> None:
        connection = reply.connection
        is_cut = api.is_heavy or (api.is_async and bool(api.sliced_by))
        most = TASK_FRAME_BYTES if is_cut else LONG_FRAME_BYTES
        if len(frame) > most or api.is_long:
            work = self._long.answer(api, context, header, bytes(frame), reply)
            self._run_long(reply, header, len(frame), work)
            return
        body = decode_request(api.key, header.api_version, frame, header.body_at)
        request = Request(header.api_version, body, connection)
        if api.is_much is not None and api.is_much(context, body):
            self._run_long(reply, header, 0, self._long.answer_much(api, context, request, reply))
        elif api.is_async:
            request.turns = self._broker.turns
            work = self._answer_later(api, context, request, reply)
            self._begin(api.name, self._watched(api, connection, work))
        else:
            api.handle(context, request, reply)

    def _run_long(
        self,
        reply: Reply,
        header: RequestHeader,
        held_bytes: int,
        work: Coroutine[Any, Any, None],
    ) -> None:
        """Run the work for a request while its connection is held (`RunLong` in front.py)."""
        api = self._apis[header.api_key]
        reply.connection.hold(held_bytes)
        self._spawn(api.name, self._guarded(api, reply, held_bytes, work))

    async def _guarded(
        self, api: Api, reply: Reply, held_bytes: int, work: Coroutine[Any, Any, None]
    ) -> None:
        try:
            await self._watched(api, reply.connection, work)
        finally:
            reply.connection.go_on(held_bytes)

    def _tell_long(
        self, reply: Reply, make: Callable[[Pace], Coroutine[Any, Any, Mapping[str, Any]]]
    ) -> None:
        """Create a long answer and send it in slices (`TellLong` in front.py)."""
        api = self._apis[reply.api_key]
        work = self._long.tell(reply, make)
        self._spawn(api.name, self._watched(api, reply.connection, work))

    async def _answer_later(
        self, api: Api, context: RequestContext, request: Request, reply: Reply
    ) -> None:
        answer = await api.handle(context, request)
        if isinstance(answer, bytes):
            reply.raw(answer)
        else:
            reply(answer)

    async def _watched(
        self, api: Api, connection: Connection, work: Coroutine[Any, Any, None]
    ) -> None:
        """Run work whose errors close its connection and have no other effect."""
        try:
            await work
        except InvariantViolation:
            raise
        except PlatformError as error:
            self._stats[api.key].errors += 1
            self._refuse(connection, error)
        except Exception as error:  # noqa: BLE001  one request's bug must not end the others
            self._stats[api.key].errors += 1
            self._on_bug(connection, api, error)

    def _on_unsupported(
        self, connection: Connection, header: RequestHeader, started_us: int
    ) -> None:
        """Answer an unknown version of ApiVersions in version 0; close for any other API."""
        api = self._apis.get(header.api_key)
        if api is None or header.api_key != ApiKey.API_VERSIONS:
            name = api.name if api else "key"
            reason = f"unsupported {name} {header.api_key} version {header.api_version}"
            self._broker.stats.count_request_error("UnsupportedVersion")
            connection.close(reason)
            return
        lowest = header._replace(api_version=0)
        reply = Reply(connection, lowest, self._clock, self._stats[api.key], started_us)
        versions = [
            {"api_key": key, "min_version": first, "max_version": last}
            for key, first, last in self._front.api_versions()
        ]
        reply({"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": versions})

    def _refuse(self, connection: Connection, error: PlatformError) -> None:
        self._broker.stats.count_request_error(type(error).__name__)
        connection.close(str(error))

    def _on_bug(self, connection: Connection, api: Api, error: Exception) -> None:
        client = connection.state or connection.client_host
        log.error("api=%s client: %s; unhandled", api.name, client, exc_info=error)
        self._broker.stats.count_request_error("unhandled")
        connection.close("internal error")
