"""GetTelemetrySubscriptions and PushTelemetry on a live node: what is taken and what is refused."""

import gzip
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from penstock.broker.audit import client_metrics as sink
from penstock.broker.audit.client_metrics import ClientMetrics
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.record.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from penstock.record.read import iter_batches, iter_records
from penstock.telemetry.instances import INSTANCE_BYTES
from penstock.telemetry.points import METRIC_FIELDS_MAX, STEPS_MAX
from penstock.telemetry.row import TOPIC, Row, decode_row
from tests.live_node import LiveNode, RawClient, running_node
from tests.telemetry.pushes import data_of, gauge
from tests.turn_calls import CALLS_MAX, Turns

INTERVAL_MS = 3_600_000 // 12
"""Longer than any test, so that what comes early is early."""
MOST = 100_000
ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
PUSHED = data_of(gauge("org.apache.kafka.producer.x", 1.5, node="7"))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    settings = ("broker.client_metrics=true", f"broker.client_metrics_bytes_max={MOST}")
    with running_node(tmp_path, *settings) as node:
        yield node


@pytest.fixture
def client(node: LiveNode) -> Iterator[RawClient]:
    with closing(node.connect()) as client:
        configure(client, "all", {"metrics": "*", "interval.ms": str(INTERVAL_MS)})
        yield client


def configure(client: RawClient, name: str, values: Mapping[str, str]) -> None:
    keys = [{"name": key, "config_operation": 0, "value": value} for key, value in values.items()]
    resource = {"resource_type": 16, "resource_name": name, "configs": keys}
    told = {"resources": [resource], "validate_only": False}
    (answer,) = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, told).responses
    assert answer.error_code == Code.NONE, answer


def get(client: RawClient, given: uuid.UUID | None = ID) -> Any:
    return client.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, {"client_instance_id": given})


def push(client: RawClient, number: int, data: bytes = PUSHED, **more: Any) -> Code:
    fields: dict[str, Any] = {
        "client_instance_id": ID, "subscription_id": number, "terminating": False,
        "compression_type": NONE, "metrics": data,
    }  # fmt: skip
    return Code(client.ask(ApiKey.PUSH_TELEMETRY, 0, fields | more).error_code)


def subscribed(client: RawClient, given: uuid.UUID = ID) -> int:
    answer = get(client, given)
    assert answer.error_code == Code.NONE
    return int(answer.subscription_id)


def taken_by(node: LiveNode) -> ClientMetrics:
    found = node.broker.client_metrics
    assert isinstance(found, ClientMetrics)
    return found


def rows(node: LiveNode) -> list[Row]:
    """Everything in the topic, once nothing waits any more."""
    taken = taken_by(node)
    assert node.until(lambda: not len(taken))
    return node.call(lambda: _rows(node))


def _rows(node: LiveNode) -> list[Row]:
    found: list[Row] = []
    topic = node.broker.partitions.by_name[TOPIC.encode()]
    for hosted in topic.partitions:
        assert hosted is not None
        end = hosted.member.confirm_position
        chunk = hosted.member.log.read(hosted.log, 0, 1 << 24, end)  # type: ignore[arg-type]
        for _, batch in iter_batches(chunk.data):  # type: ignore[union-attr]
            found += [decode_row(record.value or b"") for record in iter_records(batch)]
    return found


def test_a_client_is_told_what_is_asked_of_it(client: RawClient) -> None:
    answer = get(client, None)
    assert answer.client_instance_id.version == 4
    assert answer.accepted_compression_types == (ZSTD, LZ4, GZIP, SNAPPY)
    assert answer.push_interval.total_seconds() * 1000 == INTERVAL_MS
    assert (answer.telemetry_max_bytes, answer.delta_temporality) == (MOST, True)
    assert answer.requested_metrics == ("*",)
    known = get(client)
    assert known.client_instance_id == ID


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_what_is_pushed_is_in_the_topic_with_whose_it_is(
    node: LiveNode, client: RawClient, codec: int
) -> None:
    number = subscribed(client)
    assert push(client, number, compress(codec, PUSHED), compression_type=codec) == Code.NONE
    (row,) = rows(node)
    assert row.source.who.client_id == "raw-client"
    assert (row.source.who.principal, row.source.who.host) == ("User:ANONYMOUS", "127.0.0.1")
    assert row.source.instance == "ABEiM0RVZneImaq7zN3u_w"
    assert (row.point.metric, row.point.value) == ("org.apache.kafka.producer.x", 1.5)
    assert row.point.attributes == {"node": "7"}


