"""A producer of half messages in the test's hand; tests/remoting/world.py."""

import json
from typing import Any

from penstock.remoting.ids import read_offset_id
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from tests.broker.cluster import Cluster
from tests.remoting.served import sent
from tests.remoting.world import SET, Remoting, settle

SEND, END = RequestCode.SEND_MESSAGE_V2, RequestCode.END_TRANSACTION
HEART_BEAT, CHECK = RequestCode.HEART_BEAT, RequestCode.CHECK_TRANSACTION_STATE
SECOND = 1_000
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
GROUP = "payers"
DISCARDED = "TRANS_CHECK_MAX_TIME_TOPIC"


def half_cluster() -> Cluster:
    cluster = Cluster(2)
    cluster.create("events", partitions=2)
    cluster.create("other")
    return cluster


def half(remote: Remoting, body: bytes = b"body", *, queue: int = 0, **properties: str) -> int:
    """Send a half message; return the number of the request."""
    told = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": f"ID-{body[:20].decode()}"}
    return remote.send(SEND, sent("events", told | properties, n=SET, e=queue, f=4), body)


def answered(cluster: Cluster, remote: Remoting, asked: int) -> Command:
    cluster.replicate()
    cluster.replicate()
    answer = remote.answer(asked)
    assert answer is not None
    return answer


def taken(cluster: Cluster, remote: Remoting, body: bytes = b"body", **more: Any) -> dict[str, Any]:
    """Send a half message; return the fields of END_TRANSACTION that name it."""
    answer = answered(cluster, remote, half(remote, body, **more))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return {
        "topic": "events",
        "producerGroup": GROUP,
        "tranStateTableOffset": answer.fields["queueOffset"],
        "commitLogOffset": read_offset_id(answer.fields["msgId"])[1],
        "msgId": f"ID-{body[:20].decode()}",
        "transactionId": answer.fields["transactionId"],
        "fromTransactionCheck": "false",
    }


def ended(cluster: Cluster, remote: Remoting, named: dict[str, Any], how: int) -> Command:
    asked = remote.send(END, named | {"commitOrRollback": how})
    cluster.world.run()
    return answered(cluster, remote, asked)


def bodies(remote: Remoting, topic: str = "events", queue: int = 0) -> list[bytes]:
    return [bytes(one.body) for one in remote.pull(topic, queueId=queue)]


def beat(remote: Remoting, group: str = GROUP, client: str = "client") -> None:
    """Say that the client is a producer of a group."""
    body = {"clientID": client, "producerDataSet": [{"groupName": group}]}
    remote.send(HEART_BEAT, {}, json.dumps(body).encode())


def checks(remote: Remoting) -> list[Command]:
    return [one for one in remote.wire.told if one.code == CHECK and not one.is_answer]


def pass_time(cluster: Cluster, delay_ms: int) -> None:
    cluster.world.advance(delay_ms)
    settle(cluster)
