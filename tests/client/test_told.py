"""A change of a topic is waited for at each broker, within bounds."""

import socket
from collections.abc import Callable
from pathlib import Path

from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.errors import BrokerError, ConnectionFailed
from penstock.client.settings import ClientSettings
from penstock.client.told import all_told, wait_until_told
from penstock.client.views import TopicView
from penstock.protocol.error_codes import ErrorCode
from tests.live_node import running_node

TOPIC = TopicView(name="t", topic_id=None, is_internal=False, partitions=())


class Brokers:
    """What each says, answer by answer; its last one stays."""

    def __init__(self, **says: list[TopicView | Exception | None]) -> None:
        self._says = {int(name[1:]): answers for name, answers in says.items()}
        self.asked: list[int] = []

    def told(self, is_told: Callable[[TopicView | None], bool], asks_max: int = 100) -> bool:
        return all_told(
            self._says,
            self._ask,
            is_told,
            is_over=lambda: len(self.asked) >= asks_max,
            pause=lambda: None,
        )

    def _ask(self, broker_id: int) -> TopicView | None:
        self.asked.append(broker_id)
        answers = self._says[broker_id]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def _is_there(view: TopicView | None) -> bool:
    return view is not None


def test_a_broker_that_is_late_is_asked_until_it_tells() -> None:
    brokers = Brokers(b1=[TOPIC], b2=[None, None, TOPIC], b3=[TOPIC])
    assert brokers.told(_is_there)
    assert brokers.asked == [1, 2, 2, 2, 3]


def test_a_topic_without_a_leader_yet_is_asked_about_again() -> None:
    none_yet = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "t")
    brokers = Brokers(b1=[none_yet, TOPIC])
    assert brokers.told(_is_there)
    assert brokers.asked == [1, 1]


def test_a_broker_that_does_not_answer_is_not_waited_for() -> None:
    brokers = Brokers(b1=[ConnectionFailed("b1", "refused")], b2=[None, TOPIC])
    assert brokers.told(_is_there)
    assert brokers.asked == [1, 2, 2]


def test_a_broker_that_never_tells_is_waited_for_within_a_bound() -> None:
    brokers = Brokers(b1=[None], b2=[TOPIC])
    assert not brokers.told(_is_there, asks_max=7)
    assert brokers.asked == [1] * 7


def test_a_real_broker_tells_of_what_is_there_and_what_is_not(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        settings = ClientSettings(bootstrap=f"127.0.0.1:{node.port}", deadline_ms=120_000)
        with Cluster(settings) as cluster:
            assert wait_until_told(cluster, "absent", lambda told: told is None)
            Admin(cluster).create_topic("there", partitions=3)
            assert wait_until_told(
                cluster, "there", lambda told: told is not None and len(told.partitions) == 3
            )


def test_no_broker_at_all_is_no_error_of_the_change() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with Cluster(ClientSettings(bootstrap=f"127.0.0.1:{port}", deadline_ms=100)) as cluster:
        assert not wait_until_told(cluster, "t", _is_there)
