"""RocketMQ's gRPC client for Python as a simple consumer, in a process of its own.

ENDPOINTS TOPIC GROUP COUNT TAG|SQL EXPRESSION: receives and acknowledges until so many have come.
"""

import json
import sys
from typing import Any

from rocketmq import ClientConfiguration, Credentials, FilterExpression, SimpleConsumer
from rocketmq.grpc_protocol import definition_pb2 as definition


def tell(**what: Any) -> None:
    sys.stdout.write("@" + json.dumps(what) + "\n")
    sys.stdout.flush()


def main(endpoints: str, topic: str, group: str, count: int, kind: str, expression: str) -> None:
    types = {"TAG": definition.FilterType.TAG, "SQL": definition.FilterType.SQL}
    wanted = FilterExpression(expression, types[kind])
    consumer = SimpleConsumer(
        ClientConfiguration(endpoints, Credentials()), group, {topic: wanted}, await_duration=2
    )
    consumer.startup()
    done, is_changed = 0, False
    while done < count:
        for message in consumer.receive(16, 30) or ():
            if not is_changed:
                is_changed = True
                consumer.change_invisible_duration(message, 60)
                tell(changed=message.body.decode())
            tell(
                received=message.body.decode(),
                attempt=message.delivery_attempt,
                id=message.message_id,
                tag=message.tag or "",
                keys=" ".join(message.keys or ()),
                colour=message.properties.get("colour", ""),
                group=message.message_group or "",
            )
            consumer.ack(message)
            done += 1
    tell(more=len(consumer.receive(16, 30) or ()))
    consumer.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5], sys.argv[6])