def test_who_comes_early_is_told_so_and_nothing_is_taken(node: LiveNode, client: RawClient) -> None:
    number = subscribed(client)
    assert get(client).error_code == Code.THROTTLING_QUOTA_EXCEEDED
    assert push(client, number) == Code.NONE
    assert push(client, number) == Code.THROTTLING_QUOTA_EXCEEDED
    assert push(client, number, terminating=True) == Code.NONE
    assert push(client, number, terminating=True) == Code.INVALID_REQUEST
    assert len(rows(node)) == 2
    assert node.call(lambda: dict(taken_by(node).results)) == {
        ("get", "taken"): 1, ("get", "early"): 1,
        ("push", "taken"): 2, ("push", "early"): 1, ("push", "ended"): 1,
    }  # fmt: skip


def test_another_question_is_another_number_and_the_client_asks_again(client: RawClient) -> None:
    number = subscribed(client)
    configure(client, "all", {"metrics": "org.apache.kafka.producer."})
    assert push(client, number) == Code.UNKNOWN_SUBSCRIPTION_ID
    answer = get(client)
    assert answer.requested_metrics == ("org.apache.kafka.producer.",)
    assert push(client, answer.subscription_id) == Code.NONE


def test_what_of_other_resources_changes_is_no_other_question(client: RawClient) -> None:
    number = subscribed(client)
    configure(client, "others", {"metrics": "*", "match": "client_id=somebody-else"})
    assert get(client).error_code == Code.THROTTLING_QUOTA_EXCEEDED
    assert push(client, number) == Code.NONE


def test_subscriptions_match_what_a_client_says_of_itself(client: RawClient) -> None:
    port = client.socket.getsockname()[1]
    told = f"client_id=raw-.*,client_source_address=127[.]0[.]0[.]1,client_source_port={port}"
    configure(client, "mine", {"metrics": "mine", "match": told})
    configure(client, "other", {"metrics": "o", "match": f"client_source_port={port}0"})
    configure(client, "all", {"match": "client_software_name=unknown", "metrics": "all"})
    assert get(client).requested_metrics == ("all", "mine")


@pytest.mark.parametrize("pattern", ["(", "a{3000}", "(?=x)", "x" * 257])
def test_a_pattern_that_is_none_of_re2_is_not_taken(client: RawClient, pattern: str) -> None:
    keys = [{"name": "match", "config_operation": 0, "value": f"client_id={pattern}"}]
    resource = {"resource_type": 16, "resource_name": "bad", "configs": keys}
    told = {"resources": [resource], "validate_only": False}
    (answer,) = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, told).responses
    assert answer.error_code == Code.INVALID_CONFIG
    assert "client_id" in answer.error_message


