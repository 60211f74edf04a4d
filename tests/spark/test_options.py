"""What the source and the sink accept, and what they say about the rest."""

import pytest

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
        ({"kafka.security.protocol": "SSL"}, False, "only kafka.bootstrap.servers"),
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
