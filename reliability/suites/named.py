"""Which clients' tests can be run, with what they need, and what is known not to pass."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from harness.node import SettingsOf
from reliability.suites.c_suite import fetch_librdkafka, run_librdkafka
from reliability.suites.go_suites import fetch_module, replace_in, run_go
from reliability.suites.model import Call, Outcomes, Suite
from reliability.suites.python_suite import fetch_package, run_kafka_python

FRANZ_GO, FRANZ_GO_VERSION = "github.com/twmb/franz-go", "v1.22.3"
KAFKA_GO, KAFKA_GO_VERSION = "github.com/segmentio/kafka-go", "v0.4.51"
KAFKA_PYTHON_VERSION = "3.0.12"
LIBRDKAFKA_VERSION = "2.14.2"
SARAMA, SARAMA_VERSION = "github.com/IBM/sarama", "v1.61.1"

_TEST = re.compile(r"^func (Test\w+)", re.MULTILINE)

SARAMA_SPEAKS = "4.1.0"
"""The release of Kafka that sarama's tests are told."""

RECORDS = 20_000
"""Of franz-go's long tests, instead of 500,000."""

OF_SUITES: SettingsOf = {
    "broker": {"auto_create_topics": True},
    "log": {"level0_ms": 1000},
    "access": {
        "authorizer": "acl",
        "super_users": ["User:adminplain"],
        "allow_everyone_if_no_acl_found": True,
    },
}
"""Topics are made by their use, as in Kafka by default; compacted ones are cleaned; rules exist."""


def _fetch_franz_go(work: Path) -> Path:
    return fetch_module(work, FRANZ_GO, FRANZ_GO_VERSION)


def _run_franz_go(given: Call) -> Outcomes:
    env = {
        "KGO_SEEDS": given.nodes.bootstrap,
        "KGO_TEST_RF": "3",
        "KGO_TEST_RECORDS": str(RECORDS),
        "KGO_LOG_LEVEL": "none",
    }
    return run_go(given, ["./pkg/kgo"], env=env)


def _fetch_kafka_go(work: Path) -> Path:
    source = fetch_module(work, KAFKA_GO, KAFKA_GO_VERSION)
    connects = (
        "\tcg.config.Timeout = 10 * time.Second\n\tcg.config.connect = makeConnect(cg.config)\n"
    )
    # Without these its `getOffsets` ends the whole run with a nil pointer.
    found = "\tconn, err := cg.coordinator()\n\tif err != nil {\n\t\tt.Errorf("
    replace_in([source / "reader_test.go"], found, connects + found)
    return source


def _run_kafka_go(given: Call) -> Outcomes:
    port, login = given.nodes.first.rpartition(":")[2], given.nodes.login_port
    texts = [*given.source.glob("*_test.go"), given.source / "dialer.go"]  # the port by default
    replace_in(texts, "9092", port)
    replace_in(texts, "9093", str(login))
    return run_go(given, ["."], env={"KAFKA_VERSION": "3.7.0"}, more=["-mod=mod"])


def _fetch_kafka_python(work: Path) -> Path:
    return fetch_package(work, "kafka-python", KAFKA_PYTHON_VERSION)


def _fetch_sarama(work: Path) -> Path:
    source = fetch_module(work, SARAMA, SARAMA_VERSION)
    fixed = 'fmt.Sprintf("127.0.0.1:%d", 29090+i)'
    given = 'strings.Split(os.Getenv("PROXIED"), ",")[i-1]'
    replace_in([source / "functional_test.go"], fixed, given)
    return source


def _run_sarama(given: Call) -> Outcomes:
    env = {
        "TOXIPROXY_ADDR": given.nodes.proxy_api,
        "PROXIED": ",".join(given.nodes.proxied),
        "KAFKA_VERSION": SARAMA_SPEAKS,
        "PATH": f"{given.nodes.commands}:{os.environ['PATH']}",
    }
    functional = [*given.source.glob("functional_*_test.go")]
    names = [name for path in functional for name in _TEST.findall(path.read_text())]
    call = given if given.only else replace(given, only=f"^({'|'.join(names)})$")
    return run_go(call, ["."], env=env, more=["-tags=functional", "-mod=mod"])


def _fetch_librdkafka(work: Path) -> Path:
    return fetch_librdkafka(work, LIBRDKAFKA_VERSION)


SUITES: Mapping[str, Suite] = {
    "franz-go": Suite(
        client="franz-go",
        version=FRANZ_GO_VERSION,
        fetch=_fetch_franz_go,
        run=_run_franz_go,
        settings=OF_SUITES,
    ),
    "kafka-go": Suite(
        client="kafka-go",
        version=KAFKA_GO_VERSION,
        fetch=_fetch_kafka_go,
        run=_run_kafka_go,
        node_ids=(1,),
        settings={**OF_SUITES, "node": {"advertised_host": "localhost"}},
        known={
            "TestReaderConsumerGroup": "its part `consumer group rebalance`, at Kafka 4.1 as well",
            "TestReaderReadCompactedMessage": "segment.bytes=200, which Kafka 4.0 refuses as well",
        },
    ),
    "kafka-python": Suite(
        client="kafka-python",
        version=KAFKA_PYTHON_VERSION,
        fetch=_fetch_kafka_python,
        run=run_kafka_python,
        node_ids=(0,),
        settings={
            **OF_SUITES,
            "groups": {"session_timeout_min_ms": 1000},
            "controller": {"default_partitions": 4},
        },
        known={"test_alter_replica_log_dirs": "replicas are not moved between log directories"},
    ),
    "librdkafka": Suite(
        client="librdkafka",
        version=LIBRDKAFKA_VERSION,
        fetch=_fetch_librdkafka,
        run=run_librdkafka,
        settings={**OF_SUITES, "controller": {"default_partitions": 4}},
        known={
            "0077_compaction": "segment.bytes below 1 MiB, which Kafka 4.0 refuses (KIP-1030)",
            "0081_admin": "wants replicas in the order that it gave; they are in that of their set",
            "0129_fetch_aborted_msgs": "segment.bytes below 1 MiB, as 0077",
        },
    ),
    "sarama": Suite(
        client="sarama",
        version=SARAMA_VERSION,
        fetch=_fetch_sarama,
        run=_run_sarama,
        node_ids=(1, 2, 3, 4, 5),
        is_proxied=True,
        settings={
            "groups": {"initial_rebalance_delay_ms": 0},
            "broker": {"slave_reads": "rack"},
        },
        known={
            "TestFuncAdminAlterPartitionReassignments": "replicas are those of the topic's set",
            "TestFuncIdempotentBufferedSequence": "looks for an exception in Kafka's own log",
        },
    ),
}
