"""RocketMQ's gRPC client for Python as a producer of transactions, in a process of its own.

ENDPOINTS TOPIC COUNT: of three half messages the first is committed, the second rolled back, the
third left open; what is asked is committed. It ends when a line comes in.
"""

import json
import sys
from typing import Any

from rocketmq import ClientConfiguration, Credentials, Message, Producer, TransactionChecker
from rocketmq.grpc_protocol import TransactionResolution


def tell(**what: Any) -> None:
    sys.stdout.write("@" + json.dumps(what) + "\n")
    sys.stdout.flush()


class Commits(TransactionChecker):
    def check(self, message: Message) -> Any:
        tell(
            checked=message.body.decode(),
            id=message.message_id,
            topic=message.topic,
            tag=message.tag,
            keys=" ".join(message.keys),
            colour=message.properties["colour"],
        )
        return TransactionResolution.COMMIT


def main(endpoints: str, topic: str, count: int) -> None:
    configuration = ClientConfiguration(endpoints, Credentials())
    producer = Producer(configuration, (topic,), checker=Commits())
    producer.startup()
    for number in range(count):
        message = Message()
        message.topic = topic
        message.body = f"half {number}".encode()
        message.tag = "tag"
        message.keys = f"key-{number}"
        message.add_property("colour", "grün")
        transaction = producer.begin_transaction()
        receipt = producer.send(message, transaction)
        tell(sent=f"half {number}", id=receipt.message_id)
        if number % 3 == 0:
            transaction.commit()
        elif number % 3 == 1:
            transaction.rollback()
    tell(open=True)
    sys.stdin.readline()
    producer.shutdown()
    tell(done=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
