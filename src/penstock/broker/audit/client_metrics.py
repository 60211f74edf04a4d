"""Takes what clients push of their own metrics: one row for each point, in an internal topic.

    push ─► may it, now? (telemetry/instances.py) ─► unpacked within bounds, on a worker where it is
            much ─► points, a slice at a time ─► rows, which wait and are written (row_log.py)

A push is taken whole or not at all. It is answered when its rows wait: what a process holds that is
killed is lost, and so are rows that find no room, which are counted. Who calls lets few pushes in
at a time, since each may take UNPACKED bytes and ROWS_BYTES_MAX of memory.

Source: KIP-714; Kafka `ClientMetricsManager` (order of the checks, unpacked bytes bounded by the
same number as packed ones). The topic takes the place of Kafka's plug-in.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.base.errors import as_answer
from penstock.broker.audit.row_log import RowLog, Rows, RowTopic
from penstock.broker.awaited import awaited
from penstock.controller.metadata.kinds import ResourceType
from penstock.protobuf.errors import MalformedMessage, TooManyFields
from penstock.record.compression import CODEC_NAMES, NONE, Bounds, decompress
from penstock.record.errors import BatchTooLarge, RecordError
from penstock.telemetry.errors import (
    RESULTS,
    EarlyRequest,
    MalformedTelemetry,
    TelemetryError,
    TelemetryTooLarge,
    UnknownCompression,
)
from penstock.telemetry.instances import INSTANCE_BYTES, Instances
from penstock.telemetry.points import Point, read_points
from penstock.telemetry.row import Source, Writer
from penstock.telemetry.subscriptions import Asked, Subscriptions, id_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from penstock.audit.row import Who
    from penstock.broker.broker import Broker
    from penstock.broker.turns import Pace
    from penstock.controller.metadata.image import ClusterDelta
    from penstock.telemetry.port import Push

WAITING_MAX: Final = 30_000
WAITING_BYTES_MAX: Final = 8 << 20
"""Of rows that wait to be written."""
ROWS_BYTES_MAX: Final = 4 << 20
"""Of the rows of one push: a point may be a few bytes, and its row 500."""
ROW_BYTES: Final = 100
"""What a row that waits takes beside its bytes."""
HERE_BYTES: Final = 64 << 10
"""What is unpacked on the loop, at most; packed and unpacked."""
RATIO_MAX: Final = 200
"""Of unpacked to packed bytes, above HERE_BYTES, as for batches."""
TAKEN: Final = "taken"
REQUEST_RESULTS: Final = (
    ("get", TAKEN),
    ("get", EarlyRequest.RESULT),
    ("push", TAKEN),
    *(("push", result) for result in RESULTS),
)
"""What `results` counts."""

log = logging.getLogger(__name__)


class ClientMetrics(Rows):
    """See the module; one for each node that takes them."""

    def __init__(self, broker: Broker, topic: RowTopic, new_id: Callable[[], UUID]) -> None:
        """`new_id` draws random ids of client instances."""
        self._broker = broker
        self.bytes_max = broker.config.client_metrics_bytes_max
        """Of a push, packed and unpacked."""
        here = min(HERE_BYTES, self.bytes_max)
        self._unpack_here = Bounds(here, ratio_free_bytes=here)
        self.instances = Instances(new_id)
        self._rows: RowLog[bytes] = RowLog(broker, topic, bytes, WAITING_MAX)
        self._rows.on_written = self._on_written
        self._waiting_bytes = self._building_bytes = 0
        self._subscriptions = Subscriptions({})
        self._kept: Mapping[str, Mapping[str, str]] = {}
        self._is_stale = True
        self.results: dict[tuple[str, str], int] = {}
        """By request (get, push) and result, how many since the start."""
        broker.metadata.subscribe(self._on_delta)

    @property
    def pinned_bytes(self) -> int:
        """What clients pin here, approximately."""
        return self._waiting_bytes + self._building_bytes + INSTANCE_BYTES * len(self.instances)

    def get(self, given: UUID | None, client: Mapping[str, str]) -> tuple[UUID, Asked]:
        """Return the id of a client instance and what is asked of it. Raises TelemetryError."""
        instance_id, now_ms = self.instances.id_of(given), self._broker.clock.monotonic_ms()
        instance = self.instances.known(instance_id, client, self._asked_now(), now_ms)
        try:
            instance.get(now_ms)
        except TelemetryError as error:
            self._count("get", error.RESULT)
            raise
        self._count("get", TAKEN)
        return instance_id, instance.asked

    async def push(self, push: Push, who: Who, client: Mapping[str, str], pace: Pace) -> None:
        """Take what a client sends. Raises TelemetryError."""
        try:
            self._check(push, client)
            await self._take(push, who, pace)
        except TelemetryError as error:
            self._count("push", error.RESULT)
            raise
        self._count("push", TAKEN)

    def _check(self, push: Push, client: Mapping[str, str]) -> None:
        now_ms = self._broker.clock.monotonic_ms()
        given = push.instance_id
        instance = self.instances.known(given, client, self._asked_now(), now_ms)
        instance.push(now_ms, push.subscription_id, is_last=push.is_last)
        if not 0 <= push.codec < len(CODEC_NAMES):
            instance.may_ask = True
            raise UnknownCompression(push.codec)
        if len(push.metrics) > self.bytes_max:
            raise TelemetryTooLarge(f"{len(push.metrics)} bytes are more than {self.bytes_max}")

    async def _take(self, push: Push, who: Who, pace: Pace) -> None:
        """Make rows of all points, then let them wait."""
        assert push.instance_id is not None
        at_ms = self._broker.clock.wall_ms()
        source = Source(self._broker.broker_id, at_ms, id_text(push.instance_id), who)
        writer, rows, size = Writer(source), list[bytes](), 0
        plain = await self._unpacked(push.codec, push.metrics)
        try:
            for step in read_points(plain):
                if not isinstance(step, Point):
                    await pace.step(step)
                    continue
                await pace.step()
                rows.append(writer.row(step))
                size += len(rows[-1]) + ROW_BYTES
                self._building_bytes += len(rows[-1]) + ROW_BYTES
                if size > ROWS_BYTES_MAX:
                    raise TelemetryTooLarge(f"its rows take more than {ROWS_BYTES_MAX} bytes")
        except TooManyFields as error:
            raise TelemetryTooLarge(error.reason) from error
        except MalformedMessage as error:
            raise MalformedTelemetry(error.reason) from error
        finally:
            self._building_bytes -= size
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            self._rows.dropped += len(rows)
        elif self._rows.wait(*rows):
            self._waiting_bytes += size

    def _on_written(self, records: list[tuple[bytes, bytes]]) -> None:
        """Go on with the next rows: a push may have thousands, and ticks are a second apart."""
        self._waiting_bytes -= sum(len(row) + ROW_BYTES for _, row in records)
        self._broker.scheduler.call_soon(self._rows.write)

    async def _unpacked(self, codec: int, data: bytes) -> bytes:
        if codec == NONE:
            return data
        if len(data) <= HERE_BYTES:
            here = _unpacked(codec, data, self._unpack_here)
            if not isinstance(here, BatchTooLarge):
                return _whole(here)
        bounds = Bounds(self.bytes_max, RATIO_MAX, ratio_free_bytes=HERE_BYTES)
        told: asyncio.Future[tuple[bytes | RecordError | None, BaseException | None]]
        told, tell = awaited()
        work = partial(_unpacked, codec, data, bounds)
        self._broker.workers.submit(work, lambda found, failure: tell((found, failure)))
        found, failure = await told
        if failure is not None:
            raise failure
        return _whole(found)

    def _asked_now(self) -> Subscriptions:
        """Return the subscriptions as they are configured; another object once they change."""
        if self._is_stale:
            self._is_stale = False
            resources = self._broker.metadata.configuration.resources
            kept = {
                name: values
                for (kind, name), values in resources.items()
                if kind is ResourceType.CLIENT_METRICS
            }
            if kept != self._kept:
                self._kept, self._subscriptions = kept, Subscriptions(kept)
                if self._subscriptions.left_out:
                    names = ", ".join(self._subscriptions.left_out[:10])
                    log.warning("client metrics that do not count: %s", names)
        return self._subscriptions

    def _on_delta(self, _: ClusterDelta) -> None:
        self._is_stale = True

    def expire(self, now_ms: int) -> None:
        """Forget instances that are idle, and write some of what waits."""
        self.instances.expire(now_ms)
        self._rows.write()

    def end(self) -> None:
        """Write what waits, as the process stops; each tick writes some of it."""
        self._rows.write()

    def _count(self, request: str, result: str) -> None:
        self.results[request, result] = self.results.get((request, result), 0) + 1


def _unpacked(codec: int, data: bytes, bounds: Bounds) -> bytes | RecordError:
    """Return the bytes, or why there are none; also called on a worker."""
    try:
        return bytes(decompress(codec, memoryview(data), bounds))
    except RecordError as error:
        error.__cause__ = error.__context__ = None  # their frames hold the memory
        return as_answer(error)


def _whole(found: bytes | RecordError | None) -> bytes:
    if isinstance(found, BatchTooLarge):
        raise TelemetryTooLarge(str(found))
    if isinstance(found, RecordError):
        raise MalformedTelemetry(str(found))
    assert found is not None
    return found
