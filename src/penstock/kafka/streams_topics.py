"""Internal topics of applications of Kafka Streams, which the coordinator of their group creates.

    heartbeat that misses topics ─► ensure ─► one command, behind the answer ─► tasks by and by
                                      └─► why the last attempt failed, for the answer's status

A topic that could not be created is tried again after a back-off that doubles, at most every 30 s:
every member of the group asks with each heartbeat.

Source: KIP-1071; Kafka, KafkaApis.handleStreamsGroupHeartbeat,
AutoTopicCreationManager.createStreamsInternalTopics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.controller.commands.command import NewTopic
from penstock.controller.errors import MetadataError, TopicExists

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from penstock.broker.broker import Broker
    from penstock.broker.topics_on_demand import TopicsOnDemand
    from penstock.groups.streams.topology import InternalTopic

BACKOFF_MS, BACKOFF_MAX_MS = 1_000, 30_000
FAILURES_MAX = 1_000
"""Topics whose last failure is remembered; the oldest is forgotten first."""
TOGETHER_MAX = 100
"""Topics of one command; the others are created with the next heartbeat."""
_DEFAULT = -1
"""Takes the cluster's replication factor."""


class _Failure(NamedTuple):
    reason: str
    backoff_ms: int
    retry_at_ms: int


class StreamsTopics:
    """Creates missing internal topics; one for each broker."""

    __slots__ = ("_broker", "_failures", "_on_demand", "_spawn", "_under_way")

    def __init__(
        self,
        broker: Broker,
        on_demand: TopicsOnDemand,
        spawn: Callable[[str, Coroutine[Any, Any, None]], None],
    ) -> None:
        """`spawn(name, coroutine)` runs a command under supervision."""
        self._broker = broker
        self._on_demand = on_demand
        self._spawn = spawn
        self._failures: dict[str, _Failure] = {}
        self._under_way: set[str] = set()

    def ensure(self, missing: list[InternalTopic]) -> str:
        """Begin to create topics that are missing; return what went wrong before, or nothing."""
        now_ms = self._broker.clock.monotonic_ms()
        due = [topic for topic in missing if self._is_due(topic.name, now_ms)][:TOGETHER_MAX]
        if due:
            self._under_way.update(topic.name for topic in due)
            self._spawn("topics of streams groups", self._create(due))
        failed = [topic.name for topic in missing if topic.name in self._failures]
        told = ", ".join(f"{name} ({self._failures[name].reason})" for name in failed[:10])
        return f"; Creation failed: {told}." if told else ""

    def _is_due(self, name: str, now_ms: int) -> bool:
        failure = self._failures.get(name)
        is_over = failure is None or now_ms >= failure.retry_at_ms
        return is_over and name not in self._under_way

    async def _create(self, topics: list[InternalTopic]) -> None:
        try:
            outcomes = await self._on_demand.create(map(_new_topic, topics))
        finally:
            self._under_way.difference_update(topic.name for topic in topics)
        for name, error in outcomes.items():
            self._note(name, None if isinstance(error, TopicExists) else error)

    def _note(self, name: str, error: MetadataError | None) -> None:
        before = self._failures.pop(name, None)
        if error is None:
            return
        if len(self._failures) >= FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
        backoff_ms = BACKOFF_MS if before is None else min(2 * before.backoff_ms, BACKOFF_MAX_MS)
        retry_at_ms = self._broker.clock.monotonic_ms() + backoff_ms
        self._failures[name] = _Failure(str(error), backoff_ms, retry_at_ms)


def _new_topic(topic: InternalTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partition_count=topic.partitions,
        replication_factor=topic.replication_factor or _DEFAULT,
        configs=dict(topic.configs),
    )
