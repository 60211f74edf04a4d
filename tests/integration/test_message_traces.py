"""What was delivered and acknowledged is told after the master that did it is killed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster import ClusterProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.remoting.wire.codes import ResponseCode
from tests.remoting.popping import POP, Popped, ack, asked
from tests.remoting.served import Remote, sent

pytestmark = [pytest.mark.process, pytest.mark.timeout(420)]

COUNT = 20
GROUP = "rmq.pop.g"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    settings = {"broker": {"message_trace_percent": 100}}
    with ClusterProcess(tmp_path / "cluster", has_remoting=True, settings=settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result(UNTIL_SECONDS)
        yield cluster


def story(cluster: ClusterProcess, number: int, *, without: int | None = None) -> list[str]:
    """What is told of a message, event by event; nothing where a node could not be asked."""
    ports = [port for node, port in cluster.remoting_ports.items() if node != without]
    command = [sys.executable, "-m", "penstock.cli.main", "message", "trace", "orders"]
    command += ["--key", f"order-{number}", "-o", "json"]
    command += ["--bootstrap", ",".join(f"127.0.0.1:{port}" for port in ports)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        return []
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return [row["event"] for row in rows if row["group"] in {None, GROUP}]


def remote_of(cluster: ClusterProcess, node: int) -> Remote:
    return Remote(f"127.0.0.1:{cluster.remoting_ports[node]}")


def popped(remote: Remote, set_name: str) -> Popped:
    fields = asked("orders", bname=set_name, maxMsgNums=1, pollTime=10_000)
    return Popped(remote.ask_among(POP, fields))


def test_a_trace_outlives_the_master_that_delivered(cluster: ClusterProcess) -> None:
    master = cluster.leader_of("orders")
    with closing(remote_of(cluster, master)) as remote:
        route = json.loads(bytes(remote.ask(105, {"topic": "orders"}).body))
        set_name = route["queueDatas"][0]["brokerName"]
        for number in range(COUNT):
            properties = {"KEYS": f"order-{number}", "UNIQ_KEY": f"ID-{number}"}
            answer = remote.ask(310, sent("orders", properties, n=set_name), b"v")
            assert answer.code == ResponseCode.SUCCESS, answer.remark
        for _ in range(COUNT // 2):
            one = popped(remote, set_name)
            (receipt,) = one.receipts
            fields = {"bname": set_name}
            answer = ack(remote, "orders", receipt._replace(broker_name=set_name), **fields)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
    done = ["stored", "delivered", "accepted"]
    last = COUNT // 2 - 1
    assert wait_until(lambda: story(cluster, last) == done, UNTIL_SECONDS)
    cluster.nodes[master].kill()
    after = cluster.wait_for_leader("orders")
    assert after != master
    ends = (0, last)
    assert wait_until(
        lambda: [story(cluster, one, without=master) for one in ends] == [done, done],
        UNTIL_SECONDS,
    )
    with closing(remote_of(cluster, after)) as remote:
        one = popped(remote, set_name)
        (receipt,) = one.receipts
        answer = ack(remote, "orders", receipt._replace(broker_name=set_name), bname=set_name)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
    next_one = last + 1
    assert wait_until(lambda: story(cluster, next_one, without=master) == done, UNTIL_SECONDS)
    unread = story(cluster, COUNT - 1, without=master)
    assert unread == ["stored"], "nobody had it"
    cluster.nodes[master].start()
    assert wait_until(cluster.is_heard_everywhere, UNTIL_SECONDS)
    assert wait_until(lambda: story(cluster, next_one) == done, UNTIL_SECONDS)
