"""The harness asks for the end of a partition until a master answers, whatever it heard before."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from harness.cluster import ClusterProcess
from harness.end_offsets import end_of
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic

pytestmark = pytest.mark.process

TOPIC = "ends"
QUICK_SESSIONS = {"controller": {"session_timeout_ms": 1_500, "heartbeat_interval_ms": 150}}


def test_a_consumer_that_heard_of_no_leader_gets_the_end_when_there_is_one_again(
    tmp_path: Path,
) -> None:
    """librdkafka alone would say _UNKNOWN_PARTITION for minutes."""
    layout = ClusterProcess(tmp_path, brokers=2, controllers=1, replicas=1, settings=QUICK_SESSIONS)
    with layout as cluster:
        create_topic(cluster.bootstrap, TOPIC, 1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        producer.produce(TOPIC, b"one", partition=0)
        assert producer.flush(UNTIL_SECONDS) == 0
        master = cluster.wait_for_leader(TOPIC)
        (other,) = set(cluster.nodes) - {master}
        cluster.nodes[master].kill()
        assert wait_until(lambda: cluster.leader_of(TOPIC) == -1, UNTIL_SECONDS)
        # One that has asked for nothing else yet: it has no reason of its own to refresh.
        address = cluster.address_of(other)
        consumer = Consumer({"bootstrap.servers": address, "group.id": "ends", "log_level": 0})
        with pytest.raises(KafkaException) as refused:
            consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), 10)
        assert refused.value.args[0].code() == KafkaError._UNKNOWN_PARTITION
        cluster.nodes[master].launch()
        assert end_of(consumer, TOPIC, 0) == 1
        consumer.close()
