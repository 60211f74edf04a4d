"""`penstock message find`, against a node with a port for RocketMQ's clients."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting.wire.codes import RequestCode
from tests.live_node import LiveNode
from tests.remoting.served import Remote, running_remoting_node, sent


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running_remoting_node(tmp_path_factory.mktemp("message")) as served:
        served[0].submit(CreateTopics(topics=(NewTopic(name="orders", partition_count=3),)))
        with closing(Remote(served[1])) as remote:
            for number in range(3):
                properties = {
                    "KEYS": f"order-{number} all",
                    "UNIQ_KEY": f"AB0{number}",
                    "TAGS": "t",
                }
                fields = sent("orders", properties, e=number, g=1_000 + number)
                answer = remote.ask(RequestCode.SEND_MESSAGE_V2, fields, b"body %d" % number)
                assert answer.code == 0, answer.remark
        yield served


def run(address: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock.cli.main", "message", "find", *arguments]
    return subprocess.run(
        [*command, "--bootstrap", address], capture_output=True, text=True, check=False, timeout=120
    )


def found(address: str, *arguments: str) -> list[dict[str, Any]]:
    done = run(address, *arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    documents: list[dict[str, Any]] = json.loads(done.stdout)
    return documents


def test_a_message_is_found_by_its_key(served: tuple[LiveNode, str]) -> None:
    (one,) = found(served[1], "orders", "--key", "order-1")
    assert (one["topic"], one["partition"], one["offset"]) == ("orders", 1, 0)
    assert (one["value"], one["timestamp_ms"]) == ("body 1", 1_001)
    assert one["properties"]["UNIQ_KEY"] == "AB01"


def test_a_message_is_found_by_its_id_as_a_table(served: tuple[LiveNode, str]) -> None:
    done = run(served[1], "orders", "--id", "AB02")
    head, row = done.stdout.splitlines()
    assert head.split() == ["PARTITION", "OFFSET", "TIME", "ID", "KEYS", "TAG", "BYTES"]
    assert row.split()[:2] == ["2", "0"]
    assert row.split()[-5:] == ["AB02", "order-2", "all", "t", "6"]


def test_the_newest_are_first(served: tuple[LiveNode, str]) -> None:
    assert [one["partition"] for one in found(served[1], "orders", "--key", "all")] == [2, 1, 0]
    newest = found(served[1], "orders", "--key", "all", "--count", "2")
    assert [one["partition"] for one in newest] == [2, 1]


def test_a_record_of_kafka_is_found_by_its_key(served: tuple[LiveNode, str]) -> None:
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{served[0].port}"})
    producer.produce("orders", b"\xff", b"customer 7", partition=0)
    assert not producer.flush(30)
    (one,) = found(served[1], "orders", "--key", "customer 7")
    assert (one["partition"], one["value_base64"]) == (0, "/w==")


def test_what_is_not_there_is_said_with_an_exit_code(served: tuple[LiveNode, str]) -> None:
    done = run(served[1], "orders", "--key", "nothing")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no such message" in done.stderr
    done = run(served[1], "missing", "--key", "nothing")
    assert done.returncode == 1
    assert "missing" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("--key", "k", "--id", "i"), ("--key", "")])
def test_either_a_key_or_an_id_is_wanted(
    served: tuple[LiveNode, str], arguments: tuple[str, ...]
) -> None:
    done = run(served[1], "orders", *arguments)
    assert done.returncode == 2
    assert "either --key or --id" in done.stderr
