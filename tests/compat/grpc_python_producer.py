"""RocketMQ's gRPC client for Python as a producer, in a process of its own: its logs go to HOME.

ENDPOINTS TOPIC COUNT: one half of the messages have a group. With SECONDS behind it each message is
to be there so much later; with a word behind that every second one is recalled. Tells what was
sent, a line for each.
"""

import json
import sys
import time

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


def delayed(endpoints: str, topic: str, count: int, seconds: int, *, recalls: bool) -> None:
    producer = Producer(ClientConfiguration(endpoints, Credentials()), (topic,))
    producer.startup()
    for number in range(count):
        message = _plain(topic)
        message.body = f"late-{number}".encode()
        at = int(time.time()) + seconds + number
        message.delivery_timestamp = at
        receipt = producer.send(message)
        told = {"sent": f"late-{number}", "at": at * 1_000}
        if recalls and number % 2:
            recalled = producer.recall_message(topic, receipt.recall_handle)
            told["recalled"] = recalled == receipt.message_id
        sys.stdout.write("@" + json.dumps(told) + "\n")
    producer.shutdown()


def _plain(topic: str) -> Message:
    message = Message()
    message.topic = topic
    message.body = b"python-async"
    return message


if __name__ == "__main__":
    address, name, wanted, *later = sys.argv[1:]
    if later:
        delayed(address, name, int(wanted), int(later[0]), recalls=len(later) > 1)
    else:
        main(address, name, int(wanted))
