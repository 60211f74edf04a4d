"""RecoverOrphanedTransactionCommand: a producer is asked what has become of its transaction.

It goes over the stream by which the producer has told its settings, with the message as it was sent
and the id by which EndTransaction is to name it. Only who may write to the topic is asked, since he
gets the message; anyone can say that he is a producer of a topic.

Source: RocketMQ's proxy `GrpcClientChannel.processCheckTransaction`. Departure: a producer that
does not take what it is sent is not asked.
"""

from __future__ import annotations

from functools import partial
from hashlib import md5
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.broker.access import Operation, Resource
from penstock.grpc.consuming.delivered import is_shown
from penstock.grpc.consuming.times import TIME_MS_MAX
from penstock.grpc.proto.messages import (
    Digest,
    Duration,
    Message,
    Property,
    RecoverOrphanedTransactionCommand,
    SystemProperties,
    TelemetryCommand,
)
from penstock.grpc.proto.messages import Resource as Named
from penstock.grpc.statuses import Encoding, MessageType
from penstock.remoting.halves.record import message_of, transaction_id
from penstock.remoting.ids import derived_id
from penstock.remoting.mapping import to_message
from penstock.remoting.system_names import GROUP, KEYS, TAGS, UNIQ_KEY

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedTopic
    from penstock.grpc.call import Call
    from penstock.grpc.producing.producers import Producers
    from penstock.remoting.halves.asking import Question
    from penstock.remoting.mapping import Mapped

_MD5: Final = 2


class GrpcAsker:
    """The producers of gRPC clients; an Asker."""

    def __init__(self, broker: Broker, producers: Producers[Call]) -> None:
        self._broker = broker
        self._producers = producers

    def producer_of(self, group: str, topic: HostedTopic, /) -> _Asked | None:
        """Return a producer of a topic, which is the group; another one each time."""
        if group != topic.name:
            return None
        now_ms = self._broker.clock.monotonic_ms()
        stream = self._producers.next_of(topic.name, partial(_may_be_asked, topic.name), now_ms)
        return None if stream is None else _Asked(stream)


class _Asked(NamedTuple):
    """A Producer."""

    stream: Call

    @property
    def is_gone(self) -> bool:
        """Whether nobody would hear the question."""
        return self.stream.is_over

    def ask(self, question: Question, /) -> None:
        """Send the question."""
        place, half = question.place, question.found.half
        number = half.number
        otherwise = derived_id(place.topic.topic_id, place.partition, number)
        mapped = to_message(message_of(question.record), otherwise)
        command = RecoverOrphanedTransactionCommand(
            message=_message(question.topic.name, half.partition, mapped),
            transaction_id=transaction_id(place.partition, number),
        )
        self.stream.say(TelemetryCommand(recover_orphaned_transaction_command=command))


def _may_be_asked(topic: str, stream: Call) -> bool:
    """Whether a producer may get messages of a topic, and takes what it is sent."""
    if stream.is_over or stream.stream.queue:
        return False
    authoriser = stream.client.broker.authoriser
    return authoriser.permits_all or authoriser.permits(
        stream.client, Operation.WRITE, Resource.TOPIC, topic
    )


def _message(topic: str, partition: int, mapped: Mapped) -> Message:
    """Return a message as it was sent."""
    properties = mapped.properties
    keys = properties.get(KEYS)
    born_ms = min(mapped.born_ms, TIME_MS_MAX)
    host = mapped.born_host
    digest = md5(mapped.body, usedforsecurity=False).hexdigest().upper()
    system = SystemProperties(
        tag=properties.get(TAGS),
        keys=keys.split() if keys else (),
        message_id=properties.get(UNIQ_KEY, ""),
        body_digest=Digest(type=_MD5, checksum=digest),
        body_encoding=Encoding.IDENTITY,
        message_type=MessageType.TRANSACTION,
        born_timestamp=Duration(seconds=born_ms // 1_000, nanos=born_ms % 1_000 * 1_000_000),
        born_host=f"{ip_address(host.address)}:{host.port}",
        queue_id=partition,
        message_group=properties.get(GROUP),
        trace_context=properties.get("TRACE_CONTEXT"),
    )
    users = [Property(key=name, value=one) for name, one in properties.items() if is_shown(name)]
    return Message(
        topic=Named(name=topic),
        user_properties=users,
        system_properties=system,
        body=mapped.body,
    )
