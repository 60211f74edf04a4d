"""Fields by their numbers: both twins write the same, and what declared messages are written as."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.grpc.methods.ack_message import encoded_outcomes
from penstock.grpc.proto.messages import (
    AckMessageEntry,
    AckMessageResponse,
    AckMessageResultEntry,
    Status,
)
from penstock.protobuf import compiled
from penstock.protobuf.codec import encode
from penstock.protobuf.fields import Field, encode_fields

Encode = Callable[[Sequence[Field]], bytes]
TWINS: list[Encode] = [encode_fields, compiled.encode_fields]

numbers = st.integers(1, 20) | st.integers(1, (1 << 29) - 1)
values = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.sampled_from([0, 127, 128, -1, (1 << 62) - 1, 1 << 62, -(1 << 62), -(1 << 63)])
    | st.text(max_size=9)
    | st.binary(max_size=9)
    | st.sampled_from([b"x" * 127, b"x" * 128, "é" * 64, b"x" * 20_000])
)
fields = st.lists(st.tuples(numbers, values), max_size=70)


@given(fields)
def test_both_twins_write_the_same(given_fields: list[Field]) -> None:
    assert compiled.encode_fields(given_fields) == encode_fields(given_fields)


@pytest.mark.parametrize("twin", TWINS)
def test_fields_are_as_protobuf_has_them(twin: Encode) -> None:
    told: list[Field] = [(1, "é"), (2, b"\0"), (3, 300), (4, -1), (5, None), (16, 0), (6, "")]
    assert twin(told) == (
        b"\x0a\x02\xc3\xa9" b"\x12\x01\0" b"\x18\xac\x02" b"\x20" + b"\xff" * 9 + b"\x01"
        b"\x80\x01\0" b"\x32\0"
    )  # fmt: skip


@pytest.mark.parametrize("twin", TWINS)
def test_a_text_that_is_no_unicode_is_an_error(twin: Encode) -> None:
    with pytest.raises(UnicodeEncodeError):
        twin([(1, "\ud800")])


def test_outcomes_of_acknowledgements_are_written_as_the_declared_answer() -> None:
    entries = [
        AckMessageEntry(message_id="m", receipt_handle="r"),
        AckMessageEntry(receipt_handle="s"),
        AckMessageEntry(),
    ]
    statuses = [Status(code=20_000, message="OK"), Status(code=40_000, message="no"), Status()]
    outcomes = [
        AckMessageResultEntry(
            message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=one
        )
        for entry, one in zip(entries, statuses, strict=True)
    ]
    told = Status(code=30_000, message="MULTIPLE_RESULTS")
    declared = encode(AckMessageResponse(status=told, entries=outcomes))
    assert encoded_outcomes(told, entries, statuses) == declared
