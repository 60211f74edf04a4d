"""CHECK_TRANSACTION_STATE: a producer of the group is asked what has become of its transaction.

The message goes to it as it was sent, with what END_TRANSACTION is to say: locator and number. Only
who may write to the topic is asked, since he gets the message; anyone can call himself a producer.

Source: RocketMQ `AbstractTransactionalMessageCheckListener.sendCheckMessage`,
`CheckTransactionStateRequestHeader`. Departure: a producer that does not take what it is sent is
not asked.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.broker.access import Operation, Resource
from penstock.remoting.halves.producers import Producers
from penstock.remoting.halves.record import CHECK_TIMES, REAL_QUEUE, REAL_TOPIC, message_of
from penstock.remoting.ids import derived_id, locator_of, offset_id
from penstock.remoting.mapping import to_message
from penstock.remoting.queues import broker_name
from penstock.remoting.system_names import UNIQ_KEY
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import ONE_WAY, Command
from penstock.remoting.wire.frame import encode_frame
from penstock.remoting.wire.message import Message, encode_message
from penstock.remoting.wire.properties import PROPERTIES_BYTES_MAX, told_bytes, write_properties

if TYPE_CHECKING:
    from penstock.base.ids import ReplicaSetId, TopicId
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedTopic
    from penstock.net.connection import Connection
    from penstock.remoting.halves.asking import Question
    from penstock.remoting.queues import TopicQueues
    from penstock.remoting.wire.message import Host

UNREAD_MAX: Final = 1 << 20
"""Bytes that a producer has not taken, above which it is not asked."""


class Told(Protocol):
    """What the front tells of itself."""

    def own_host(self) -> Host: ...

    def queues_of(self, topic_id: TopicId, placed: tuple[ReplicaSetId, ...], /) -> TopicQueues: ...


class RemotingAsker:
    """The producers of remoting clients; an Asker."""

    def __init__(self, broker: Broker, front: Told) -> None:
        self._broker = broker
        self._front = front
        self.producers: Producers[Connection] = Producers()

    def producer_of(self, group: str, topic: HostedTopic, /) -> _Asked | None:
        """Return a producer of a group, another one each time; None if there is none."""
        is_fit = partial(may_be_asked, self._broker, topic.name)
        connection = self.producers.next_of(group, is_fit)
        return None if connection is None else _Asked(self._front, connection)


class _Asked(NamedTuple):
    """A Producer."""

    front: Told
    connection: Connection

    @property
    def is_gone(self) -> bool:
        """Whether nobody would hear the question."""
        return self.connection.is_closed

    def ask(self, question: Question, /) -> None:
        """Send the question."""
        ask(self.front, self.connection, question)


def may_be_asked(broker: Broker, topic_name: str, connection: Connection) -> bool:
    """Whether a producer may get messages of a topic, and takes what it is sent."""
    context = connection.state
    if connection.is_closed or connection.pinned_bytes > UNREAD_MAX or context is None:
        return False
    authoriser = broker.authoriser
    return authoriser.permits_all or authoriser.permits(
        context, Operation.WRITE, Resource.TOPIC, topic_name
    )


def ask(front: Told, connection: Connection, question: Question) -> None:
    """Send the question. Its answer is an END_TRANSACTION, or none."""
    half_place, topic, found, record = question
    half = found.half
    locator = locator_of(half_place.partition, half.number)
    queues = front.queues_of(topic.topic_id, tuple(topic.placed))
    queue = queues.queue(half.partition)
    host = front.own_host()
    message = to_message(
        message_of(record), derived_id(half_place.topic.topic_id, half_place.partition, half.number)
    )
    properties = dict(message.properties)
    told = {
        REAL_TOPIC: topic.name,
        REAL_QUEUE: str(queue.queue_id),
        CHECK_TIMES: str(half.checks + 1),
    }
    room = PROPERTIES_BYTES_MAX - sum(told_bytes(*one) for one in (properties | told).items())
    body = encode_message(
        Message(
            topic=topic.name,
            queue_id=queue.queue_id,
            queue_offset=half.number,
            body=message.body,
            properties=write_properties(properties | told if room >= 0 else properties),
            locator=locator,
            flag=message.flag,
            born_ms=message.born_ms,
            born_host=message.born_host,
            store_ms=record.timestamp_ms,
            store_host=host,
            reconsume_times=message.reconsume_times,
        )
    )
    message_id = properties.get(UNIQ_KEY, "")
    fields = {
        "topic": topic.name,
        "tranStateTableOffset": str(half.number),
        "commitLogOffset": str(locator),
        "msgId": message_id,
        "transactionId": message_id,
        "offsetMsgId": offset_id(host, locator),
        "bname": broker_name(half_place.member.replica_set_id),
    }
    command = Command(
        code=RequestCode.CHECK_TRANSACTION_STATE, fields=fields, body=body, flag=ONE_WAY
    )
    connection.reserve().send(encode_frame(command))
