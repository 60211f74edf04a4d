"""The compiled half of Fetch does what the interpreted half does, also with damaged bytes.

Without a C compiler both names mean the same function, and there is nothing to compare.
"""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.protocol import compiled, fetch
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.fetch import FetchAnswer, FetchRequest
from penstock.protocol.messages import encode_request
from penstock.protocol.primitives import LeaderEndpoint
from penstock.protocol.schema import request_schema
from tests.protocol.test_compiled_twins import damaged, outcome

VERSIONS = range(4, 19)
LENGTHS = (0, 1, 126, 127, 128, 254, 255, 256, 300)
"""Of names: around a compact length of one byte, and the longest that the twin writes."""
SMALL, LARGE = 1 << 31, 1 << 63


def body_of(version: int, rng: random.Random) -> bytes:
    """The body of a request, most often of one as consumers send them."""
    is_odd = rng.random() < 0.2
    shape = rng.choice(((1, 1), (1, 1), (1, 1), (0, 0), (2, 3), (1, 0), (1, 40)))
    fields: dict[str, Any] = {
        "replica_id": rng.choice((-1, 3, -(1 << 31))),
        "max_wait": rng.randrange(-SMALL, SMALL),
        "min_bytes": rng.randrange(-SMALL, SMALL),
        "max_bytes": rng.randrange(-SMALL, SMALL),
        "isolation_level": rng.choice((0, 1, -1, 127)),
        "session_id": rng.choice((0, 0, rng.randrange(SMALL))),
        "session_epoch": rng.choice((-1, 0, 1, SMALL - 1)),
        "topics": [topic_of(rng, shape[1]) for _ in range(shape[0])],
        "forgotten_topics_data": [{"topic": "gone", "partitions": [1, 2]}] if is_odd else [],
        "rack_id": rng.choice(("", "", "r", "grün", "r" * 127, "r" * 200)),
    }
    if is_odd and version >= 12:
        fields["cluster_id"] = rng.choice((None, "", "cluster"))
    known = {field.name for field in fetch_schema(version)}
    body = encode_request(ApiKey.FETCH, version, {n: v for n, v in fields.items() if n in known})
    return bytes(body)


def fetch_schema(version: int) -> Any:
    return request_schema(ApiKey.FETCH, version).fields


