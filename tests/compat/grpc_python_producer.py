"""RocketMQ's gRPC client for Python as a producer, in a process of its own: its logs go to HOME.

ENDPOINTS TOPIC COUNT: one half of the messages have a group. Tells what was sent, a line for each.
"""

import json
import sys

from rocketmq import ClientConfiguration, Credentials, Message, Producer


def main(endpoints: str, topic: str, count: int) -> None:
    producer = Producer(ClientConfiguration(endpoints, Credentials()), (topic,))
    producer.startup()
    for number in range(count):
        message = Message()
        message.topic = topic
        message.body = f"python-{number}".encode()
        message.tag = f"tag{number % 2}"
        message.keys = f"key-{number}"
        message.add_property("colour", "grün")
        if number % 2:
            message.message_group = f"group-{number % 4}"
        receipt = producer.send(message)
        sys.stdout.write(
            "@" + json.dumps({"sent": f"python-{number}", "id": receipt.message_id}) + "\n"
        )
    future = producer.send_async(_plain(topic))
    sys.stdout.write(
        "@" + json.dumps({"sent": "python-async", "id": future.result().message_id}) + "\n"
    )
    producer.shutdown()


def _plain(topic: str) -> Message:
    message = Message()
    message.topic = topic
    message.body = b"python-async"
    return message


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
