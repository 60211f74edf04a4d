"""The compiled half of Produce does what the interpreted half does, also with damaged bytes.

Without a C compiler both names mean the same function, and there is nothing to compare.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from penstock.base.errors import PlatformError
from penstock.protocol import compiled, header, produce, produce_run
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.header import request_header
from penstock.protocol.messages import encode_request
from penstock.protocol.produce import PartitionAnswer, PartitionData
from tests.protocol.test_produce import ONE, VERSIONS, produce_fields


def outcome(function: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """What a call gives: its value and class, or its error and text."""
    try:
        value = function(*arguments)
    except PlatformError as error:
        return type(error), str(error)
    return type(value), value


def frame_of(version: int, rng: random.Random) -> bytes:
    client_id = rng.choice((None, "", "me", "grün"))
    head = request_header(
        ApiKey.PRODUCE, version, correlation_id=rng.randrange(1 << 31), client_id=client_id
    )
    shape = rng.choice((ONE, ONE, range(3)))
    fields = produce_fields(version, rng, shape)
    fields["transactional_id"] = rng.choice(
        (None, None, "", "id", "grün" * 20, "i" * 126, "i" * 127)
    )
    return head + bytes(encode_request(ApiKey.PRODUCE, version, fields))


def damaged(frame: bytes, rng: random.Random, within: int = 100) -> bytes:
    """Cut short, or with some of the first `within` bytes changed."""
    changed = bytearray(frame[: rng.randrange(len(frame) + 1)] if rng.random() < 0.4 else frame)
    for _ in range(rng.randrange(3)):
        if changed:
            at = rng.randrange(min(within, len(changed)))
            changed[at] = rng.choice((0, 1, 2, 127, 128, 255, rng.randrange(256)))
    return bytes(changed)


@pytest.mark.parametrize("version", VERSIONS)
def test_both_twins_read_the_same_of_any_bytes(version: int) -> None:
    rng = random.Random(version)
    for number in range(1500):
        whole = frame_of(version, rng)
        frame = memoryview(damaged(whole, rng) if number % 3 else whole)
        found = outcome(header.parse_request_header, frame)
        assert outcome(compiled.parse_request_header, frame) == found
        for at in {found[1].body_at if len(found) == 2 and len(found[1]) == 5 else 0, len(frame)}:
            expected = outcome(produce.parse_produce_request, frame, at, version)
            assert outcome(compiled.parse_produce_request, frame, at, version) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transactional_id_is_text_in_both_twins(version: int) -> None:
    rng = random.Random(version)
    fields = produce_fields(version, rng, ONE) | {"transactional_id": "id"}
    body = bytes(encode_request(ApiKey.PRODUCE, version, fields))
    for name in (b"id", b"\xff\xff", b"\xc3\xa9"):
        frame = memoryview(body.replace(b"id", name, 1))
        expected = outcome(produce.parse_produce_request, frame, 0, version)
        assert outcome(compiled.parse_produce_request, frame, 0, version) == expected
        is_text = name != b"\xff\xff"
        assert (expected[0] is produce.ProduceRequest) is is_text


@pytest.mark.parametrize("version", VERSIONS)
def test_both_twins_find_the_same_runs_in_any_bytes(version: int) -> None:
    rng = random.Random(version)
    lengths = []
    for number in range(700):
        alike = alike_frames(version, rng)
        memory = memoryview(damaged(alike, rng, within=len(alike)) if number % 3 else alike)
        at = rng.choice((0, 0, 0, rng.randrange(len(memory) + 1)))
        arguments = memory, at, rng.choice((len(memory), max(at, len(memory) - 1))), 5
        found = outcome(produce_run.parse_produce_run, *arguments)
        assert outcome(compiled.parse_produce_run, *arguments) == found
        lengths.append(len(found[1].requests) if found[1] else 0)
    assert max(lengths) == 5
    assert min(lengths) == 0


def alike_frames(version: int, rng: random.Random) -> bytes:
    """A few requests of one client with equal acks and time-out, one behind the other."""
    client_id, acks = rng.choice((None, "", "grün")), rng.choice((1, 1, -1, -1, 0))
    frames = bytearray()
    for number in range(rng.randrange(7)):
        head = request_header(ApiKey.PRODUCE, version, correlation_id=number, client_id=client_id)
        fields = produce_fields(version, rng, ONE if rng.random() < 0.95 else range(3))
        name = "id" if rng.random() < 0.05 else None
        fields |= {"transactional_id": name, "acks": acks, "timeout": 9}
        if fields["topic_data"] and rng.random() < 0.9:
            fields["topic_data"][0]["name"] = "short"
        body = bytes(encode_request(ApiKey.PRODUCE, version, fields))
        frames += (len(head) + len(body)).to_bytes(4, "big") + head + body
    return bytes(frames)


def test_both_twins_read_the_header_of_every_key_and_version() -> None:
    rng = random.Random(1)
    for key in [*range(-2, 200), 0x7FFF, -0x8000]:
        for version in (-1, 0, 3, 5, 9, 12, 0x7FFF):
            start = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
            for rest in (b"\0\0\0\7\xff\xff", b"\0\0\0\7\0\2ab", b"\0\0\0\7\0\2\xff\xff"):
                frame = memoryview(start + rest + rng.choice((b"", b"\0", b"\0\0", b"\1")))
                expected = outcome(header.parse_request_header, frame)
                assert outcome(compiled.parse_request_header, frame) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_both_twins_answer_with_the_same_bytes(version: int) -> None:
    rng = random.Random(version)
    for length in (0, 1, 16, 100, 126, 127, 249):
        topic = rng.randbytes(16 if version >= produce.TOPIC_ID_VERSION else length)
        part = PartitionData(topic, rng.randrange(1 << 31), 10, 20)
        places = [rng.randrange(-1, 1 << 62) for _ in range(3)]
        answer = produce.appended(part, *places)
        assert outcome(compiled.appended, part, *places) == (PartitionAnswer, answer)
        number = rng.randrange(-(1 << 31), 1 << 31)
        expected = produce.encode_appended(version, number, answer)
        assert compiled.encode_appended(version, number, answer) == expected
        size, body_at = int.from_bytes(expected[:4], "big"), 9 if version >= 9 else 8
        assert size == len(expected) - 4
        assert expected[body_at:] == produce.encode_produce_response(version, [answer])
