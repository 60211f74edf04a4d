"""Times of a message's own, as remoting clients of RocketMQ 5 ask for them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting.config import DELAY_MS_MAX, DELAY_MS_MOST
from penstock.remoting.errors import IllegalMessage
from penstock.remoting.later.timers import is_late, until_ms
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.properties import read_properties
from tests.broker.cluster import Cluster
from tests.live_node import LiveNode
from tests.remoting.served import Remote, running_remoting_node, sent
from tests.remoting.world import SET, Remoting, look, remotings, settle

SEND = RequestCode.SEND_MESSAGE_V2
SECOND = 1_000
NOW = 1_700_000_000_000


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(2)
    cluster.create("events", partitions=2)
    return cluster


def ask(
    cluster: Cluster, remote: Remoting, properties: Mapping[str, str], **fields: int
) -> Command:
    """Send a message; return the answer."""
    told = {"UNIQ_KEY": "ID", **properties}
    asked = remote.send(SEND, sent("events", told, n=SET, **fields), b"body")
    cluster.world.run()
    cluster.replicate()
    answer = remote.answer(asked)
    assert answer is not None
    return answer


def pass_time(cluster: Cluster, ms: int) -> None:
    """Let time pass, with a look each 100 ms."""
    for _ in range(ms // 100):
        cluster.world.advance(100)
        look(cluster)
        cluster.replicate()


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_a_message_comes_at_its_time_and_a_second_late_at_most(cluster: Cluster, name: str) -> None:
    remote, _ = remotings(cluster)
    begun_ms = cluster.world.wall_ms()
    text = {
        "TIMER_DELAY_SEC": "7",
        "TIMER_DELAY_MS": "7000",
        "TIMER_DELIVER_MS": str(begun_ms + 7 * SECOND),
    }[name]
    assert ask(cluster, remote, {name: text}).code == ResponseCode.SUCCESS
    while not (messages := remote.pull("events")):
        pass_time(cluster, 100)
        assert cluster.world.wall_ms() <= begun_ms + 8 * SECOND + 100, "it is late"
    (one,) = messages
    assert one.store_ms >= begun_ms + 7 * SECOND, "it is early"
    assert read_properties(one.properties)[name] == text
    assert remote.pull("events", 1) == []


def test_it_comes_from_the_next_master_at_its_time(cluster: Cluster) -> None:
    remote, other = remotings(cluster)
    begun_ms = cluster.world.wall_ms()
    assert ask(cluster, remote, {"TIMER_DELAY_SEC": "40"}).code == ResponseCode.SUCCESS
    pass_time(cluster, 32 * SECOND)  # it has gone from one level to another
    cluster.lead(1)
    pass_time(cluster, 7 * SECOND)
    assert other.pull("events") == []
    pass_time(cluster, 2 * SECOND)
    settle(cluster)
    (one,) = other.pull("events")
    assert begun_ms + 40 * SECOND <= one.store_ms <= begun_ms + 41 * SECOND


@pytest.mark.parametrize("text", ["0", "-5", "-999999999999999999"])
def test_a_time_that_is_over_is_now(cluster: Cluster, text: str) -> None:
    """The answer has its place in the queue, as that of any other message."""
    remote, _ = remotings(cluster)
    first = ask(cluster, remote, {"TIMER_DELAY_SEC": text})
    second = ask(cluster, remote, {"TIMER_DELIVER_MS": str(cluster.world.wall_ms())})
    assert [one.fields["queueOffset"] for one in (first, second)] == ["0", "1"]
    assert not first.fields["msgId"].endswith("7FFFFFFFFFFFFFFF")
    assert len(remote.pull("events")) == 2


def test_a_level_counts_before_a_time(cluster: Cluster) -> None:
    """As with RocketMQ: a consumer's message that is sent again has a time that is over."""
    remote, _ = remotings(cluster)
    properties = {"DELAY": "2", "TIMER_DELIVER_MS": "1", "TIMER_DELAY_SEC": "x"}
    assert ask(cluster, remote, properties).code == ResponseCode.SUCCESS
    pass_time(cluster, 4 * SECOND)
    assert remote.pull("events") == []
    pass_time(cluster, 1_500)
    assert len(remote.pull("events")) == 1


@pytest.mark.parametrize(
    "text", ["", "x", "1.5", "5 ", "²", "-", "+", "--1", "1" * 19, "9" * 5_000]
)
def test_a_time_that_is_none_is_refused(text: str) -> None:
    for name in ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"):
        with pytest.raises(IllegalMessage, match="is no number"):
            until_ms({name: text}, NOW, DELAY_MS_MAX)


@pytest.mark.parametrize("most_ms", [DELAY_MS_MAX, DELAY_MS_MOST])
def test_a_time_is_as_far_away_as_is_set_and_no_further(most_ms: int) -> None:
    most_s = most_ms // SECOND
    assert until_ms({"TIMER_DELAY_SEC": str(most_s)}, NOW, most_ms) == NOW + most_ms
    assert until_ms({"TIMER_DELIVER_MS": str(NOW + most_ms)}, NOW, most_ms) == NOW + most_ms
    for properties in (
        {"TIMER_DELAY_SEC": str(most_s + 1)},
        {"TIMER_DELAY_MS": str(most_ms + 1)},
        {"TIMER_DELIVER_MS": str(NOW + most_ms + 1)},
        {"TIMER_DELAY_SEC": "9" * 18},
    ):
        with pytest.raises(IllegalMessage, match=f"bigger than the max delay {most_ms}ms"):
            until_ms(properties, NOW, most_ms)


def test_seconds_count_before_milliseconds_and_these_before_a_time() -> None:
    told = {"TIMER_DELIVER_MS": str(NOW + 1), "TIMER_DELAY_MS": "20", "TIMER_DELAY_SEC": "3"}
    assert until_ms(told, NOW, DELAY_MS_MAX) == NOW + 3_000
    del told["TIMER_DELAY_SEC"]
    assert until_ms(told, NOW, DELAY_MS_MAX) == NOW + 20
    assert until_ms({}, NOW, DELAY_MS_MAX) == 0
    assert (is_late(told), is_late({"DELAY": "1"}), is_late({"DELAY": "0"})) == (True, True, False)


def test_a_half_message_has_no_time(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    answer = ask(cluster, remote, {"PGROUP": "p", "TIMER_DELAY_SEC": "1"}, f=4)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "no delay" in (answer.remark or "")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    directory: Path = tmp_path_factory.mktemp("timers")
    with running_remoting_node(directory, f"remoting.delay_ms_max={DELAY_MS_MOST}") as served:
        yield served


def test_the_setting_says_how_far_away_a_time_may_be(served: tuple[LiveNode, str]) -> None:
    node, address = served
    node.submit(CreateTopics(topics=(NewTopic(name="far", partition_count=1),)))
    remote = Remote(address)
    codes = [
        remote.ask(SEND, sent("far", {"UNIQ_KEY": "a", "TIMER_DELAY_SEC": str(seconds)}), b"b").code
        for seconds in (40 * 86_400, 40 * 86_400 + 1)
    ]
    remote.close()
    assert codes == [ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL]
