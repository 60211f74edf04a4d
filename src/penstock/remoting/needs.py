"""Which permission each request of a remoting client needs: the table that tests hold handlers to.

A request needs those of the row that belong to what it names. A retry topic belongs to its group:
instead of what the row has of the topic, Read on the group is needed, except to change or delete
it. Where EITHER has a code, one of the row's permissions to create suffices.

Handlers ask the gate, and not this table. tests/remoting/test_needs.py compares what they ask with
their rows, and takes each permission of a row from a client. The page
docs/operations/permissions.md is written from it.

Source: RocketMQ `DefaultAuthorizationContextBuilder`. Departures: permissions are those of Kafka's
model, so that one rule counts for clients of both kinds; whom a client asks for routes has to
permit Describe as well, and who takes part in a group Read.
"""

from collections.abc import Mapping
from typing import Final

from penstock.broker.access import Operation, Resource
from penstock.remoting.wire.codes import RequestCode

Need = tuple[Operation, Resource]

READ_TOPIC: Final = (Operation.READ, Resource.TOPIC)
WRITE_TOPIC: Final = (Operation.WRITE, Resource.TOPIC)
DESCRIBE_TOPIC: Final = (Operation.DESCRIBE, Resource.TOPIC)
CREATE_TOPIC: Final = (Operation.CREATE, Resource.TOPIC)
CREATE_CLUSTER: Final = (Operation.CREATE, Resource.CLUSTER)
READ_GROUP: Final = (Operation.READ, Resource.GROUP)
ALTER_CONFIGS: Final = (Operation.ALTER_CONFIGS, Resource.CLUSTER)
DESCRIBE_CLUSTER: Final = (Operation.DESCRIBE, Resource.CLUSTER)
ALTER_TOPIC: Final = (Operation.ALTER, Resource.TOPIC)
DELETE_TOPIC: Final = (Operation.DELETE, Resource.TOPIC)
DELETE_GROUP: Final = (Operation.DELETE, Resource.GROUP)
DESCRIBE_CONFIGS: Final = (Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)
DESCRIBE_GROUP: Final = (Operation.DESCRIBE, Resource.GROUP)


def _needs(*needs: Need) -> frozenset[Need]:
    return frozenset(needs)


NEEDS: Final[Mapping[RequestCode, frozenset[Need]]] = {
    RequestCode.SEND_MESSAGE: _needs(WRITE_TOPIC),
    RequestCode.PULL_MESSAGE: _needs(READ_TOPIC, READ_GROUP),
    RequestCode.QUERY_CONSUMER_OFFSET: _needs(READ_TOPIC, READ_GROUP),
    RequestCode.UPDATE_CONSUMER_OFFSET: _needs(READ_TOPIC, READ_GROUP),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _needs(DESCRIBE_TOPIC),
    RequestCode.GET_MAX_OFFSET: _needs(DESCRIBE_TOPIC),
    RequestCode.GET_MIN_OFFSET: _needs(DESCRIBE_TOPIC),
    RequestCode.HEART_BEAT: _needs(READ_GROUP),
    RequestCode.UNREGISTER_CLIENT: _needs(),
    RequestCode.CONSUMER_SEND_MSG_BACK: _needs(READ_TOPIC, READ_GROUP),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _needs(READ_GROUP),
    RequestCode.LOCK_BATCH_MQ: _needs(READ_TOPIC, READ_GROUP),
    RequestCode.UNLOCK_BATCH_MQ: _needs(READ_TOPIC, READ_GROUP),
    RequestCode.CHECK_CLIENT_CONFIG: _needs(),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _needs(DESCRIBE_TOPIC, CREATE_TOPIC, CREATE_CLUSTER),
    RequestCode.GET_BROKER_CLUSTER_INFO: _needs(DESCRIBE_CLUSTER),
    RequestCode.SEND_MESSAGE_V2: _needs(WRITE_TOPIC),
    RequestCode.SEND_BATCH_MESSAGE: _needs(WRITE_TOPIC),
    RequestCode.LITE_PULL_MESSAGE: _needs(READ_TOPIC, READ_GROUP),
    RequestCode.RECALL_MESSAGE: _needs(WRITE_TOPIC),
    RequestCode.END_TRANSACTION: _needs(WRITE_TOPIC),
    RequestCode.POP_MESSAGE: _needs(READ_TOPIC, READ_GROUP),
    RequestCode.NOTIFICATION: _needs(READ_TOPIC, READ_GROUP),
    RequestCode.POLLING_INFO: _needs(READ_TOPIC, READ_GROUP),
    RequestCode.ACK_MESSAGE: _needs(READ_TOPIC, READ_GROUP),
    RequestCode.BATCH_ACK_MESSAGE: _needs(READ_TOPIC, READ_GROUP),
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: _needs(READ_TOPIC, READ_GROUP),
    RequestCode.QUERY_ASSIGNMENT: _needs(READ_TOPIC, READ_GROUP),
    RequestCode.SET_MESSAGE_REQUEST_MODE: _needs(DESCRIBE_TOPIC, ALTER_CONFIGS),
    RequestCode.VIEW_MESSAGE_BY_ID: _needs(READ_TOPIC),
    RequestCode.QUERY_MESSAGE: _needs(READ_TOPIC),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _needs(DESCRIBE_TOPIC),
    RequestCode.GET_TOPIC_STATS_INFO: _needs(DESCRIBE_TOPIC),
    RequestCode.GET_TOPIC_CONFIG: _needs(DESCRIBE_TOPIC),
    RequestCode.GET_BROKER_RUNTIME_INFO: _needs(DESCRIBE_CLUSTER),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: _needs(DESCRIBE_GROUP),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: _needs(DESCRIBE_CLUSTER),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: _needs(DESCRIBE_TOPIC, DESCRIBE_GROUP),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: _needs(DESCRIBE_GROUP),
    RequestCode.GET_CONSUME_STATS: _needs(DESCRIBE_TOPIC, DESCRIBE_GROUP),
    RequestCode.UPDATE_AND_CREATE_TOPIC: _needs(ALTER_TOPIC, CREATE_TOPIC, CREATE_CLUSTER),
    RequestCode.DELETE_TOPIC_IN_BROKER: _needs(DELETE_TOPIC),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: _needs(DELETE_TOPIC),
    RequestCode.DELETE_KV_CONFIG: _needs(DELETE_TOPIC),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _needs(ALTER_CONFIGS),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: _needs(DELETE_GROUP),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _needs(READ_TOPIC, READ_GROUP),
    RequestCode.GET_BROKER_CONFIG: _needs(DESCRIBE_CONFIGS),
    RequestCode.UPDATE_BROKER_CONFIG: _needs(ALTER_CONFIGS),
    RequestCode.GET_NAMESRV_CONFIG: _needs(DESCRIBE_CONFIGS),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _needs(DESCRIBE_GROUP),
    RequestCode.GET_BROKER_CONSUME_STATS: _needs(DESCRIBE_TOPIC, DESCRIBE_GROUP),
    RequestCode.GET_CONSUMER_RUNNING_INFO: _needs(DESCRIBE_GROUP),
    RequestCode.GET_ALL_PRODUCER_INFO: _needs(DESCRIBE_CLUSTER),
}

EITHER: Final[Mapping[RequestCode, tuple[Need, Need]]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: (CREATE_TOPIC, CREATE_CLUSTER),
    RequestCode.UPDATE_AND_CREATE_TOPIC: (CREATE_TOPIC, CREATE_CLUSTER),
}
"""A topic that is missing is created by whoever may create it, by name or on the cluster."""
