"""The loads of RocketMQ's clients, beside a broker in memory that is wrong in one way each.

A row is worth something only where its client notices what was lost, refused or made up.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.parts.native import LoadFailed
from benchmarks.peers.java_client import JavaClient

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

CHECK = Path(__file__).with_name("LoadCheck.java")
SILENT_MS = 300
MESSAGES = 100

Started = Callable[[str], JavaClient]


@pytest.fixture
def started() -> Iterator[Started]:
    """Starts the loads beside a broker that does this wrong."""
    if shutil.which("javac") is None:
        pytest.skip("javac is not installed")
    clients: list[JavaClient] = []

    def start(wrong: str) -> JavaClient:
        sources = ("Load.java", str(CHECK))
        clients.append(JavaClient(sources, "", (wrong, str(SILENT_MS)), heap_mib=64))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


def popped(client: JavaClient, first: int = 0) -> dict[str, float]:
    client.command("fill", "topic", first, MESSAGES, 64)
    return client.command("pop", "topic", "group", first, MESSAGES, 4)


def test_what_a_broker_does_right_is_counted(started: Started) -> None:
    client = started("nothing")
    assert popped(client)["messages"] == MESSAGES
    assert popped(client, MESSAGES)["again"] == 0, "numbers go on where the last ones ended"
    paced = client.command("latency", "topic", "group", 1_000, 1, 4)
    assert paced["messages"] == 1_000
    assert 0 <= paced["p50"] <= paced["p99"] <= paced["p999"] <= paced["max"]
    assert client.command("held")["messages"] == 0


@pytest.mark.parametrize("in_flight", [1, 16])
def test_every_answered_send_is_counted_once(started: Started, in_flight: int) -> None:
    client = started("nothing")
    sent = client.command("send", "topic", 2, in_flight, 1, 64)
    assert client.command("held")["messages"] == sent["messages"] > 0
    assert sent["seconds"] >= 1


def test_times_are_told_by_their_ranks_in_microseconds(started: Started) -> None:
    told = started("nothing").command("times", 10_000)
    assert told == {"p50": 5_001.0, "p99": 9_901.0, "p999": 9_991.0, "max": 10_000.0}


def test_a_message_that_is_lost_ends_the_load(started: Started) -> None:
    with pytest.raises(LoadFailed, match="90 of 100 messages came"):
        popped(started("loses"))


def test_a_message_that_is_lost_ends_the_load_that_is_paced(started: Started) -> None:
    with pytest.raises(LoadFailed, match="900 of 1000 messages came"):
        started("loses").command("latency", "topic", "group", 1_000, 1, 4)


def test_a_message_that_nobody_sent_ends_the_load(started: Started) -> None:
    with pytest.raises(LoadFailed, match="messages nobody sent"):
        popped(started("invents"))


def test_a_message_that_comes_twice_is_told(started: Started) -> None:
    assert popped(started("repeats"))["again"] > 0


@pytest.mark.parametrize("in_flight", [1, 16])
def test_a_send_that_is_refused_ends_the_load(started: Started, in_flight: int) -> None:
    with pytest.raises(LoadFailed, match="refused"):
        started("refuses").command("send", "topic", 2, in_flight, 1, 64)


def test_a_commit_that_is_refused_ends_the_load(started: Started) -> None:
    with pytest.raises(LoadFailed, match="refused"):
        started("refuses").command("transactions", "topic", 2, 1)


def test_an_acknowledgement_that_is_refused_ends_the_load(started: Started) -> None:
    with pytest.raises(LoadFailed, match="forgotten"):
        popped(started("forgets"))


def test_a_command_that_there_is_not_is_refused_in_its_words(started: Started) -> None:
    with pytest.raises(LoadFailed, match='no such "command": fly'):
        started("nothing").command("fly")