def test_a_metric_with_too_many_points_is_too_large_and_not_invalid(client: RawClient) -> None:
    """A client that hears of an invalid record pushes never again."""
    wide = data_of(gauge("m", *[1.0] * (METRIC_FIELDS_MAX // 2)))
    assert push(client, subscribed(client), wide) == Code.TELEMETRY_TOO_LARGE


def test_more_bytes_than_a_push_may_have_are_refused(client: RawClient) -> None:
    number = subscribed(client)
    assert push(client, number, b"\0" * (MOST + 1)) == Code.TELEMETRY_TOO_LARGE


BOMB = bytes(MOST + 1)
RANDOM = Random(7)
LARGE = data_of(*(gauge(f"m{number}" + RANDOM.randbytes(100).hex(), 1.0) for number in range(400)))


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bomb_is_refused_at_the_bound_of_unpacked_bytes(
    node: LiveNode, client: RawClient, codec: int
) -> None:
    number = subscribed(client)
    data = compress(codec, BOMB)
    assert push(client, number, data, compression_type=codec) == Code.TELEMETRY_TOO_LARGE
    assert node.call(lambda: taken_by(node).results["push", "too_large"]) == 1


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bound_below_what_is_unpacked_on_the_loop_counts_there_too(
    tmp_path: Path, codec: int
) -> None:
    settings = ("broker.client_metrics=true", "broker.client_metrics_bytes_max=4096")
    with running_node(tmp_path, *settings) as node, closing(node.connect()) as client:
        for count, code in ((4096, Code.INVALID_RECORD), (4097, Code.TELEMETRY_TOO_LARGE)):
            given, data = uuid.UUID(int=count), compress(codec, b"\xff" * count)
            number = subscribed(client, given)
            told = push(client, number, data, compression_type=codec, client_instance_id=given)
            assert told == code


def test_a_small_bomb_is_refused_by_its_ratio(node: LiveNode, client: RawClient) -> None:
    """What is unpacked above 64 KiB packs to a two-hundredth at most."""
    number = subscribed(client)
    data = gzip.compress(bytes(sink.HERE_BYTES * 3 // 2))
    assert len(data) * sink.RATIO_MAX < sink.HERE_BYTES
    assert push(client, number, data, compression_type=GZIP) == Code.TELEMETRY_TOO_LARGE


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_a_large_push_is_unpacked_on_a_worker_and_taken(
    node: LiveNode, client: RawClient, codec: int
) -> None:
    assert sink.HERE_BYTES < len(LARGE) < MOST
    number = subscribed(client)
    assert push(client, number, compress(codec, LARGE), compression_type=codec) == Code.NONE
    names = {row.point.metric for row in rows(node)}
    assert len(names) == 400


@pytest.mark.parametrize(
    ("data", "more"),
    [
        (b"\xff\xff\xff", {}),  # no protobuf
        (PUSHED[:-3], {}),
        (b"no gzip", {"compression_type": GZIP}),
        (compress(ZSTD, PUSHED)[:-4], {"compression_type": ZSTD}),
        (compress(LZ4, LARGE)[:-900], {"compression_type": LZ4}),
    ],
)
def test_what_is_not_what_it_claims_to_be_is_an_invalid_record(
    node: LiveNode, client: RawClient, data: bytes, more: dict[str, Any]
) -> None:
    assert push(client, subscribed(client), data, **more) == Code.INVALID_RECORD
    assert node.call(lambda: len(taken_by(node)) + taken_by(node).written) == 0


@pytest.mark.parametrize("codec", [-1, 5, 127])
def test_a_codec_that_there_is_not_is_refused_and_the_client_may_ask_again(
    client: RawClient, codec: int
) -> None:
    number = subscribed(client)
    assert push(client, number, compression_type=codec) == Code.UNSUPPORTED_COMPRESSION_TYPE
    assert get(client).error_code == Code.NONE


def test_a_push_without_an_instance_is_invalid(client: RawClient) -> None:
    assert push(client, 1, client_instance_id=None) == Code.INVALID_REQUEST
    assert push(client, 1, client_instance_id=uuid.UUID(int=1)) == Code.INVALID_REQUEST


def test_a_last_push_may_be_empty(node: LiveNode, client: RawClient) -> None:
    assert push(client, subscribed(client), b"", terminating=True) == Code.NONE
    assert node.call(lambda: len(taken_by(node))) == 0


def test_rows_beyond_the_bound_of_a_push_refuse_all_of_it(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "ROWS_BYTES_MAX", 2_000)
    wide = data_of(gauge("m", *[1.0] * 9))
    assert push(client, subscribed(client), wide) == Code.TELEMETRY_TOO_LARGE
    assert node.call(lambda: (len(taken_by(node)), taken_by(node)._building_bytes)) == (0, 0)


def test_rows_that_wait_have_a_bound_and_count_as_memory_of_clients(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "WAITING_BYTES_MAX", 4_000)
    taken = taken_by(node)
    node.call(lambda: monkeypatch.setattr(taken._rows, "write", lambda: None))
    before = node.call(lambda: node.front.pinned_bytes)
    number = subscribed(client)
    assert push(client, number, data_of(gauge("m", *[1.0] * 5))) == Code.NONE
    assert push(client, number, data_of(gauge("m", *[1.0] * 5)), terminating=True) == Code.NONE
    assert node.call(lambda: (len(taken), taken.dropped)) == (5, 5), "whole or not at all"
    pinned = node.call(lambda: node.front.pinned_bytes) - before
    assert 5 * 300 < pinned <= 4_000 + INSTANCE_BYTES
    node.call(monkeypatch.undo)
    assert len(rows(node)) == 5
    assert node.call(lambda: taken.pinned_bytes) == INSTANCE_BYTES


def test_many_rows_are_written_without_waiting_for_ticks(node: LiveNode, client: RawClient) -> None:
    taken, number = taken_by(node), subscribed(client)
    assert push(client, number) == Code.NONE
    assert node.until(lambda: taken.written == 1), "the topic is there"
    node.call(lambda: node.broker.on_expire.remove(taken.expire))
    wide = data_of(*(gauge(f"m{number}", *[1.0] * 100) for number in range(10)))
    more = {"compression_type": ZSTD, "terminating": True}
    assert push(client, number, compress(ZSTD, wide), **more) == Code.NONE
    node.call(taken.end)
    assert node.until(lambda: taken.written == 1 + 1_000)


def test_a_node_that_takes_none_knows_no_such_request(tmp_path: Path) -> None:
    with running_node(tmp_path) as node, closing(node.connect()) as client:
        client.send(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, {"client_instance_id": None})
        assert client.is_closed_by_node()


def test_nobody_but_a_node_writes_to_the_topic(node: LiveNode, client: RawClient) -> None:
    assert push(client, subscribed(client)) == Code.NONE
    assert rows(node)
    topics = {"topics": [{"name": TOPIC, "topic_id": None}], "timeout_ms": 9_000}
    (answer,) = client.ask(ApiKey.DELETE_TOPICS, 6, topics).responses
    assert answer.error_code == Code.INVALID_REQUEST


def test_no_push_is_worked_on_for_long_in_one_turn_of_the_loop(tmp_path: Path) -> None:
    """Metrics with as many fields as they may have, small ones, and fields around them."""
    unknown = b"\x98\x06\x00"
    fields = gauge("m", 1.0).SerializeToString() + unknown * (METRIC_FIELDS_MAX - 20)
    wide = [Metric.FromString(fields) for _ in range(40)]
    small = [gauge(f"m{number}", *[1.0] * 90) for number in range(100)]
    pushes = (data_of(*wide), data_of(*small), unknown * (STEPS_MAX - 1))
    with running_node(tmp_path, "broker.client_metrics=true") as node:
        for number, data in enumerate(pushes):
            turns, given = Turns(), uuid.UUID(int=1000 + number)
            with closing(node.connect()) as client:
                configure(client, "all", {"metrics": "*"})
                told = {"client_instance_id": given, "subscription_id": subscribed(client, given)}
                fields_of = {"terminating": False, "compression_type": NONE, "metrics": data}
                node.call(turns.begin)
                try:
                    answer = client.ask(ApiKey.PUSH_TELEMETRY, 0, told | fields_of)
                finally:
                    node.call(turns.end)
            assert answer.error_code == Code.NONE
            assert 0 < turns.longest < CALLS_MAX, (number, turns.longest, turns.begun_in)
        assert node.call(lambda: len(taken_by(node)) + taken_by(node).written) == 40 + 9_000
