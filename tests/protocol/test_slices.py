"""Messages a slice at a time: the same result as at once, and no slice longer than it may be."""

from typing import Any

import pytest

from penstock.kafka.registry import load_apis
from penstock.protocol.decode import ELEMENTS_MAX
from penstock.protocol.encode import encode
from penstock.protocol.errors import MalformedRequest
from penstock.protocol.messages import decode_request
from penstock.protocol.schema import EntitySchema, FieldSchema, request_schema, response_schema
from penstock.protocol.slices import (
    SLICE,
    SLICE_BYTES,
    Decoding,
    Encoding,
    decode_slices,
    encode_slices,
)

SPOKEN = [
    (api.key, version)
    for api in load_apis().values()
    for version in range(api.min_version, api.max_version + 1)
]
COUNT = 40
"""Elements of each array; arrays in arrays multiply."""
VALUES: dict[str, Any] = {
    "string": "text",
    "bytes": b"bytes",
    "records": b"records",
    "uuid": bytes(16),
}


def message(schema: EntitySchema, count: int = COUNT) -> dict[str, Any]:
    """Fields for a message whose every array has `count` elements, nested ones a few."""
    return {field.name: _value(field, count) for field in schema.fields}


def _value(field: FieldSchema, count: int) -> Any:
    one = VALUES.get(field.kind, 1) if field.entity is None else message(field.entity, 3)
    return [one] * count if field.is_array else one


def run(generator: Decoding | Encoding) -> tuple[Any, int]:
    """Return what a generator returns, and in how many slices."""
    slices = 1
    while True:
        try:
            next(generator)
        except StopIteration as end:
            return end.value, slices
        slices += 1


@pytest.mark.parametrize(("key", "version"), SPOKEN)
def test_slices_are_the_same_as_the_whole(key: int, version: int) -> None:
    schema = request_schema(key, version)
    wire = encode(schema, message(schema))
    sliced, _ = run(encode_slices(schema, message(schema)))
    assert bytes(sliced) == wire
    decoded, _ = run(decode_slices(schema, memoryview(wire), 0, ELEMENTS_MAX))
    assert decoded == decode_request(key, version, memoryview(wire), 0)
    answer = message(response_schema(key, version))
    sliced, _ = run(encode_slices(response_schema(key, version), answer))
    assert bytes(sliced) == encode(response_schema(key, version), answer)


@pytest.mark.parametrize(("topics", "partitions"), [(1, 20_000), (20_000, 1), (20_000, 0)])
def test_a_slice_has_a_bounded_number_of_elements_wherever_they_are(
    topics: int, partitions: int
) -> None:
    schema = request_schema(2, 7)
    topic = schema.fields[2].entity
    assert topic is not None
    partition = topic.fields[1].entity
    assert partition is not None
    inner = message(partition)
    fields = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": "t", "partitions": [inner] * partitions}] * topics,
    }
    elements = topics * (partitions + 1)
    wire, slices = run(encode_slices(schema, fields))
    assert slices >= elements // SLICE
    _, slices = run(decode_slices(schema, memoryview(wire), 0, ELEMENTS_MAX))
    assert slices >= elements // SLICE


@pytest.mark.parametrize("cut", [1, 10, 500])
def test_a_message_that_is_cut_off_is_refused(cut: int) -> None:
    schema = request_schema(3, 12)
    wire = encode(schema, message(schema))
    with pytest.raises(MalformedRequest):
        run(decode_slices(schema, memoryview(wire)[:-cut], 0, ELEMENTS_MAX))


def test_no_request_has_an_array_in_a_tagged_field_that_would_be_read_in_one_piece() -> None:
    tagged = [
        field.name
        for key, version in SPOKEN
        for field in request_schema(key, version).tagged
        if field.is_array
    ]
    assert not tagged


def test_a_slice_of_an_answer_has_a_bounded_number_of_bytes() -> None:
    # JoinGroup tells a leader of thousands of members, each with up to 64 KiB of metadata.
    schema = response_schema(11, 7)
    members = [{"member_id": "m", "metadata": bytes(60_000)} for _ in range(100)]
    answer, slices = run(encode_slices(schema, {"members": members}))
    assert slices >= len(answer) / (SLICE_BYTES + 60_000)
    assert bytes(answer) == encode(schema, {"members": members})
