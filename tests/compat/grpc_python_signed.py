"""RocketMQ's gRPC client for Python with access keys, in a process of its own.

ENDPOINTS TOPIC USER SECRET COUNT TLS: sends so many, receives and acknowledges them; tells what was
done, or why not.
"""

import json
import sys
from typing import Any

from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
)


def tell(**what: Any) -> None:
    sys.stdout.write("@" + json.dumps(what) + "\n")
    sys.stdout.flush()


def main(endpoints: str, topic: str, user: str, secret: str, count: int, has_tls: bool) -> None:
    configuration = ClientConfiguration(endpoints, Credentials(user, secret))
    producer = Producer(configuration, (topic,), tls_enable=has_tls)
    producer.startup()
    for number in range(count):
        message = Message()
        message.topic, message.body = topic, f"ü{number}".encode()
        producer.send(message)
        tell(sent=number)
    consumer = SimpleConsumer(
        configuration, "readers", {topic: FilterExpression()}, 2, tls_enable=has_tls
    )
    consumer.startup()
    left = count
    while left:
        for one in consumer.receive(16, 30) or ():
            consumer.ack(one)
            left -= 1
            tell(body=one.body.decode())
    consumer.shutdown()
    producer.shutdown()
    tell(done=True)


if __name__ == "__main__":
    try:
        endpoints, topic, user, secret, count, tls = sys.argv[1:]
        main(endpoints, topic, user, secret, int(count), tls == "true")
    except Exception as failed:  # noqa: BLE001  what the client raises, it tells
        tell(failed=type(failed).__name__, why=str(failed))
