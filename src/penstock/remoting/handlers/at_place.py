"""The one message at a place: its batch is read, and cut to an excerpt that holds it.

    fetch of one batch ─► reply.begin() ─► excerpt, here or by a worker ─► told
                      └─► an error is answered

Source: ours (broker/fetch, excerpts.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.base.errors import PlatformError
from penstock.broker.fetch.consumer import Consumer
from penstock.broker.fetch.operation import FetchOperation
from penstock.broker.fetch.partition_read import PartitionRead, WantedPartition
from penstock.record.excerpt import Part

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedPartition
    from penstock.remoting.request import RemotingContext, Reply

Told = Callable[[PartitionRead, PlatformError | None], None]
"""What was read, and why there is no excerpt of it, if so; it may be empty."""


def read_at(
    context: RemotingContext,
    hosted: HostedPartition,
    offset: int,
    reply: Reply,
    told: Told,
    *,
    is_committed: bool,
) -> None:
    """Call `told` once, unless the read fails: then the client is answered."""
    part = WantedPartition((hosted.topic.name_bytes, hosted.partition), offset, 1)
    operation = FetchOperation(
        context.broker,
        [PartitionRead(part, hosted)],
        min_bytes=1,
        max_bytes=1,  # one batch
        on_done=partial(_on_read, context, reply, told),
        consumer=Consumer(
            room=context.connection,
            turn=partial(context.broker.look_ups.ask, context.connection),
            is_committed=is_committed,
        ),
    )
    operation.on_end = reply.end
    operation.start(0)


def _on_read(
    context: RemotingContext, reply: Reply, told: Told, reads: list[PartitionRead]
) -> None:
    (read,) = reads
    reply.begin()
    if read.error is not None:
        reply.fail(read.error)
        return
    part = Part(int(read.wanted.fetch_offset), 1, 1)
    excerpts = context.front.desk.excerpts
    excerpts.make(read, part, context.connection, partial(told, read), reply.end)
