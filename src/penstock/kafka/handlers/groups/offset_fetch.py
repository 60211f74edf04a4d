"""OffsetFetch 1-10: a group's committed positions.

Version 2 can request all of them, 7 stable ones only, 8 many groups, 10 names topics by id. A
partition without a commit has offset -1 and no error. A position whose topic was deleted, or
created again under the same name, is not returned. If all are requested, those of topics that the
client may not describe are left out.

A coordinator without a lease returns nothing, as another one may have accepted commits.

Source: Kafka, KafkaApis.handleOffsetFetchRequest; KIP-447, KIP-709, KIP-848.
"""

from typing import Any

from penstock.base.errors import PlatformError
from penstock.base.ids import NO_MEMBER_EPOCH
from penstock.broker.access import Operation, Resource
from penstock.broker.turns import SLICE, Pace
from penstock.controller.errors import UnknownTopic
from penstock.controller.metadata.image import TopicImage
from penstock.groups.messages import FetchedOffset, FetchReply
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import may, told_group_error, topic, topic_of
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.OFFSET_FETCH
VERSIONS = range(1, 11)
SLICED_BY = (("groups", "topics", "partition_indexes"), ("topics", "partition_indexes"))

MANY_VERSION, BY_ID_VERSION = 8, 10
TOLD_HERE = 1_000
"""Positions that are encoded at once: some 2 ms."""

