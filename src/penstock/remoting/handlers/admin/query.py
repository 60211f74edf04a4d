"""QUERY_MESSAGE: the messages of a topic with a key or an id, in the queues that this node leads.

    wait until the index has what is confirmed ─► places of the name ─► read each, compare ─► answer
    some found       SUCCESS, the newest first; the remark says if the index is behind
    none             QUERY_NOT_FOUND
    none, and the index is behind     SYSTEM_BUSY: it may be there

With the name of a replica set (`bname`) it is about the queues of that set, and the answer is that
of its master; else it is about all that this node leads, which may be nothing. RocketMQ's clients
ask each master without one. What is not found has not been confirmed when the query came: the
master asks its lease, and a new one waits until its own mastership is confirmed.

A derived id (ids.py) says itself where its message is, so the index is not asked.

Source: RocketMQ 5.3.3 `QueryMessageProcessor.queryMessage`, `QueryMessageRequestHeader`.
Departures: messages are compared here, and not by their hash alone; those of transactions that are
not committed are not told.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.broker.access import Operation
from penstock.broker.errors import UnknownPartition
from penstock.broker.finding.search import WAIT_MS, Times, find_places, wait_until_indexed
from penstock.finding.piece import hash_of
from penstock.remoting.errors import IndexBehind, InvalidParameter, MalformedBody
from penstock.remoting.fields import number, text
from penstock.remoting.finding.naming import has_name
from penstock.remoting.finding.reading import read_message
from penstock.remoting.gate import Found, find_topic
from penstock.remoting.handlers.admin.long_answers import BYTES_MAX, answer_in_turn
from penstock.remoting.ids import Derived, read_derived_id, topic_crc
from penstock.remoting.later.group_topics import retry_group
from penstock.remoting.queues import set_of
from penstock.remoting.reading import Wanted
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.subscription import EVERYTHING
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.properties import read_properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.base.ids import ReplicaSetId
    from penstock.broker.finding.key_index import KeyIndex
    from penstock.broker.partitions import HostedTopic
    from penstock.remoting.wire.message import Message

CODES: Final = (RequestCode.QUERY_MESSAGE,)
MESSAGES_MAX: Final = 64
"""RocketMQ's `maxMsgsNumBatch`; 32 of an id (`defaultQueryMaxNum`)."""
UNIQUE_MAX: Final = 32
NAME_BYTES_MAX: Final = 32 << 10
"""Of a key: more does not fit into a message's properties."""
PLACES: Final = 4
"""So many places are looked for as messages are wanted: some are gone, or of another name."""
_INT64_MAX: Final = (1 << 63) - 1


