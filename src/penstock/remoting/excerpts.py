"""What was read of a partition becomes what its reader needs of it: on the loop, or by a worker.

    read ─► little work ─► excerpt in its place ─► told
        └─► much ─► its turn (broker/look_ups.py) ─► a worker ─► excerpt in its place ─► told
                └─► the client has gone ─► drop()

A batch that a worker has to unpack is in memory until its turn has come, and counts as what its
client pins. What can not be read is counted, and told in the log with its topic, partition and
offsets, at most one line a second; consumers go on behind it.

Source: ours (record/excerpt.py). Kafka's clients stop at such a batch, RocketMQ has no batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from penstock.base.errors import PlatformError
from penstock.broker.fetch.consumer import Room
from penstock.record.compression import READER_BOUNDS, Bounds
from penstock.record.excerpt import Excerpt, Part, excerpt_here, excerpt_of

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.fetch.partition_read import PartitionRead

log = logging.getLogger(__name__)

LOGGED_MS: Final = 1_000

Told = Callable[[PlatformError | None], None]
"""Called once, with why there is no excerpt, if so."""


class Reader(Room, Protocol):
    """Who wants to read: a connection, or a call on one."""

    client_host: str

    def has_gone(self) -> bool:
        """Whether nobody waits for the answer any more."""

    def abort(self) -> None:
        """End the connection now."""


class Excerpts:
    """See the module; one for each broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.unreadable = 0
        """Batches that readers have stepped over; each reader counts."""
        self._logged_ms = -LOGGED_MS

    def make(
        self,
        read: PartitionRead,
        part: Part,
        client: Reader | None,
        told: Told,
        drop: Callable[[], None],
    ) -> None:
        """Put an excerpt in the place of what was read, now or later.

        Without a client, for work of the broker's own, it waits for no turn.
        """
        data = memoryview(b"".join(read.buffers))
        try:
            made = excerpt_here(data, part)
        except PlatformError as error:
            told(error)
            return
        if made is not None:
            self._take(read, made)
            told(None)
            return
        read.buffers = [data]
        if client is None:
            self._begin(read, part, told, _nothing)
            return
        client.keep(len(data))

        def let_go(then: Callable[[], None]) -> None:
            client.let_go(len(data))
            then()

        def ended(error: PlatformError | None) -> None:
            let_go(partial(told, error))

        begin = partial(self._begin, read, part, ended)
        self._broker.look_ups.ask(client, begin, partial(let_go, drop))

    def _begin(self, read: PartitionRead, part: Part, told: Told, over: Callable[[], None]) -> None:
        assert read.hosted is not None, "it was read"
        (data,) = read.buffers
        most = max(read.hosted.topic.rules.bounds.output_bytes_max, READER_BOUNDS.output_bytes_max)
        work = partial(excerpt_of, data, part, Bounds(most, ratio_max=READER_BOUNDS.ratio_max))

        def done(made: Excerpt | None, error: BaseException | None) -> None:
            over()
            if made is not None:
                self._take(read, made)
                told(None)
            elif isinstance(error, PlatformError):
                told(error)
            else:
                assert error is not None, "a worker has a result or an error"
                raise error

        self._broker.workers.submit(work, done)

    def _take(self, read: PartitionRead, made: Excerpt) -> None:
        read.buffers = [made.data]
        if not made.unreadable:
            return
        self.unreadable += len(made.unreadable)
        now_ms = self._broker.clock.monotonic_ms()
        if now_ms - self._logged_ms < LOGGED_MS:
            return
        self._logged_ms = now_ms
        hosted, one = read.hosted, made.unreadable[0]
        assert hosted is not None, "it was read"
        log.warning(
            "topic=%s partition=%d offsets=%d-%d can not be read, consumers go on behind them: %s",
            hosted.topic.name,
            hosted.partition,
            one.first,
            one.last,
            one.reason,
        )


def _nothing() -> None:
    """No turn is over."""