_NOTHING = CommittedOffset(-1)
Fields = dict[str, object]


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Answer at once, each group once, as an answer is much longer than its request."""
    body, version = request.body, request.api_version
    is_stable = getattr(body, "require_stable", False)
    told = [_fetch(context, one, version, is_stable) for one in _once(body)]
    reply({"groups": told} if version >= MANY_VERSION else told[0])


def is_much(context: RequestContext, body: Any) -> bool:
    """Whether groups for which all positions are requested have too many for one iteration."""
    count = context.broker.groups.reading.committed_count
    return sum(count(one.group_id) for one in _once(body) if one.topics is None) > TOLD_HERE


async def handle_much(context: RequestContext, request: Request) -> Fields:
    """Answer with the positions as they are when reached, `SLICE` at a time."""
    body, version, pace = request.body, request.api_version, Pace(request.turns)
    is_stable = getattr(body, "require_stable", False)
    told: list[Fields] = []
    for one in _once(body):
        if one.topics is not None:
            await pace.step(SLICE)
            told.append(_fetch(context, one, version, is_stable))
        else:
            told.append(await _fetch_all(context, one, version, is_stable, pace))
    return {"groups": told} if version >= MANY_VERSION else told[0]


def _once(body: Any) -> list[Any]:
    """Return the request for each group; before version 8 that is the request itself."""
    if not hasattr(body, "groups"):
        return [body]
    once: dict[str, Any] = {}
    for group in body.groups:
        once.setdefault(group.group_id, group)
    return list(once.values())


async def _fetch_all(
    context: RequestContext, asked: Any, version: int, is_stable: bool, pace: Pace
) -> Fields:
    group_id = asked.group_id
    keys = context.broker.groups.reading.committed_keys(group_id)
    by_topic: dict[str, list[Fields]] = {}
    for at in range(0, max(1, len(keys)), SLICE):
        await pace.step(SLICE)
        found = _found(context, asked, keys[at : at + SLICE], is_stable=is_stable)
        if found.error is not ErrorCode.NONE:
            return {"group_id": group_id, "error_code": found.error, "topics": []}
        _add(context, by_topic, found)
    topics = _topics(context, by_topic, is_by_id=version >= BY_ID_VERSION)
    return {"group_id": group_id, "error_code": ErrorCode.NONE, "topics": topics}


def _found(
    context: RequestContext, asked: Any, keys: list[TopicKey] | None, *, is_stable: bool
) -> FetchReply:
    """Return the positions of a group; from version 9 on a member names itself and its epoch."""
    if error := told_group_error(context, asked.group_id, Operation.DESCRIBE):
        return FetchReply(error=error, offsets={})
    return context.broker.groups.reading.fetch_offsets(
        asked.group_id,
        keys,
        require_stable=is_stable,
        member_id=getattr(asked, "member_id", None),
        member_epoch=getattr(asked, "member_epoch", NO_MEMBER_EPOCH),
    )


def _fetch(context: RequestContext, asked: Any, version: int, is_stable: bool) -> Fields:
    """Return the fields for one group."""
    topics = None if asked.topics is None else [_Named(context, one) for one in asked.topics]
    keys = None if topics is None else [key for one in topics for key in one.wanted()]
    found = _found(context, asked, keys, is_stable=is_stable)
    fields: Fields = {"group_id": asked.group_id, "error_code": found.error, "topics": []}
    if topics is None:
        by_topic: dict[str, list[Fields]] = {}
        _add(context, by_topic, found)
        fields["topics"] = _topics(context, by_topic, is_by_id=version >= BY_ID_VERSION)
    elif found.error is ErrorCode.NONE or version < 2:
        # Version 1 has no error for the group: each partition carries it.
        fields["topics"] = [one.answer(found) for one in topics]
    return fields


class _Named:
    """A topic that a request names, and whether its positions may be returned."""

    __slots__ = ("_asked", "_image", "_name", "_refusal")

    def __init__(self, context: RequestContext, asked: Any) -> None:
        self._asked = asked
        self._image: TopicImage | None = None
        self._name, self._refusal = getattr(asked, "name", ""), ErrorCode.NONE
        try:
            self._image = topic_of(context, asked, Operation.DESCRIBE)
            self._name = self._image.name
        except UnknownTopic:
            return  # an unknown topic has no commits, which is not an error
        except PlatformError as error:
            self._refusal = error_code_of(error)

    def wanted(self) -> list[TopicKey]:
        """Return the partitions to request from the coordinator."""
        if self._refusal:
            return []
        return [TopicKey(self._name, partition) for partition in self._asked.partition_indexes]

    def answer(self, found: FetchReply) -> Fields:
        asked = self._asked
        otherwise = FetchedOffset(None, found.error or self._refusal)
        offsets = {} if self._refusal else found.offsets
        named = {"topic_id": asked.topic_id} if hasattr(asked, "topic_id") else {"name": asked.name}
        return {
            **named,
            "partitions": [
                _answer_partition(
                    partition, offsets.get(TopicKey(self._name, partition), otherwise), self._image
                )
                for partition in asked.partition_indexes
            ],
        }


def _add(context: RequestContext, by_topic: dict[str, list[Fields]], found: FetchReply) -> None:
    """Add the positions whose topic exists and may be described, under its name."""
    for key, fetched in found.offsets.items():
        if not may(context, Operation.DESCRIBE, Resource.TOPIC, key.topic):
            continue  # before the look-up, which would count a denial that nobody asked for
        known = _seen(context, key.topic)
        if fetched.error is ErrorCode.NONE and not _is_of(fetched.committed, known):
            continue
        answer = _answer_partition(key.partition, fetched, known)
        by_topic.setdefault(key.topic, []).append(answer)


def _seen(context: RequestContext, name: str) -> TopicImage | None:
    try:
        return topic(context, name, Operation.DESCRIBE)
    except PlatformError:
        return None


def _topics(
    context: RequestContext, by_topic: dict[str, list[Fields]], *, is_by_id: bool
) -> list[Fields]:
    answers: list[Fields] = []
    for name, partitions in by_topic.items():
        known = _seen(context, name)
        if not is_by_id:
            answers.append({"name": name, "partitions": partitions})
        elif known is not None:
            answers.append({"topic_id": known.topic_id, "partitions": partitions})
    return answers


def _answer_partition(partition: int, fetched: FetchedOffset, known: TopicImage | None) -> Fields:
    committed = fetched.committed
    shown = committed if committed is not None and _is_of(committed, known) else _NOTHING
    return {
        "partition_index": partition,
        "committed_offset": shown.offset,
        "committed_leader_epoch": shown.leader_epoch,
        "metadata": shown.metadata,
        "error_code": fetched.error,
    }


def _is_of(committed: CommittedOffset | None, topic: TopicImage | None) -> bool:
    """Whether a position belongs to the topic that has the name now."""
    if committed is None or topic is None:
        return False
    return committed.topic_id is None or committed.topic_id == topic.topic_id
