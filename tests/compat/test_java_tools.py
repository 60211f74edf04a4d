"""Kafka's own command line tools, and with them the Java clients."""

import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compat.conftest import CODECS
from tests.compat.java_tools import TOOL_SECONDS, tool

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]


def test_topics_are_created_described_grown_listed_and_deleted(bootstrap: str, name: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    tool("kafka-topics", *at, "--create", "--topic", name, "--partitions", "2")
    described = tool("kafka-topics", *at, "--describe", "--topic", name)
    assert "PartitionCount: 2" in described
    tool("kafka-topics", *at, "--alter", "--topic", name, "--partitions", "3")
    assert "PartitionCount: 3" in tool("kafka-topics", *at, "--describe", "--topic", name)
    assert name in tool("kafka-topics", *at, "--list").split()
    again = tool("kafka-topics", *at, "--create", "--topic", name, check=False)
    assert "already exists" in again
    tool("kafka-topics", *at, "--delete", "--topic", name)
    assert name not in tool("kafka-topics", *at, "--list").split()


@pytest.mark.parametrize("codec", CODECS)
def test_console_producer_and_consumer_pass_lines_keys_and_headers(
    bootstrap: str, topic: str, codec: str
) -> None:
    lines = "".join(f"h:{n}\tkey{n}\tvalue {n}\n" for n in range(100))
    properties = [
        "parse.headers=true",
        "parse.key=true",
        "key.separator=\t",
        "headers.delimiter=\t",
    ]
    flags = [flag for one in properties for flag in ("--property", one)]
    at = ("--bootstrap-server", bootstrap, "--topic", topic)
    tool("kafka-console-producer", *at, *flags, "--compression-codec", codec, stdin=lines)
    shown = [flag for what in ("key", "headers") for flag in ("--property", f"print.{what}=true")]
    limits = ("--max-messages", "100", "--timeout-ms", "20000")
    printed = tool("kafka-console-consumer", *at, "--from-beginning", *limits, *shown)
    taken = {line for line in printed.splitlines() if "\tkey" in line}
    assert taken == {f"h:{n}\tkey{n}\tvalue {n}" for n in range(100)}


def test_a_group_is_followed_described_reset_and_deleted(bootstrap: str, topic: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    tool("kafka-console-producer", *at, "--topic", topic, stdin="a\nb\nc\n")
    limits = ("--max-messages", "3", "--timeout-ms", "20000", "--from-beginning")
    tool("kafka-console-consumer", *at, "--topic", topic, "--group", topic, *limits)
    described = tool("kafka-consumer-groups", *at, "--describe", "--group", topic)
    lags = [line.split()[5] for line in described.splitlines() if line.startswith(topic)]
    assert [lag for lag in lags if lag != "-"] == ["0"] * len([lag for lag in lags if lag != "-"])
    assert topic in tool("kafka-consumer-groups", *at, "--list").split()
    reset = ("--reset-offsets", "--to-earliest", "--execute", "--topic", topic)
    tool("kafka-consumer-groups", *at, "--group", topic, *reset)
    described = tool("kafka-consumer-groups", *at, "--describe", "--group", topic)
    lags = [line.split()[5] for line in described.splitlines() if line.startswith(topic)]
    assert sum(int(lag) for lag in lags if lag != "-") == 3
    tool("kafka-consumer-groups", *at, "--delete", "--group", topic)
    assert topic not in tool("kafka-consumer-groups", *at, "--list").split()


def test_topic_configs_are_changed_and_described(bootstrap: str, topic: str) -> None:
    at = ("--bootstrap-server", bootstrap, "--entity-type", "topics", "--entity-name", topic)
    tool("kafka-configs", *at, "--alter", "--add-config", "retention.ms=123456")
    assert "retention.ms=123456" in tool("kafka-configs", *at, "--describe")
    tool("kafka-configs", *at, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms=123456" not in tool("kafka-configs", *at, "--describe")
    refused = tool("kafka-configs", *at, "--alter", "--add-config", "retention.ms=x", check=False)
    assert "InvalidConfiguration" in refused


def test_brokers_groups_and_client_metrics_are_configured(bootstrap: str, name: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    wanted = [
        (("--entity-type", "brokers", "--entity-default"), "log.scrub_interval_ms", "5000"),
        (("--entity-type", "brokers", "--entity-name", "1"), "num.io.threads", "9"),
        (
            ("--entity-type", "groups", "--entity-name", name),
            "share.isolation.level",
            "read_committed",
        ),
        (("--entity-type", "client-metrics", "--entity-name", name), "interval.ms", "1000"),
    ]
    for entity, key, value in wanted:
        tool("kafka-configs", *at, *entity, "--alter", "--add-config", f"{key}={value}")
        assert f"{key}={value}" in tool("kafka-configs", *at, *entity, "--describe")
    groups = tool("kafka-configs", *at, "--entity-type", "groups", "--describe")
    metrics = tool("kafka-client-metrics", *at, "--list")
    assert name in groups
    assert name in metrics
    entity, key, value = wanted[0]
    tool("kafka-configs", *at, *entity, "--alter", "--delete-config", key)
    assert f"{key}={value}" not in tool("kafka-configs", *at, *entity, "--describe")
    entity = ("--entity-type", "brokers", "--entity-name", "1")
    refused = tool(
        "kafka-configs", *at, *entity, "--alter", "--add-config", "num.partitions=3", check=False
    )
    assert "read-only while a broker runs" in refused


def test_offsets_are_shown_and_records_deleted(bootstrap: str, topic: str, tmp_path: Path) -> None:
    at = ("--bootstrap-server", bootstrap)
    tool("kafka-console-producer", *at, "--topic", topic, stdin="x\n" * 50)
    latest = tool("kafka-get-offsets", *at, "--topic", topic, "--time", "latest")
    ends = {int(p): int(o) for p, o in re.findall(rf"{re.escape(topic)}:(\d+):(\d+)", latest)}
    assert sum(ends.values()) == 50
    partition = max(ends, key=lambda one: ends[one])
    wanted = {"topic": topic, "partition": partition, "offset": ends[partition]}
    file = tmp_path / "delete.json"
    file.write_text(json.dumps({"partitions": [wanted], "version": 1}))
    tool("kafka-delete-records", *at, "--offset-json-file", str(file))
    earliest = tool("kafka-get-offsets", *at, "--topic", topic, "--time", "earliest")
    assert f"{topic}:{partition}:{ends[partition]}" in earliest


def test_performance_tools_move_records(bootstrap: str, topic: str) -> None:
    size = ("--num-records", "20000", "--record-size", "200", "--throughput", "-1")
    settings = ("--producer-props", f"bootstrap.servers={bootstrap}", "acks=all")
    produced = tool("kafka-producer-perf-test", "--topic", topic, *size, *settings)
    assert "20000 records sent" in produced
    at = ("--bootstrap-server", bootstrap, "--topic", topic)
    consumed = tool("kafka-consumer-perf-test", *at, "--messages", "20000", "--timeout", "30000")
    assert re.search(r", 20000, ", consumed), consumed


def test_verifiable_clients_agree_on_what_was_sent(bootstrap: str, topic: str) -> None:
    at = ("--bootstrap-server", bootstrap, "--topic", topic)
    sent = tool("kafka-verifiable-producer", *at, "--max-messages", "500", "--acks", "-1")
    assert '"acked":500' in sent.replace(" ", "")
    limits = ("--group-id", topic, "--max-messages", "500", "--reset-policy", "earliest")
    taken = tool("kafka-verifiable-consumer", *at, *limits)
    counts = re.findall(r'"name":"records_consumed".*?"count":(\d+)', taken)
    counts = counts or re.findall(r'"count":(\d+)[^\n]*records_consumed', taken)
    assert sum(int(count) for count in counts) >= 500, taken[-2000:]


def test_the_java_client_reads_the_table_of_versions(bootstrap: str) -> None:
    printed = tool("kafka-broker-api-versions", "--bootstrap-server", bootstrap)
    assert "Produce(0): 0 to" in printed
    assert "[usable: " in printed


EVERY_KEY = {
    "cleanup.policy": "[compact,delete]",
    "compression.type": "zstd",
    "compression.gzip.level": "9",
    "compression.lz4.level": "17",
    "compression.zstd.level": "-7",
    "delete.retention.ms": "1",
    "file.delete.delay.ms": "0",
    "flush.messages": "1",
    "flush.ms": "0",
    "follower.replication.throttled.replicas": "[0:1,1:1]",
    "index.interval.bytes": "0",
    "leader.replication.throttled.replicas": "*",
    "local.retention.bytes": "-1",
    "local.retention.ms": "-1",
    "max.compaction.lag.ms": "9",
    "max.message.bytes": "2147483647",
    "message.timestamp.after.max.ms": "0",
    "message.timestamp.before.max.ms": "5",
    "message.timestamp.type": "LogAppendTime",
    "min.cleanable.dirty.ratio": "0.25",
    "min.compaction.lag.ms": "9",
    "min.insync.replicas": "2",
    "preallocate": "true",
    "remote.log.copy.disable": "true",
    "remote.log.delete.on.disable": "true",
    "retention.bytes": "7",
    "retention.ms": "-1",
    "segment.bytes": "52428800",
    "segment.index.bytes": "4",
    "segment.jitter.ms": "1",
    "segment.ms": "1",
}
"""Each public topic key with another value than the default, but for two that are facts."""
FACTS = {"unclean.leader.election.enable": "false", "remote.storage.enable": "false"}


def test_every_topic_key_of_kafka_is_taken_and_given_back(bootstrap: str, name: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    asked = EVERY_KEY | FACTS
    keys = [flag for key, value in asked.items()
            for flag in ("--config", f"{key}={value.strip('[]')}")]  # fmt: skip
    tool("kafka-topics", *at, "--create", "--topic", name, *keys)
    about = ("--entity-type", "topics", "--entity-name", name)
    described = tool("kafka-configs", *at, *about, "--describe", "--all")
    told = dict(re.findall(r"^  (\S+?)=(\S*) sensitive", described, re.M))
    assert {key: told[key] for key in EVERY_KEY} == {
        key: value.strip("[]") for key, value in EVERY_KEY.items()
    }
    assert {key: told[key] for key in FACTS} == FACTS
    assert len([key for key in told if not key.startswith("penstock.")]) == 33
    assert "DYNAMIC_TOPIC_CONFIG:segment.bytes=52428800" in described
    assert "DEFAULT_CONFIG:log.segment.bytes=1073741824" in described


def test_brokers_are_described_under_kafkas_names(bootstrap: str) -> None:
    about = ("--entity-type", "brokers", "--entity-name", "1")
    described = tool(
        "kafka-configs", "--bootstrap-server", bootstrap, *about, "--describe", "--all"
    )
    assert "  log.retention.hours=168 " in described
    assert "  num.partitions=" in described


def test_the_quorum_is_described(bootstrap: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    status = tool("kafka-metadata-quorum", *at, "describe", "--status")
    assert re.search(r"LeaderId:\s+1\b", status), status
    assert re.search(r"MaxFollowerLag:\s+0\b", status), status
    replication = tool("kafka-metadata-quorum", *at, "describe", "--replication")
    assert re.search(r"^1\s.*Leader", replication, re.M), replication


def test_directories_of_logs_are_described(bootstrap: str, topic: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    tool("kafka-console-producer", *at, "--topic", topic, stdin="x\n" * 50)
    printed = tool("kafka-log-dirs", *at, "--describe", "--topic-list", topic)
    (line,) = [text for text in printed.splitlines() if text.startswith("{")]
    (broker,) = json.loads(line)["brokers"]
    (directory,) = broker["logDirs"]
    assert directory["error"] is None
    partitions = {one["partition"]: one for one in directory["partitions"]}
    assert set(partitions) == {f"{topic}-{at}" for at in range(3)}
    assert sum(partition["size"] for partition in partitions.values()) > 0


def test_endpoints_are_listed_and_a_broker_in_use_is_kept(bootstrap: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    assert bootstrap.rpartition(":")[2] in tool("kafka-cluster", "list-endpoints", *at)
    refused = tool("kafka-cluster", "unregister", *at, "--id", "1", check=False)
    assert "is a member of the replica sets" in refused
    unknown = tool("kafka-cluster", "unregister", *at, "--id", "77", check=False)
    assert "BrokerIdNotRegistered" in unknown or "not registered" in unknown.lower(), unknown


def test_the_producers_of_a_partition_are_described(bootstrap: str, name: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    tool("kafka-topics", *at, "--create", "--topic", name, "--partitions", "1")
    idempotent = ("--producer-property", "enable.idempotence=true")
    tool("kafka-console-producer", *at, "--topic", name, *idempotent, stdin="a\nb\nc\n")
    of_partition = ("describe-producers", "--topic", name, "--partition", "0")
    head, line = tool("kafka-transactions", *at, *of_partition).splitlines()[-2:]
    told = dict(zip(head.split(), line.split(), strict=True))
    assert (told["ProducerEpoch"], told["LastSequence"]) == ("0", "2")
    assert told["LatestCoordinatorEpoch"] == "-1"
    assert told["CurrentTransactionStartOffset"] == "None", "no transaction is open"


def _transactions(bootstrap: str, topic: str, name: str) -> dict[str, str]:
    """Write 2,000 records in many transactions; return what is told of the transactional id."""
    tool(
        "kafka-producer-perf-test", "--topic", topic, "--num-records", "2000",
        "--record-size", "50", "--throughput", "10000", "--transactional-id", name,
        "--transaction-duration-ms", "20", "--producer-props", f"bootstrap.servers={bootstrap}",
    )  # fmt: skip
    of_id = ("describe", "--transactional-id", name)
    head, line = tool("kafka-transactions", "--bootstrap-server", bootstrap, *of_id).splitlines()
    return dict(zip(head.split(), line.split(), strict=False))


def test_the_level_of_a_feature_chooses_the_protocol_of_the_java_producer(
    bootstrap: str, topic: str
) -> None:
    """An epoch of its own for each transaction is what tells the second protocol (KIP-890)."""
    at = ("--bootstrap-server", bootstrap)
    assert int(_transactions(bootstrap, topic, f"{topic}-second")["ProducerEpoch"]) > 1
    try:
        tool("kafka-features", *at, "downgrade", "--feature", "transaction.version=1")
        assert _transactions(bootstrap, topic, f"{topic}-first")["ProducerEpoch"] == "0"
    finally:
        tool("kafka-features", *at, "upgrade", "--feature", "transaction.version=2")
    assert "transaction.version" in tool("kafka-features", *at, "describe")


def test_the_java_tool_ends_a_transaction_in_a_partition(bootstrap: str, topic: str) -> None:
    """By WriteTxnMarkers, as it does with one that hangs."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-open"})
    producer.init_transactions(TOOL_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"v", partition=0)
    assert producer.flush(TOOL_SECONDS) == 0
    place = ("--topic", topic, "--partition", "0")
    tool(
        "kafka-transactions", "--bootstrap-server", bootstrap,
        "abort", *place, "--start-offset", "0",
    )  # fmt: skip
    told = tool("kafka-transactions", "--bootstrap-server", bootstrap, "describe-producers", *place)
    assert told.splitlines()[-1].split()[-1] == "None", "nothing is open"
    producer.abort_transaction(TOOL_SECONDS)


def test_transactions_of_the_java_client_are_read_and_told(bootstrap: str, topic: str) -> None:
    name = f"{topic}-java"
    described = _transactions(bootstrap, topic, name)
    printed = tool(
        "kafka-console-consumer", "--bootstrap-server", bootstrap, "--topic", topic,
        "--from-beginning", "--isolation-level", "read_committed", "--max-messages", "2000",
        "--timeout-ms", "20000",
    )  # fmt: skip
    assert "Processed a total of 2000 messages" in printed
    assert name in tool("kafka-transactions", "--bootstrap-server", bootstrap, "list")
    assert described["TransactionState"] == "CompleteCommit"
    hanging = tool(
        "kafka-transactions", "--bootstrap-server", bootstrap, "find-hanging", "--broker-id", "1"
    )
    assert topic not in hanging
