"""Configurations of topics that are about single messages; Kafka has none of them.

Source: ours; RocketMQ's `TopicMessageType`, docs/requirements.md M-12.
"""

from penstock.configs import keys
from penstock.configs.entry import ConfigType
from penstock.configs.keys import BrokerName, TopicConfigKey
from penstock.configs.message_types import KEY as MESSAGE_TYPE
from penstock.configs.message_types import MESSAGE_TYPES

ROWS = (
    TopicConfigKey(
        key=MESSAGE_TYPE,
        config_type=ConfigType.STRING,
        broker_names=(BrokerName("topic.message_type"),),
        documentation=(
            "Kind of messages that RocketMQ's gRPC clients may send: NORMAL, FIFO, DELAY,"
            " TRANSACTION; MIXED: all of them. It is the attribute message.type of mqadmin."
        ),
        parse=keys.one_of(*MESSAGE_TYPES),
        is_since_level_2=True,
    ),
    TopicConfigKey(
        key="penstock.message.trace.percent",
        config_type=ConfigType.DOUBLE,
        broker_names=(BrokerName("topic.message_trace_percent"),),
        documentation=(
            "Of so many messages in a hundred it is traced to whom they are delivered and with what"
            " result (penstock message trace); 0: none; -1: as broker.message_trace_percent says."
        ),
        parse=keys.percent_or_other,
        is_since_level_2=True,
    ),
)
