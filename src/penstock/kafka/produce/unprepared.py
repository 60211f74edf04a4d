"""A produce request that takes more than one iteration of the event loop.

    append ─► a batch needs a worker ─► connection held, frame copied ─► worker ─► append the rest
                     ▲                                                                │
                     └──────────────── the next one that needs a worker ◄─────────────┘

    append ─► BATCHES_HERE of them ─► the same, with another loop iteration instead of a worker

The connection is not read meanwhile, so that the batches of a producer keep their order in every
partition, and a connection has one batch in work at most. A request whose connection has closed is
dropped, unless it asked for no answer: such a producer may send its last batch and disconnect.

What is done to a batch, and which one needs a worker, is decided elsewhere (preparation.py).
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from penstock.base.errors import PlatformError, as_answer
from penstock.broker.append.batch_rules import BatchRules
from penstock.broker.append.preparation import Prepared, prepare
from penstock.broker.partitions import HostedPartition
from penstock.kafka.context import RequestContext
from penstock.kafka.request import Reply
from penstock.protocol.produce import PartitionAnswer, PartitionData, ProduceRequest
from penstock.replica.replica_set import ReplicaSetMember

log = logging.getLogger(__name__)

BATCHES_HERE = 100
"""Batches appended in one iteration: some 0.6 ms, and 3.5 ms if each has a new producer."""

PreparedOrError = Prepared | PlatformError


class Appended:
    """Result for the first parts of a request: answers, sets that got batches, any refused."""

    __slots__ = ("answers", "has_errors", "members")

    def __init__(
        self, answers: list[PartitionAnswer], members: list[ReplicaSetMember], has_errors: bool
    ) -> None:
        self.answers = answers
        self.members = members
        self.has_errors = has_errors

    def add(self, more: "Appended") -> None:
        """Add the result for the parts after these."""
        self.answers += more.answers
        self.members += [member for member in more.members if member not in self.members]
        self.has_errors = self.has_errors or more.has_errors


Find = Callable[[bytes, int], HostedPartition]
"""Returns the partition to write to, by the topic's key in the request. Raises PlatformError if
there is none, or the client may not write to it."""
Append = Callable[[memoryview, list[PartitionData], PreparedOrError | None], Appended]
"""Appends the parts in order, up to one that a worker has to prepare, or to the end of the
iteration; the first may be prepared."""


class UnpreparedProduce:
    """See the module."""

    __slots__ = (
        "_append",
        "_appended",
        "_broker",
        "_ended",
        "_find",
        "_finish",
        "_is_held",
        "_memory",
        "_reply",
        "_request",
    )

    def __init__(  # noqa: PLR0913  what it is made of, and what is called
        self,
        context: RequestContext,
        reply: Reply,
        request: ProduceRequest,
        *,
        find: Find,
        append: Append,
        finish: Callable[[Appended], None],
        ended: Callable[[], None] | None,
    ) -> None:
        """`finish` is called once, when every part is appended or refused.

        `ended` is called once, after that or when the request is dropped.
        """
        self._ended = ended
        self._broker = context.broker
        self._reply = reply
        self._request = request
        self._find = find
        self._append = append
        self._finish = finish
        self._is_held = False
        self._memory = memoryview(b"")
        self._appended = Appended([], [], False)

    def start(self, frame: memoryview, appended: Appended, *, is_held: bool) -> None:
        """Continue after the appended parts; the frame is copied if its memory is reused.

        `is_held`: the connection is held by whoever `ended` tells, and the frame is its own.
        """
        self._memory = frame
        self._appended = appended
        self._is_held = is_held
        if not is_held:
            self._memory = memoryview(bytearray(frame))
            self._reply.connection.hold(len(frame))
        self._carry_on(len(appended.answers))

    def _carry_on(self, count: int) -> None:
        """Continue after `count` batches in this iteration, in the next one or on a worker."""
        if count < BATCHES_HERE:
            self._prepare_next()
            return
        turn = asyncio.ensure_future(self._broker.turns.next())
        turn.add_done_callback(self._on_turn)

    def _on_turn(self, turn: "asyncio.Future[None]") -> None:
        if turn.cancelled() or self._is_dropped():
            self._end()
            return
        self._go_on(None)

    def _prepare_next(self) -> None:
        topic, partition, start, end = self._request.partitions[len(self._appended.answers)]
        try:
            hosted = self._find(topic, partition)
        except PlatformError as error:
            self._go_on(error)
            return
        now_ms = self._broker.clock.wall_ms()
        work = partial(self._work, self._memory[start:end], hosted.topic.rules, now_ms)
        self._broker.workers.submit(work, self._on_prepared)

    def _work(self, records: memoryview, rules: BatchRules, now_ms: int) -> PreparedOrError | None:
        """Run on a worker; None if the request is no longer wanted."""
        if self._is_dropped():
            return None
        try:
            return prepare(records, rules, now_ms)
        except PlatformError as error:
            # Its frames refer to the decompressed bytes, and form a cycle once it is raised again.
            error.__cause__ = error.__context__ = None
            return as_answer(error)

    def _on_prepared(self, result: PreparedOrError | None, failure: BaseException | None) -> None:
        if failure is not None:
            log.error("api=produce client=%s unhandled", self._client, exc_info=failure)
            self._broker.stats.count_request_error("unhandled")
            self._reply.close("internal error")
        if result is None or self._is_dropped():
            self._end()
            return
        self._go_on(result)

    def _go_on(self, result: PreparedOrError | None) -> None:
        begin = len(self._appended.answers)
        left = self._request.partitions[begin : begin + BATCHES_HERE]
        more = self._append(self._memory, left, result)
        self._appended.add(more)
        if len(self._appended.answers) < len(self._request.partitions):
            self._carry_on(len(more.answers))
            return
        self._finish(self._appended)
        self._end()

    def _end(self) -> None:
        if self._ended is not None:
            self._ended()
        if not self._is_held:
            self._reply.connection.go_on(len(self._memory))

    def _is_dropped(self) -> bool:
        return self._request.acks != 0 and self._reply.connection.has_gone()

    @property
    def _client(self) -> str:
        return self._reply.connection.client_host
