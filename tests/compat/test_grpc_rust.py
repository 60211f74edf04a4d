"""RocketMQ's stock gRPC client for Rust, unchanged, as producer and consumer; judged by Kafka's."""

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import wait_until
from penstock.controller.commands.command import CreateTopics, NewTopic
from tests.compat.rocketmq_client import CLIENT_SECONDS, RunningClient, running, told_by
from tests.compat.rust import program
from tests.grpc.served import records, running_grpc_node
from tests.live_node import LiveNode
from tests.remoting.signing import SECRETS, keys_file

pytestmark = [pytest.mark.compat, pytest.mark.timeout(1_200)]

COUNT = 20
LATE = 4
PARTITIONS = 3
HALVES = 9
COMMITTED = {f"half {n}" for n in range(HALVES) if n % 3 != 1}
"""Those that are left open too, once they are asked for."""
UNTIL_SECONDS = 120.0
SETTINGS = (
    "remoting.transaction_first_check_ms=2000",
    "remoting.transaction_check_interval_ms=1000",
)

Served = tuple[LiveNode, str]
Told = list[dict[str, Any]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with running_grpc_node(tmp_path_factory.mktemp("grpc"), *SETTINGS) as served:
        yield served


def create(node: LiveNode, name: str, kind: str = "MIXED") -> str:
    new = NewTopic(name=name, partition_count=PARTITIONS, configs={"penstock.message.type": kind})
    node.submit(CreateTopics(topics=(new,)))
    return name


def command(*words: object) -> list[str]:
    """The client with its words; skips with the reason where it is not built."""
    built = program("rocketmq")
    if isinstance(built, str):
        pytest.skip(built)
    return [str(built), *map(str, words)]


def rust(*words: object, code: int = 0, **who: str) -> Told:
    """Let the client do a step; return what it has told."""
    done = subprocess.run(
        command(*words),
        capture_output=True,
        timeout=CLIENT_SECONDS,
        check=False,
        encoding="utf-8",
        env=os.environ | who,
    )
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return told_by(done.stdout)


def bodies(told: Told, what: str) -> list[str]:
    return [one[what] for one in told if what in one]


def test_what_rust_sends_kafka_s_client_reads_with_all_its_parts(served: Served) -> None:
    node, address = served
    topic = create(node, "sent")
    told = rust("send", address, topic, COUNT)
    assert [one["transaction"] for one in told] == [one["id"] for one in told]
    read = {one.value().decode(): one for one in records(node, topic, PARTITIONS, COUNT)}
    assert read.keys() == {one["sent"] for one in told}
    for number, one in enumerate(told):
        record = read[one["sent"]]
        headers = dict(record.headers())
        assert headers["rmq.id"].decode() == one["id"]
        assert headers["rmq.tag"].decode() == f"tag{number % 2}"
        assert headers["rmq.keys"].decode() == f"key-{number}"
        assert headers["colour"].decode() == "grün"
        assert record.key() == (f"group-{number % 4}".encode() if number % 2 else None)


def test_a_simple_consumer_of_rust_receives_what_it_wants_once_with_all_its_parts(
    served: Served,
) -> None:
    node, address = served
    topic = create(node, "wanted")
    ids = {one["sent"]: one["id"] for one in rust("send", address, topic, COUNT)}
    told = rust("simple", address, topic, "readers", COUNT // 2, "tag1 || none")
    assert told[-1] == {"more": 0}, "all of them are acknowledged"
    received = {one["received"]: one for one in told if "received" in one}
    assert sorted(bodies(told, "received")) == sorted(received)
    assert received.keys() == {f"rust-{number}" for number in range(1, COUNT, 2)}
    for body, one in received.items():
        number = int(body.split("-")[1])
        assert (one["id"], one["tag"], one["keys"]) == (ids[body], "tag1", f"key-{number}")
        assert (one["group"], one["colour"], one["attempt"]) == (f"group-{number % 4}", "grün", 1)


def test_a_delayed_message_of_rust_is_there_once_and_never_early(served: Served) -> None:
    node, address = served
    topic = create(node, "late", "DELAY")
    times = {one["sent"]: one["at"] for one in rust("late", address, topic, LATE, 2)}
    read = records(node, topic, PARTITIONS, LATE)
    assert sorted(one.value().decode() for one in read) == sorted(times)
    for one in read:
        assert one.timestamp()[1] >= times[one.value().decode()]


def test_what_rust_leaves_open_is_asked_for_and_what_is_rolled_back_is_never_there(
    served: Served, tmp_path: Path
) -> None:
    node, address = served
    topic = create(node, "halves", "TRANSACTION")
    kept = node.node._rocketmq.keeping
    assert kept is not None
    words = command("half", address, topic, HALVES)
    with running(RunningClient(tmp_path, words)) as client:
        assert wait_until(
            lambda: bodies(client.told(), "checked") and node.call(kept.halves.waiting) == 0,
            UNTIL_SECONDS,
        ), client.told()[-3:]
        told = client.finish()
    assert {*bodies(told, "checked")} == {f"half {n}" for n in range(2, HALVES, 3)}
    got = rust("simple", address, topic, "deciders", len(COMMITTED), "*")
    assert got[-1] == {"more": 0}
    assert Counter(bodies(got, "received")) == Counter(COMMITTED), "each once"
    read = records(node, topic, PARTITIONS, len(COMMITTED))
    assert {one.value().decode() for one in read} == COMMITTED


def test_rust_sends_as_who_signs_and_is_refused_with_another_s_secret(tmp_path: Path) -> None:
    """It signs dates of RFC 3339; with TLS the release of the crate makes no connection."""
    data = tmp_path / "data"
    data.mkdir()
    overrides = (
        "security.listener_security_protocol_map=grpc:SASL_PLAINTEXT",
        f"security.remoting_access_keys_file={keys_file(tmp_path)}",
        "access.authorizer=acl",
        "access.super_users=User:alice",
    )
    with running_grpc_node(data, *overrides) as (node, address):
        topic = create(node, "signed")
        told = rust("send", address, topic, COUNT, ACCESS_KEY="alice", SECRET_KEY=SECRETS["alice"])
        assert len(told) == COUNT
        for user, secret in (("alice", SECRETS["bob"]), ("bob", SECRETS["bob"])):
            who = {"ACCESS_KEY": user, "SECRET_KEY": secret}
            (refused,) = rust("send", address, topic, 1, code=1, **who)
            expected = "UNAUTHORIZED" if user == "alice" else "FORBIDDEN"
            assert expected in refused["refused"].upper()
