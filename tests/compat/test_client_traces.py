"""RocketMQ's stock clients trace their messages, and mqadmin shows the traces."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.parts.rocketmq import RocketCluster, why_not
from harness.waiting import wait_until
from penstock.remoting.handlers.routes import CLIENT_TRACES
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.message import decode_messages
from tests.compat.mqadmin import mqadmin
from tests.compat.rocketmq_client import running_client
from tests.remoting.served import Remote, running_remoting_node

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

SOURCE = Path(__file__).with_name("TraceClients.java")
COUNT = 3
EVERY = {"Pub", "SubBefore", "SubAfter"}
UNTIL_SECONDS = 120.0
_ALWAYS = (1 << 63) - 1


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_remoting_node(tmp_path_factory.mktemp("traces")) as (_, address):
        yield address


def traces_of(address: str, name: str, topic: str) -> list[list[str]]:
    """The traces of a message that a broker finds by its id, as words."""
    remote = Remote(address)
    asked = {"topic": topic, "key": name, "maxNum": 64}
    times = {"beginTimestamp": 0, "endTimestamp": _ALWAYS}
    answer = remote.ask(RequestCode.QUERY_MESSAGE, asked | times)
    remote.close()
    if answer.code != ResponseCode.SUCCESS:
        return []
    bodies = [bytes(one.body).decode() for one in decode_messages(memoryview(answer.body))]
    records = [record.split("\x01") for body in bodies for record in body.split("\x02")]
    return [record for record in records if name in record]


def traced(home: Path, name_servers: str, broker: str, topic: str, traces: str) -> list[str]:
    """Send and consume with traces on; return the ids once all of them were traced."""
    words = ("trace", name_servers, topic, f"{topic}-consumers", COUNT, traces)
    with running_client(home, *words, source=SOURCE) as client:
        assert wait_until(lambda: {"done": True} in client.told(), UNTIL_SECONDS)
        ids = [one["id"] for one in client.told() if "sent" in one]

        def are_traced() -> bool:
            kinds = [[one[0] for one in traces_of(broker, name, traces)] for name in ids]
            # The first one was consumed twice.
            return all(set(one) == EVERY for one in kinds) and kinds[0].count("SubAfter") == 2

        assert wait_until(are_traced, UNTIL_SECONDS)
        client.finish()
    return ids


def shown(printed: str) -> list[tuple[str, str, str]]:
    """What mqadmin has printed: kind, group and status of each line, without the heads."""
    lines = [line.split() for line in printed.splitlines()]
    return [(line[0], line[1], line[-1]) for line in lines if line and line[0][0] != "#"]


def test_mqadmin_shows_what_clients_with_traces_have_sent_and_consumed(
    address: str, tmp_path: Path
) -> None:
    mqadmin(tmp_path, address, f"updateTopic -b {address} -t traced -r 2 -w 2")
    first, second, _ = traced(tmp_path, address, address, "traced", CLIENT_TRACES)
    again, once, listed = mqadmin(
        tmp_path,
        address,
        f"queryMsgTraceById -i {first}",
        f"queryMsgTraceById -i {second}",
        "topicList",
    )
    sent = ("Pub", "traced-producers", "success")
    assert shown(once) == [sent, ("Sub", "traced-consumers", "success")]
    failed = ("Sub", "traced-consumers", "failed")
    assert shown(again) == [sent, failed, ("Sub", "traced-consumers", "success")]
    assert CLIENT_TRACES in listed.split()


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_traces_are_shown_as_a_real_rocketmq_has_them_shown(address: str, tmp_path: Path) -> None:
    def story(home: Path, name_servers: str, broker: str) -> list[list[tuple[str, str, str]]]:
        home.mkdir()
        made = f"updateTopic -b {broker} -r 1 -w 1 -t"
        mqadmin(home, name_servers, f"{made} alike", f"{made} own-traces")
        ids = traced(home, name_servers, broker, "alike", "own-traces")
        missing = f"{ids[0][:-4]}FFFF"
        commands = [f"queryMsgTraceById -t own-traces -i {name}" for name in (*ids, missing)]
        *found, nothing = mqadmin(home, name_servers, *commands)
        assert "CODE: 208" in nothing
        return [shown(one) for one in found]

    with RocketCluster() as real:
        theirs = story(tmp_path / "theirs", real.bootstrap, f"127.0.0.1:{real.ports[1]}")
    assert story(tmp_path / "ours", address, address) == theirs