def topic_of(rng: random.Random, partitions: int) -> dict[str, Any]:
    return {
        "topic": "t" * rng.choice(LENGTHS),
        "topic_id": rng.randbytes(16),
        "partitions": [
            {
                "partition": rng.randrange(-SMALL, SMALL),
                "current_leader_epoch": rng.randrange(-SMALL, SMALL),
                "fetch_offset": rng.randrange(-LARGE, LARGE),
                "last_fetched_epoch": rng.randrange(-SMALL, SMALL),
                "log_start_offset": rng.randrange(-LARGE, LARGE),
                "partition_max_bytes": rng.randrange(-SMALL, SMALL),
            }
            for _ in range(partitions)
        ],
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_both_twins_read_the_same_of_any_bytes(version: int) -> None:
    rng = random.Random(version)
    read = 0
    for number in range(1200):
        whole = body_of(version, rng)
        body = damaged(whole, rng, within=len(whole) or 1) if number % 3 else whole
        head = rng.randbytes(rng.choice((0, 8, 30)))
        frame = memoryview(head + body)
        for at in {len(head), len(frame)}:
            expected = outcome(fetch.parse_fetch_request, frame, at, version)
            found = outcome(compiled.parse_fetch_request, frame, at, version)
            assert found == expected
            read += found[0] is FetchRequest
    assert read > 400


@pytest.mark.parametrize("version", VERSIONS)
def test_both_twins_read_each_request_cut_at_every_byte(version: int) -> None:
    rng = random.Random(version)
    for _ in range(5):
        body = memoryview(body_of(version, rng) + b"\0")
        for end in range(len(body) + 1):
            expected = outcome(fetch.parse_fetch_request, body[:end], 0, version)
            assert outcome(compiled.parse_fetch_request, body[:end], 0, version) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rack_is_text_in_both_twins(version: int) -> None:
    fields = {"topics": [], "rack_id": "id"} if version >= 11 else {"topics": []}
    body = bytes(encode_request(ApiKey.FETCH, version, fields))
    for name in (b"id", b"\xff\xff", b"\xc3\xa9"):
        frame = memoryview(body.replace(b"id", name, 1))
        expected = outcome(fetch.parse_fetch_request, frame, 0, version)
        assert outcome(compiled.parse_fetch_request, frame, 0, version) == expected
        assert (expected[0] is FetchRequest) is (version < 11 or name != b"\xff\xff")


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_with_equal_names_stay_apart(version: int) -> None:
    rng = random.Random(version)
    topics = [topic_of(rng, 2) for _ in range(2)]
    topics[1] |= {"topic": topics[0]["topic"], "topic_id": topics[0]["topic_id"]}
    known = "topic_id" if version >= fetch.TOPIC_ID_VERSION else "topic"
    named = [{known: one[known], "partitions": one["partitions"]} for one in topics]
    frame = memoryview(bytes(encode_request(ApiKey.FETCH, version, {"topics": named})))
    found = compiled.parse_fetch_request(frame, 0, version)
    assert found == fetch.parse_fetch_request(frame, 0, version)
    assert len({part.topic for part in found.partitions}) == 1
    assert [part.partition for part in found.partitions] == [
        part["partition"] for one in topics for part in one["partitions"]
    ]


def answer_of(version: int, rng: random.Random) -> FetchAnswer:
    is_odd = rng.random() < 0.3
    lengths = [
        rng.choice((1, 61, 126, 127, 128, 16_383, 40_000)) for _ in range(rng.choice(COUNTS))
    ]
    return FetchAnswer(
        rng.randbytes(16 if version >= fetch.TOPIC_ID_VERSION else rng.choice(LENGTHS)),
        rng.randrange(-SMALL, SMALL),
        rng.choice((0, 0, 3, -1, 1000)),
        rng.randrange(-LARGE, LARGE),
        rng.randrange(-LARGE, LARGE),
        rng.randrange(-LARGE, LARGE),
        [memoryview(rng.randbytes(length)) for length in lengths],
        rng.choice(ABORTED if is_odd else ABORTED[:-1]),
        rng.choice((-1, 3, SMALL - 1)),
        (4, 99) if is_odd and rng.random() < 0.5 else None,
        (1, 7) if is_odd and rng.random() < 0.5 else None,
    )


COUNTS = (0, 0, 1, 1, 2, 3)
ABORTED: tuple[Sequence[tuple[int, int]] | None, ...] = (None, (), [], ((5, 7), (6, 8)))


@pytest.mark.parametrize("version", VERSIONS)
def test_both_twins_answer_with_the_same_bytes(version: int) -> None:
    rng = random.Random(version)
    for _ in range(400):
        answers = [answer_of(version, rng) for _ in range(rng.choice((0, 1, 1, 1, 1, 1, 2)))]
        told: dict[str, Any] = {
            "session_id": rng.choice((0, rng.randrange(SMALL))),
            "error_code": rng.choice((0, 0, 70, -1)),
            "throttle_ms": rng.choice((0, 0, 3, SMALL - 1)),
            "endpoints": (LeaderEndpoint(1, "host", 9092),) if rng.random() < 0.1 else (),
        }
        expected = fetch.encode_fetch_response(version, answers, **told)
        found = compiled.encode_fetch_response(version, answers, **told)
        assert b"".join(found) == b"".join(expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_handed_on_and_not_copied_by_either_twin(version: int) -> None:
    records = [memoryview(bytes(100)), memoryview(bytes(5))]
    topic = bytes(16)
    for encode in (fetch.encode_fetch_response, compiled.encode_fetch_response):
        buffers = encode(version, [FetchAnswer(topic, 0, buffers=records)])
        assert [one for one in buffers if isinstance(one, memoryview)] == records
        assert all(any(one is given for one in buffers) for given in records)
        assert len(records) == 2
