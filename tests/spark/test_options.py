"""What the source and the sink accept, and what they say about the rest."""

import pickle
from pathlib import Path

import pytest

from penstock.client.security import ClientSecurity
from penstock.spark.errors import OptionError
from penstock.spark.options import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    sink_options,
    source_options,
)
from penstock.spark.ranges import PartitionName

_BASE = {"bootstrap": "h:1", "subscribe": "t"}


def test_a_batch_reads_everything_and_a_stream_what_is_new() -> None:
    batch = source_options(_BASE, streaming=False)
    assert (batch.starting.special, batch.ending.special) == (EARLIEST, LATEST)
    assert source_options(_BASE, streaming=True).starting.special == LATEST


def test_names_of_sparks_kafka_source_are_understood_in_any_case() -> None:
    options = source_options(
        {
            "Kafka.Bootstrap.Servers": "h:1",
            "SUBSCRIBEPATTERN": "a.*",
            "startingoffsets": '{"t": {"0": 5, "1": -2}}',
            "maxOffsetsPerTrigger": "10",
            "maxTriggerDelay": "30s",
            "failOnDataLoss": "false",
            "includeHeaders": "true",
        },
        streaming=True,
    )
    assert options.bootstrap == "h:1"
    assert options.subscribe_pattern == "a.*"
    assert options.starting.offsets == {PartitionName("t", 0): 5, PartitionName("t", 1): EARLIEST}
    assert (options.records_per_trigger_max, options.trigger_delay_ms_max) == (10, 30_000)
    assert (options.fail_on_data_loss, options.include_headers) == (False, True)


def test_a_timestamp_wins_over_offsets() -> None:
    given = _BASE | {"startingTimestamp": "1000", "startingOffsets": "latest"}
    starting = source_options(given, streaming=True).starting
    assert (starting.timestamp_ms, starting.offsets) == (1000, None)


@pytest.mark.parametrize(
    ("extra", "streaming", "words"),
    [
        ({"kafka.linger.ms": "5"}, False, "only kafka.bootstrap.servers"),
        ({"kafka.security.protocol": "TLS"}, False, "'TLS' is not one of PLAINTEXT, SSL"),
        ({"ssl.ca.location": "/ca"}, False, "ssl.ca.location is given without security.protocol"),
        ({"security.protocol": "SASL_SSL"}, True, "sasl.mechanism '' is not one of PLAIN"),
        ({"security.protocol": "SSL", "clientConfig": "/c"}, False, "clientConfig or security.p"),
        (
            {"security.protocol": "SSL", "kafka.security.protocol": "PLAINTEXT"},
            False,
            "give one of security.protocol and kafka.security.protocol",
        ),
        ({"clientConfig": "/nowhere"}, True, "/nowhere can not be read: .* every executor"),
        ({"kafka.ssl.truststore.location": "/t"}, False, r"give ssl.ca.location \(PEM\)"),
        ({"startingOffset": "earliest"}, False, "did you mean startingoffsets"),
        ({"endingOffsets": "latest"}, True, "no meaning in a stream"),
        ({"maxOffsetsPerTrigger": "5"}, False, "for streams"),
        ({"startingOffsets": "latest"}, False, "can not be latest"),
        ({"endingOffsets": '{"t": {"0": -2}}'}, False, "can not be -2"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, True, "-2"),
        ({"startingTimestamp": "noon"}, False, "milliseconds"),
        ({"assign": '{"t": [0]}'}, False, "exactly one"),
        ({"failOnDataLoss": "yes"}, False, "true or false"),
        ({"minPartitions": "0"}, False, "above 0"),
        ({"bootstrap.servers": "other:1"}, False, "one bootstrap"),
        ({"maxTriggerDelay": "soon"}, True, "duration"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, False, "error or latest"),
    ],
)
def test_what_can_not_be_used_is_said_in_a_sentence(
    extra: dict[str, str], streaming: bool, words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        source_options(_BASE | extra, streaming=streaming)


@pytest.mark.parametrize(
    "name",
    [
        *("sasl.password", "kafka.sasl.password", "kafka.sasl.oauthbearer.client.secret"),
        *("KAFKA.SASL.JAAS.CONFIG", "kafka.ssl.keystore.password", "kafka.ssl.keystore.key"),
        *("kafka.ssl.key.password", "kafka.ssl.truststore.password"),
    ],
)
def test_a_secret_is_refused_as_an_option_and_not_repeated(name: str) -> None:
    with pytest.raises(OptionError, match=f"option {name.lower()}: a secret is not") as refused:
        source_options(_BASE | {name: "hunter2"}, streaming=True)
    assert "hunter2" not in str(refused.value)
    with pytest.raises(OptionError, match="a secret is not"):
        sink_options({"bootstrap": "h:1", "topic": "t", name: "hunter2"}, streaming=False)


@pytest.mark.parametrize("prefix", ["", "kafka.", "Kafka."])
def test_settings_of_tls_and_sasl_become_those_of_the_client(prefix: str, tmp_path: Path) -> None:
    password = tmp_path / "password"
    settings = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/ca",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "reader",
        "sasl.password.file": str(password),
    }
    given = _BASE | {prefix + name: value for name, value in settings.items()}
    options = source_options(given, streaming=False).security
    found = options.load()
    assert (found.protocol, found.authority_file, found.user) == ("SASL_SSL", "/ca", "reader")
    assert (found.mechanism, found.password, found.is_token) == ("SCRAM-SHA-256", "", False)
    assert (
        source_options(given | {"sasl.tokenauth": "true"}, streaming=False).security.load().is_token
    )
    assert source_options(_BASE, streaming=False).security.load() == ClientSecurity()


