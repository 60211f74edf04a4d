"""`penstock group` of share groups: what a stock member has, and where shares begin."""

import json
import os
import signal
import time

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from harness.waiting import UNTIL_SECONDS, wait_until
from tests.cli.launched import launched
from tests.cli.test_up import failed

pytestmark = pytest.mark.process
GROUP, TOPIC = "workers", "jobs"


def described(up) -> dict:
    return json.loads(up.run("group", "describe", GROUP, "-o", "json"))


def accept(consumer, count: int) -> None:
    """Accept so many records, and no more of what came."""
    deadline = time.monotonic() + UNTIL_SECONDS
    while count:
        assert time.monotonic() < deadline, count
        for record in consumer.poll(0.5):
            assert record.error() is None
            kind = AcknowledgeType.ACCEPT if count else AcknowledgeType.RELEASE
            consumer.acknowledge(record, kind)
            count -= kind is AcknowledgeType.ACCEPT
        assert not any(consumer.commit_sync(UNTIL_SECONDS).values())


def test_a_share_group_is_described_moved_and_deleted(tmp_path):
    with launched(tmp_path / "data") as up:
        up.run("topic", "create", TOPIC)
        up.run("config", "set", "group", GROUP, "share.auto.offset.reset=earliest")
        up.run("produce", TOPIC, stdin=b"a\nb\nc\n")
        consumer = ShareConsumer(
            {
                "bootstrap.servers": up.bootstrap,
                "group.id": GROUP,
                "share.acknowledgement.mode": "explicit",
                "log_level": 0,
            }
        )
        consumer.subscribe([TOPIC])
        accept(consumer, 2)
        told = described(up)
        assert (told["type"], told["state"], told["members"]) == ("share", "Stable", 1)
        (row,) = told["partitions"]
        assert (row["topic"], row["partition"], row["start"], row["lag"]) == (TOPIC, 0, 2, 1)
        assert row["members"]
        assert row["in_flight"] + sum(row["delivered"].values()) >= 1, row
        assert {"IN_FLIGHT", "DELIVERED"} < {*up.run("group", "describe", GROUP).split()}
        assert "1 members" in failed(up, "group", "reset", GROUP, "--to", "beginning")
        consumer.close()
        assert wait_until(lambda: described(up)["state"] == "Empty", UNTIL_SECONDS)
        reset = ("group", "reset", GROUP, "--to", "beginning", "-o", "json")
        moved = [{"topic": TOPIC, "partition": 0, "before": 2, "after": 0}]
        assert json.loads(up.run(*reset, "--dry-run")) == moved
        assert described(up)["partitions"][0]["start"] == 2
        assert json.loads(up.run(*reset)) == moved
        (row,) = described(up)["partitions"]
        assert (row["start"], row["lag"], row["members"]) == (0, 3, None)
        assert any(
            GROUP in line and "share" in line for line in up.run("group", "list").split("\n")
        )
        up.run("group", "delete", GROUP)
        assert GROUP not in up.run("group", "list")
        code, _, unknown = up.try_to_run("group", "reset", GROUP, "--to", "end", "--dry-run")
        assert code == 2
        assert f"group {GROUP} does not exist: name topics" in unknown


def test_a_share_group_is_administered_where_other_nodes_lead_its_data(tmp_path):
    with launched(tmp_path / "data", "--nodes", "3") as up:
        up.run("topic", "create", TOPIC, "--partitions", "3")
        up.run("config", "set", "group", GROUP, "share.auto.offset.reset=earliest")
        up.run("produce", TOPIC, stdin=b"a\nb\nc\n")
        consumer = ShareConsumer(
            {
                "bootstrap.servers": up.bootstrap,
                "group.id": GROUP,
                "share.acknowledgement.mode": "explicit",
                "log_level": 0,
            }
        )
        consumer.subscribe([TOPIC])
        accept(consumer, 3)
        consumer.close()

        def begun():
            return [row for row in described(up)["partitions"] if row["start"] is not None]

        assert wait_until(lambda: described(up)["state"] == "Empty", UNTIL_SECONDS)
        assert sum(row["start"] for row in begun()) == 3
        assert {row["in_flight"] for row in begun()} == {0}
        up.run("group", "reset", GROUP, "--to", "beginning")
        assert {row["start"] for row in begun()} == {0}
        up.run("group", "delete", GROUP)
        assert GROUP not in up.run("group", "list")


def test_a_command_says_whom_it_waits_for_and_ends_where_a_master_does_not_answer(tmp_path):
    with launched(tmp_path / "data", "--nodes", "3") as up:
        up.run("topic", "create", TOPIC, "--partitions", "3", "--replicas", "1")
        consumer = ShareConsumer(
            {"bootstrap.servers": up.bootstrap, "group.id": GROUP, "log_level": 0}
        )
        consumer.subscribe([TOPIC])
        consumer.poll(0.5)
        assert wait_until(lambda: len(described(up)["partitions"]) == 3, UNTIL_SECONDS)
        consumer.close()
        topic = json.loads(up.run("topic", "describe", TOPIC, "-o", "json"))
        silent = max(row["leader"] for row in topic["partitions"])
        assert silent != 1, "commands ask node 1"
        pid = int((up.directory / f"node-{silent}" / "pid").read_text())
        os.kill(pid, signal.SIGSTOP)
        try:
            code, out, errors = up.try_to_run("group", "describe", GROUP)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert (code, out) == (1, "")
        waiting, failure = errors.splitlines()
        who = f"the coordinator of group {GROUP} and the brokers that lead its topics"
        assert waiting == f"waiting for {who}, for about 15 s at most"
        assert failure.startswith(f"penstock: {who} did not answer in time: see whether")
