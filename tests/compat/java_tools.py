"""Kafka's own command line tools, run from their jars."""

import subprocess
from pathlib import Path

import pytest

from harness.maven import jars

TOOL_SECONDS = 60

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
    "kafka-share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}


def jars_or_skip(project: str) -> tuple[Path, ...]:
    """Return the jars, or skip the test with the reason."""
    found = jars(project)
    if isinstance(found, str):
        pytest.skip(found)
    return found


def tool(
    name: str,
    *arguments: str,
    stdin: str = "",
    check: bool = True,
    project: str = "kafka-tools",
) -> str:
    """Run one of Kafka's tools; return what it printed. `check` asserts that it succeeded.

    `project` says of which version of Kafka: a directory of tests/compat/java.
    """
    class_path = ":".join(str(jar) for jar in jars_or_skip(project))
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    done = subprocess.run(
        [*command, "-cp", class_path, TOOLS[name], *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS,
        check=False,
    )
    printed = done.stdout + done.stderr
    if check:
        assert done.returncode == 0, f"{name} {' '.join(arguments)}: {printed}"
    return printed
