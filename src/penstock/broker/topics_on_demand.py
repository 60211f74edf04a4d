"""Creation of missing topics that a request needs.

    request ─► create(names) ─► one command for the topics not being created ─► wait WAIT_MS
                                        └─► continues after the request has been answered

A connection answers in order, so that the next requests of its client, including its records, wait
for this one. A command lasts until its time-out (controller.command_timeout_ms) while no controller
answers, so the request waits for a part of that only, and further requests are answered at once
that they should retry.

Source: Kafka `AutoTopicCreationManager`, which does not wait at all; clients then retry after their
backoff, even if the topic exists a few milliseconds later.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from penstock.broker.submitting import submit
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.controller.errors import (
    MetadataError,
    MetadataQueueFull,
    MetadataTimeout,
    TopicExists,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from penstock.broker.broker import Broker

WAIT_MS = 1_000
"""From the start of the command. With live controllers it takes a few milliseconds."""
UNDER_WAY_MAX = 1_000
"""Topics that are being created at one time for all clients."""
_STILL_OPEN = MetadataTimeout(WAIT_MS)
log = logging.getLogger(__name__)


class _Attempt:
    """One command in progress."""

    __slots__ = ("began_ms", "error_of", "over")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.over = asyncio.Event()
        self.error_of: Mapping[str, MetadataError | None] = {}


class TopicsOnDemand:
    """Creates each missing topic once, however many requests need it at the same time."""

    __slots__ = ("_broker", "_spawn", "_under_way")

    def __init__(
        self, broker: Broker, spawn: Callable[[str, Coroutine[Any, Any, None]], None]
    ) -> None:
        """`spawn(name, coroutine)` runs a command under supervision."""
        self._broker = broker
        self._spawn = spawn
        self._under_way: dict[str, _Attempt] = {}

    async def create(
        self, topics: Iterable[NewTopic], *, is_internal: bool = False
    ) -> dict[str, MetadataError | None]:
        """Return the outcome by name: None if created, MetadataTimeout if that is still open,
        MetadataQueueFull if too many are being created.
        """
        wanted = {topic.name: topic for topic in topics}
        self._begin([wanted[name] for name in wanted if name not in self._under_way], is_internal)
        attempts = {name: self._under_way.get(name) for name in wanted}
        async with self._broker.long_places.away():
            for attempt in attempts.values():
                if attempt is not None:
                    await self._wait(attempt)
        return {name: _outcome(name, attempt) for name, attempt in attempts.items()}

    def _begin(self, topics: list[NewTopic], is_internal: bool) -> None:
        topics = topics[: UNDER_WAY_MAX - len(self._under_way)]
        if not topics:
            return
        attempt = _Attempt(self._broker.clock.monotonic_ms())
        self._under_way.update((topic.name, attempt) for topic in topics)
        command = CreateTopics(topics=tuple(topics), internal=is_internal)
        self._spawn("topics on demand", self._run(attempt, command))

    async def _run(self, attempt: _Attempt, command: CreateTopics) -> None:
        names = [topic.name for topic in command.topics]
        try:
            outcomes = await submit(self._broker, command)
            if isinstance(outcomes, MetadataError):
                attempt.error_of = dict.fromkeys(names, outcomes)
            else:
                attempt.error_of = {outcome.name: outcome.error for outcome in outcomes}
            if command.internal:
                _tell(attempt.error_of)
        finally:
            for name in names:
                del self._under_way[name]
            attempt.over.set()

    async def _wait(self, attempt: _Attempt) -> None:
        waited_ms = self._broker.clock.monotonic_ms() - attempt.began_ms
        if attempt.over.is_set() or waited_ms >= WAIT_MS:
            return
        try:
            async with asyncio.timeout((WAIT_MS - waited_ms) / 1000):
                await attempt.over.wait()
        except TimeoutError:
            return


def _tell(error_of: Mapping[str, MetadataError | None]) -> None:
    """Log once per command, however many requests wait: groups depend on internal topics."""
    for name, error in error_of.items():
        if error is not None and not isinstance(error, TopicExists):
            log.warning("internal topic %s not created yet: %s", name, error)


def _outcome(name: str, attempt: _Attempt | None) -> MetadataError | None:
    if attempt is None:
        return MetadataQueueFull(UNDER_WAY_MAX)
    return attempt.error_of.get(name, _STILL_OPEN)