class _Query(NamedTuple):
    """What is asked for."""

    name: str
    """Of the topic, as the client has it."""
    topic: HostedTopic
    key: str
    is_id: bool
    messages_max: int
    times: Times
    set_id: ReplicaSetId | None
    """None: all that are led here."""

    def wants(self, message: Message) -> bool:
        """Whether a message that was read is one of those."""
        is_then = self.times.first_ms <= message.store_ms <= self.times.last_ms
        named = has_name(read_properties(message.properties), self.key, is_id=self.is_id)
        return is_then and named


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer when the index has been searched. Raises what is told to the client."""
    name, key = text(command, "topic"), text(command, "key")
    topic = find_topic(context, name, Operation.READ)
    if not key or len(key.encode()) > NAME_BYTES_MAX:
        raise MalformedBody(f"a key of {len(key.encode())} bytes")
    if not context.front.finding.bytes_max:
        raise InvalidParameter("this node has no index of messages: remoting.index_bytes is 0")
    is_id = command.fields.get("_UNIQUE_KEY_QUERY", "").lower() == "true"
    most = UNIQUE_MAX if is_id else min(number(command, "maxNum"), MESSAGES_MAX)
    times = Times(number(command, "beginTimestamp"), number(command, "endTimestamp"))
    query = _Query(name, topic, key, is_id, max(most, 1), times, _set_asked(command, topic))
    answer_in_turn(context, "query", reply, partial(_answer, context, query, reply))


def _set_asked(command: Command, topic: HostedTopic) -> ReplicaSetId | None:
    """Return the replica set that is named; None if none is. Raises UnknownPartition."""
    named = command.fields.get("bname")
    if not named:
        return None
    set_id = set_of(named)
    if set_id is None or set_id not in topic.placed:
        raise UnknownPartition
    return set_id


async def _answer(context: RemotingContext, query: _Query, reply: Reply) -> None:
    derived = read_derived_id(query.key)
    if derived is not None and derived.topic_crc == topic_crc(query.topic.topic_id):
        places, behind = _derived_place(context, query, derived), 0
    else:
        places, behind = await _places(context, query)
    messages = await _messages(context, query, places)
    outcome = "found" if messages else "behind" if behind else "nothing"
    context.front.finding.searches[outcome] += 1
    fields = {"indexLastUpdateTimestamp": str(context.broker.clock.wall_ms())}
    fields["indexLastUpdatePhyoffset"] = "0"
    told = f"the index lacks {behind} bytes of the log, ask again" if behind else None
    if not messages and behind:
        raise IndexBehind(told or "")
    if messages:
        body = b"".join(messages)
        reply(fields, body=body, remark=told, records=len(messages), payload=len(body))
    else:
        reply(fields, code=ResponseCode.QUERY_NOT_FOUND, remark="no such message, or none any more")


def _derived_place(
    context: RemotingContext, query: _Query, derived: Derived
) -> list[tuple[int, int]]:
    """Return the place that an id says, if it is among those asked about. Raises NotMaster."""
    placed = query.topic.placed
    if derived.partition >= len(placed):
        return []
    is_asked = query.set_id is None or placed[derived.partition] == query.set_id
    sets = [placed[derived.partition]] if is_asked else []
    return [(derived.partition, derived.offset)] if _asked(context, query, sets) else []


def _asked(
    context: RemotingContext, query: _Query, set_ids: Sequence[ReplicaSetId]
) -> list[KeyIndex]:
    """Return the indexes of these sets that the answer is of. Raises NotMaster."""
    finding = context.front.finding
    if query.set_id is None:
        return finding.led(set_ids)
    return [finding.asked(one) for one in set_ids if one == query.set_id]


async def _places(context: RemotingContext, query: _Query) -> tuple[list[tuple[int, int]], int]:
    """Return (partition, offset) of where messages may be, and what the indexes lack."""
    front, broker = context.front, context.broker
    name_hash = hash_of(query.topic.topic_id, query.key.encode())
    until_ms, lacks = broker.clock.monotonic_ms() + WAIT_MS, 0
    indexes = _asked(context, query, tuple(dict.fromkeys(query.topic.placed)))
    for index in indexes:
        index.check_led()
        lacks += await wait_until_indexed(front.finding, index, until_ms)
    found: list[tuple[int, int]] = []
    for index in indexes:
        most = query.messages_max * PLACES
        places = await find_places(index, name_hash, query.times, most)
        topic_id = query.topic.topic_id
        found += [
            (place.partition.partition, place.offset)
            for place in places
            if place.partition.topic_id == topic_id
        ]
    for index in indexes:
        index.check_led()
    return found, lacks


async def _messages(
    context: RemotingContext, query: _Query, places: list[tuple[int, int]]
) -> list[bytes]:
    """Return the messages at these places that are wanted, the newest first."""
    front, topic = context.front, query.topic
    queues, host = front.queues_of(topic.topic_id, tuple(topic.placed)), front.own_host()
    found: list[tuple[int, bytes]] = []
    size = 0
    for partition, offset in dict.fromkeys(places):
        if context.connection.is_closed:
            break
        hosted = topic.find(partition)
        if hosted is None:
            continue
        hosted.check_still_led()
        wanted = Wanted(
            query.name,
            Found(hosted, queues.queue(partition)),
            offset,
            1,
            EVERYTHING,
            host,
            topic.topic_id,
            retry_group(query.name) is not None,
        )
        told = await read_message(context, wanted)
        if told is None or not query.wants(told[0]):
            continue
        message, encoded = told
        size += len(encoded)
        if size > BYTES_MAX:
            break
        found.append((message.store_ms, encoded))
    found.sort(key=lambda one: one[0], reverse=True)
    return [encoded for _, encoded in found[: query.messages_max]]
