"""QueryRoute: the queues of a topic, and where they are.

Every node answers from the image. A topic that is missing is created first where topics are created
on demand, as Kafka's Metadata does.

Source: RocketMQ's proxy `RouteActivity`.
"""

from typing import Final

from penstock.broker.access import Operation
from penstock.broker.metering import owe_mutations, spend_mutations
from penstock.controller.commands.command import NewTopic
from penstock.controller.commands.topic_names import INTERNAL_TOPICS, check_topic_name
from penstock.controller.errors import UnknownTopic
from penstock.grpc.call import Call, Method
from penstock.grpc.errors import Refused
from penstock.grpc.gate import find_topic, may_create, topic_name
from penstock.grpc.proto.messages import QueryRouteRequest, QueryRouteResponse, Status
from penstock.grpc.routes import accepted_by, encoded_queues
from penstock.grpc.statuses import Code
from penstock.protobuf.codec import decode, encode

_OK: Final = encode(QueryRouteResponse(status=Status(code=Code.OK, message="OK")))


def _handle(call: Call, message: bytes) -> None:
    name = topic_name(decode(QueryRouteRequest, message).topic)
    try:
        _tell(call, name)
    except UnknownTopic:
        if not _is_created(call, name):
            raise
        spend_mutations(call.client.broker, call.client, 1)
        call.client.front.spawn("topic of a route", _create(call, name))


def _tell(call: Call, name: str) -> None:
    client = call.client
    topic = find_topic(client, name, Operation.DESCRIBE)
    if topic.internal:
        raise UnknownTopic(name)
    sets = client.broker.metadata.replica_sets
    masters = [None if one not in sets else sets[one].master for one in topic.placed]
    accepted = accepted_by(topic.settings.message_type)
    queues = encoded_queues(name, masters, client.front.endpoints, accepted)
    if not queues:
        told = f"no node is reached that leads a part of {name}: is grpc.port set on all of them?"
        raise Refused(Code.HA_NOT_AVAILABLE, told)
    call.say_bytes(_OK + queues)
    call.end()


def _is_created(call: Call, name: str) -> bool:
    if not call.client.broker.config.auto_create_topics or name in INTERNAL_TOPICS:
        return False
    check_topic_name(name)
    return may_create(call.client, name)


async def _create(call: Call, name: str) -> None:
    client = call.client
    await client.front.on_demand.create([NewTopic(name=name)])
    made = client.broker.metadata.topics_by_name.get(name)
    owe_mutations(client.broker, client, 0 if made is None else len(made.partitions) - 1)
    try:
        _tell(call, name)
    except (UnknownTopic, Refused) as error:
        call.fail(error)


METHOD: Final = Method("QueryRoute", _handle)
