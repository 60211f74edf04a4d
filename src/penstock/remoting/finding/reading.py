"""The message at a place that the index tells: read as a view by offset id reads it.

    gone, cut off by retention, of a transaction that was aborted     None
    the mastership is over, the disk can not be read                  raised

Source: handlers/at_place.py, for an answer that has many messages.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from penstock.base.errors import PlatformError
from penstock.broker.fetch.consumer import Consumer
from penstock.broker.fetch.operation import FetchOperation
from penstock.broker.fetch.partition_read import PartitionRead, WantedPartition
from penstock.record.excerpt import Part
from penstock.remoting.reading import Wanted, read_messages
from penstock.remoting.wire.message import Message, decode_messages
from penstock.storage.errors import OffsetOutOfRange

if TYPE_CHECKING:
    from penstock.remoting.filters.filtering import Messages
    from penstock.remoting.request import RemotingContext

Found = tuple[Message, bytes]
"""A message, and its bytes as they are told."""


async def read_message(context: RemotingContext, wanted: Wanted) -> Found | None:
    """Return the message at the offset that is wanted; None if there is none, or no client.

    Raises PlatformError kinds.
    """
    read = await _read_batch(context, wanted)
    if read is None:
        return None
    filtering = context.front.filtering
    told: asyncio.Future[Messages] = asyncio.get_running_loop().create_future()

    def done(found: Messages | PlatformError) -> None:
        if isinstance(found, PlatformError):
            told.set_exception(found)
        else:
            told.set_result(found)

    filtering.read(wanted.offset, read_messages(wanted, read, filtering.left_out), done)
    for encoded in (await told).encoded:
        (message,) = decode_messages(memoryview(encoded))
        if message.queue_offset == wanted.offset:
            return message, encoded
    return None


async def _read_batch(context: RemotingContext, wanted: Wanted) -> PartitionRead | None:
    """Return the batch of the offset, cut to what is needed of it; None: there is none."""
    batch = _Batch(context, wanted, asyncio.get_running_loop().create_future())
    hosted = wanted.found.hosted
    key = hosted.topic.name_bytes, hosted.partition
    operation = FetchOperation(
        context.broker,
        [PartitionRead(WantedPartition(key, wanted.offset, 1), hosted)],
        min_bytes=1,
        max_bytes=1,  # one batch
        on_done=batch.on_read,
        consumer=Consumer(
            room=context.connection,
            turn=partial(context.broker.look_ups.ask, context.connection),
            is_committed=True,
        ),
    )
    operation.on_end = batch.on_end
    operation.start(0)
    return await batch.told


class _Batch:
    """A batch that is read."""

    def __init__(
        self,
        context: RemotingContext,
        wanted: Wanted,
        told: asyncio.Future[PartitionRead | None],
    ) -> None:
        self._context = context
        self._wanted = wanted
        self._is_read = False
        self.told = told

    def on_end(self) -> None:
        """Wait no more if nothing follows in this turn: the client has gone."""
        self._context.broker.scheduler.call_soon(self._on_turn)

    def _on_turn(self) -> None:
        if not self._is_read:
            self._drop()

    def on_read(self, reads: list[PartitionRead]) -> None:
        """Cut what was read."""
        (read,) = reads
        self._is_read = True
        if isinstance(read.error, OffsetOutOfRange):
            self.told.set_result(None)
        elif read.error is not None:
            self.told.set_exception(read.error)
        else:
            excerpts, part = self._context.front.desk.excerpts, Part(self._wanted.offset, 1, 1)
            cut = partial(self._cut, read)
            excerpts.make(read, part, self._context.connection, cut, self._drop)

    def _cut(self, read: PartitionRead, error: PlatformError | None) -> None:
        if error is not None:
            self.told.set_exception(error)
        else:
            self.told.set_result(read)

    def _drop(self) -> None:
        self.told.set_result(None)
