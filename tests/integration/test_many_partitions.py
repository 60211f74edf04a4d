"""Ten thousand partitions on one node: made, written, and back after kill -9."""

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS
from harness.workload import create_topic, read_all
from tests.integration.clients import acked, send

pytestmark = pytest.mark.process
TOPICS, PARTITIONS = 10, 1000


def test_ten_thousand_partitions_survive_a_kill(node: NodeProcess) -> None:
    for number in range(TOPICS):
        create_topic(node.bootstrap, f"wide-{number}", PARTITIONS)
    written = {number: 97 * number for number in range(TOPICS)}
    for number, partition in written.items():
        values = [b"%d-%d" % (number, n) for n in range(20)]
        answers = send(node.bootstrap, f"wide-{number}", values, partition=partition)
        assert acked(answers) == values
    node.restart()  # how long it takes is measured: `python -m benchmarks restart`
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    topics = admin.list_topics(timeout=UNTIL_SECONDS).topics
    assert sum(len(topics[f"wide-{n}"].partitions) for n in range(TOPICS)) == TOPICS * PARTITIONS
    for number, partition in written.items():
        assert end_of(node, f"wide-{number}", partition) == 20
    polls = read_all(node.bootstrap, "wide-0", 1)
    assert [value for poll in polls for _, value in poll.records] == [f"0-{n}" for n in range(20)]


def end_of(node: NodeProcess, topic: str, partition: int) -> int:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "ends"})
    try:
        return int(
            consumer.get_watermark_offsets(TopicPartition(topic, partition), UNTIL_SECONDS)[1]
        )
    finally:
        consumer.close()
