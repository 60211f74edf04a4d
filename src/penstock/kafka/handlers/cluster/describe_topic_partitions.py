"""DescribeTopicPartitions (key 75), version 0: topics by name, page by page.

    topics sorted by name ─ without those before the cursor ─ partitions until the limit ─ cursor

Eligible leader replicas are empty: such a replica is out of sync and yet has everything confirmed.
Here the set's policy decides whose logs an election compares, and nothing of the kind is known of a
single member out of sync. The Java admin client sends this before it falls back to Metadata.

Source: Kafka `DescribeTopicPartitionsRequestHandler`, KIP-966.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.base.errors import PlatformError, as_answer
from penstock.broker.access import Operation, Resource
from penstock.broker.turns import SLICE, Pace
from penstock.controller.commands.topic_names import check_topic_name
from penstock.controller.errors import InvalidTopicName, UnknownTopic
from penstock.controller.metadata.image import TopicImage
from penstock.controller.metadata.partition_images import PartitionImage
from penstock.kafka.answers.topic_view import partition_states
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import every_topic, operations_on, topic
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.metadata import PartitionState

Fields = dict[str, object]

KEY = ApiKey.DESCRIBE_TOPIC_PARTITIONS
VERSIONS = range(1)

NAMES_AT_ONCE = 2_000
PARTITIONS_MAX = 2_000
"""Most partitions in one answer, whatever the client asks for (Kafka: 2000)."""


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Answer one page; a topic that does not exist counts as one partition."""
    body = request.body
    named = [one.name for one in body.topics] or await _all_names(context, request)
    first_name, first_partition = _start(body.cursor)
    names = await _first_names(request, named, first_name)
    left = min(max(body.response_partition_limit, 1), PARTITIONS_MAX)
    page = _Page(context, left)
    for at in range(0, len(names), SLICE):
        if at and request.turns is not None:
            await request.turns.next()
        page.look_anew()
        some = names[at : at + SLICE]
        if not all(page.add(one, first_partition if one == first_name else 0) for one in some):
            break
    return {"topics": page.topics, "next_cursor": page.next_cursor}


class _Page:
    """One answer: topics until it is full, and where the next one begins."""

    def __init__(self, context: RequestContext, left: int) -> None:
        self.topics: list[Fields] = []
        self.next_cursor: Fields | None = None
        self._context = context
        self._left = left
        self._states: Mapping[int, PartitionState] = {}

    def look_anew(self) -> None:
        """Ask what the replica sets are like now: the metadata may have changed between slices."""
        broker = self._context.broker
        self._states = partition_states(broker.metadata, broker.is_suspect, self._context.listener)

    def add(self, name: str, start: int) -> bool:
        """Describe a topic from partition `start` on; False when the page is full."""
        if self._left == 0:
            self.next_cursor = {"topic_name": name, "partition_index": start}
            return False
        context = self._context
        try:
            found = topic(context, name, Operation.DESCRIBE)
        except PlatformError as error:
            self.topics.append(_missing(name, error))
            self._left -= 1
            return True
        page = found.partitions[start : start + self._left]
        self.topics.append(_topic(context, found, page, self._states))
        self._left -= len(page)
        end = start + len(page)
        if end < len(found.partitions):
            self.next_cursor = {"topic_name": name, "partition_index": end}
            return False
        return True


async def _all_names(context: RequestContext, request: Request) -> list[str]:
    seen = await every_topic(context, Operation.DESCRIBE, Pace(request.turns))
    return [one.name for one in seen]


async def _first_names(request: Request, named: Sequence[str], first: str) -> list[str]:
    """Return the names of this page and one more, sorted, without duplicates; from `first` on.

    There may be 100,000, which is too many to sort in one loop iteration.
    """
    found: list[str] = []
    for at in range(0, len(named), NAMES_AT_ONCE):
        if at and request.turns is not None:
            await request.turns.next()
        more = {name for name in named[at : at + NAMES_AT_ONCE] if name >= first}
        found = sorted(more.union(found))[: PARTITIONS_MAX + 1]
    return found


def _start(cursor: Any) -> tuple[str, int]:
    return ("", 0) if cursor is None else (cursor.topic_name, max(cursor.partition_index, 0))


def _topic(
    context: RequestContext,
    image: TopicImage,
    page: Sequence[PartitionImage],
    states: Mapping[int, PartitionState],
) -> Fields:
    return {
        "name": image.name,
        "topic_id": image.topic_id,
        "is_internal": image.internal,
        "topic_authorized_operations": operations_on(context, Resource.TOPIC, image.name),
        "partitions": [_partition(one.partition, states[one.replica_set_id]) for one in page],
    }


def _partition(partition: int, state: PartitionState) -> Fields:
    return {
        "error_code": state.error_code,
        "partition_index": partition,
        "leader_id": state.leader_id,
        "leader_epoch": state.leader_epoch,
        "replica_nodes": state.replicas,
        "isr_nodes": state.in_sync,
        "eligible_leader_replicas": (),
        "last_known_elr": (),
        "offline_replicas": state.offline,
    }


def _missing(name: str, error: PlatformError) -> Fields:
    if isinstance(error, UnknownTopic):
        try:
            check_topic_name(name)
        except InvalidTopicName as refused:
            error = as_answer(refused)
    return {"error_code": error_code_of(error), "name": name, "topic_id": None, "partitions": ()}
