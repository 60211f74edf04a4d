"""Routes and the cluster as a name server tells them.

    GET_ROUTEINFO_BY_TOPIC    brokerDatas   for each replica set: its members' addresses by id
                              queueDatas    for each replica set: its queues, and 6 = read, write
    GET_BROKER_CLUSTER_INFO   the same members, and the names of all sets

The master has id 0, as RocketMQ's masters have, any other member its broker id and 1. A set whose
members are all gone is left out: clients pick one of its addresses, and fail if there is none.

Source: RocketMQ `TopicRouteData`, `QueueData`, `BrokerData.selectBrokerAddr`, `ClusterInfo`,
`RouteInfoManager`. Keys of brokerAddrs are texts: fastjson writes numbers there unless it is asked
for standard JSON, and reads both.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.remoting.queues import TopicQueues, broker_name

READ_WRITE: Final = 6
_MASTER: Final = "0"

encode_json: Final = msgspec.json.Encoder().encode


class SetMember(NamedTuple):
    """A live member of a replica set, and where clients of this listener reach it."""

    broker_id: BrokerId
    address: str
    is_master: bool


Members = Mapping[ReplicaSetId, Sequence[SetMember]]


def topic_route(queues: TopicQueues, members: Members, cluster: str) -> bytes | None:
    """Return the route of a topic; None while none of its sets has a live member."""
    counts = {set_id: n for set_id, n in queues.counts().items() if members.get(set_id)}
    if not counts:
        return None
    route = {
        "brokerDatas": [_broker(set_id, members, cluster) for set_id in counts],
        "filterServerTable": {},
        "queueDatas": [
            {
                "brokerName": broker_name(set_id),
                "perm": READ_WRITE,
                "readQueueNums": count,
                "topicSysFlag": 0,
                "writeQueueNums": count,
            }
            for set_id, count in counts.items()
        ],
    }
    return encode_json(route)


def cluster_info(members: Members, cluster: str) -> bytes:
    """Return all replica sets that have live members."""
    there = sorted(set_id for set_id, of_set in members.items() if of_set)
    names = [broker_name(set_id) for set_id in there]
    table = {broker_name(set_id): _broker(set_id, members, cluster) for set_id in there}
    return encode_json({"brokerAddrTable": table, "clusterAddrTable": {cluster: names}})


def _broker(set_id: ReplicaSetId, members: Members, cluster: str) -> dict[str, object]:
    addresses = {
        _MASTER if one.is_master else str(one.broker_id + 1): one.address for one in members[set_id]
    }
    return {
        "brokerAddrs": addresses,
        "brokerName": broker_name(set_id),
        "cluster": cluster,
        "enableActingMaster": False,
    }