def test_what_goes_to_executors_has_no_secret_and_is_read_there(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    text = (
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.method=oidc\n"
        "sasl.oauthbearer.token.endpoint.url=https://h/token\nsasl.oauthbearer.client.id=i\n"
        "sasl.oauthbearer.client.secret="
    )
    file.write_text(f"{text}hunter2")
    options = source_options(_BASE | {"clientConfig": str(file)}, streaming=True)
    travelled = pickle.dumps(options)
    assert b"hunter2" not in travelled
    assert pickle.loads(travelled).security.load().client_secret == "hunter2"
    assert options.security.load() is options.security.load(), "a provider's token is kept"
    file.write_text(f"{text}hunter3")
    assert options.security.load().client_secret == "hunter3"


def test_a_source_without_brokers_or_topics_says_how_to_give_them() -> None:
    with pytest.raises(OptionError, match="bootstrap"):
        source_options({"subscribe": "t"}, streaming=False)
    with pytest.raises(OptionError, match="subscribe"):
        source_options({"bootstrap": "h:1"}, streaming=False)
    with pytest.raises(OptionError, match="subscribePattern"):
        source_options({"bootstrap": "h:1", "subscribePattern": "("}, streaming=False)


def test_sink_options_are_checked() -> None:
    given = {"bootstrap": "h:1", "topic": "t", "compression": "LZ4"}
    options = sink_options(given, streaming=False)
    assert (options.topic, options.compression) == ("t", "lz4")
    with pytest.raises(OptionError, match="choose one of"):
        sink_options({"bootstrap": "h:1", "compression": "rar"}, streaming=False)
    with pytest.raises(OptionError, match="sink"):
        sink_options({"bootstrap": "h:1", "subscribe": "t"}, streaming=False)


def test_the_sink_delivers_exactly_once_if_it_is_not_told_otherwise() -> None:
    given = {"bootstrap": "h:1", "topic": "t"}
    batch = sink_options(given, streaming=False)
    assert (batch.is_exactly_once, batch.transaction_timeout_ms) == (True, 900_000)
    stream = sink_options(given | {"checkpointLocation": "/c"}, streaming=True)
    assert (stream.is_exactly_once, stream.checkpoint) == (True, "/c")
    loose = sink_options(given | {"delivery": "At-Least-Once"}, streaming=True)
    assert not loose.is_exactly_once
    with pytest.raises(OptionError, match=r"say where with .option..checkpointLocation"):
        sink_options(given, streaming=True)
    with pytest.raises(OptionError, match="exactly-once or at-least-once, not 'twice'"):
        sink_options(given | {"delivery": "twice"}, streaming=False)
    with pytest.raises(OptionError, match="transactionTimeout: at least 1s"):
        sink_options(given | {"transactionTimeout": "10ms"}, streaming=False)


def test_isolation_has_kafkas_names_and_is_committed_by_default() -> None:
    assert source_options(_BASE, streaming=True).isolation == READ_COMMITTED
    for name in ("isolation", "kafka.isolation.level"):
        given = _BASE | {name: "READ_UNCOMMITTED"}
        assert source_options(given, streaming=False).isolation == READ_UNCOMMITTED
    both = {"isolation": "read_committed", "kafka.isolation.level": "read_uncommitted"}
    with pytest.raises(OptionError, match="give one of"):
        source_options(_BASE | both, streaming=False)
    with pytest.raises(OptionError, match="read_committed or read_uncommitted, not 'serializable'"):
        source_options(_BASE | {"isolation": "serializable"}, streaming=False)
