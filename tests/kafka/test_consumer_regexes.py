"""What a regular expression of a consumer group matches on a live node."""

import datetime

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.kafka.test_produce_fetch import create
from tests.live_node import LiveNode, RawClient


def test_an_expression_that_names_an_internal_topic_gets_it(
    node: LiveNode, client: RawClient
) -> None:
    """As in Kafka 4, whose brokers leave nothing out; franz-go's Test848RegexBrokerResolves."""
    topic_id = create(node, "offsets")
    fields = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": datetime.timedelta(seconds=60),
        "subscribed_topic_names": None,
        "subscribed_topic_regex": ".*offsets",
        "topic_partitions": [],
    }
    answer = client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, fields)
    assert answer.error_code == ErrorCode.NONE
    topics = node.broker.metadata.topics_by_name
    internal = topics["__consumer_offsets"]
    assigned = {
        one.topic_id.bytes: len(one.partitions) for one in answer.assignment.topic_partitions
    }
    assert assigned == {topic_id: 1, bytes(internal.topic_id): len(internal.partitions)}
