"""Jobs and answers over a pipe: what was said is heard, and nothing else is taken."""

import io
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.log_world import partition_number
from penstock.base.ids import Offset
from penstock.extents.layout import Entry
from penstock.housekeeper.errors import BadMessage
from penstock.housekeeper.messages import (
    BODY_BYTES_MAX,
    FRAME,
    Answer,
    CleanJob,
    Failed,
    Job,
    Made,
    ShrinkJob,
    SplitJob,
    decode_answer,
    decode_job,
    decode_rate,
    encode_answer,
    encode_job,
    encode_rate,
    read_frame,
)
from penstock.storage.second_level.cleaning import Cleaned, CleaningOrder
from penstock.storage.second_level.cleaning_plan import EXTENTS_MAX
from penstock.storage.second_level.held import Extent
from penstock.storage.second_level.planning import SEGMENTS_MAX, WANTED_MAX
from penstock.storage.second_level.shrinking import Kept

JOB = SplitJob(
    "/var/lib/pen stöck",
    "set-7",
    "set-7/second/abc-1.tmp",
    bytes(range(16)),
    7,
    64 << 20,
    12_345,
    (0, 65_536, 1 << 60),
    ((partition_number(0), 0), (partition_number(3, topic=9), 1 << 61)),
)

ENTRY = Entry(*partition_number(3), 1, 5, 90, 1_000, 2_000, -1, 64, 700, 800, 2, 24, 3, 700, 77)
CLEAN = CleanJob(
    *JOB[:6],
    CleaningOrder(
        partition_number(3),
        (
            Extent(4, ENTRY, Offset(5), Offset(90)),
            Extent(1 << 40, ENTRY._replace(generation=0), Offset(90), Offset(1 << 60)),
        ),
        now_ms=1 << 41,
        newest_ms=(1 << 63) - 1,
        delete_retention_ms=0,
        memory_bytes=128 << 20,
        salt=bytes(range(16)),
        extent_bytes=64 << 20,
        extent_ms=0,
    ),
)

SHRINK = ShrinkJob(*JOB[:6], 1 << 40, 99, Kept(array("I", (0, 3)), array("q", (90, 1 << 60))))
JOBS: list[Any] = [JOB, CLEAN, SHRINK]


def sent(frame: bytes) -> bytes:
    body = read_frame(io.BytesIO(frame).read)
    assert body is not None
    return body


@pytest.mark.parametrize("job", JOBS)
def test_a_job_is_what_was_asked_for(job: Job) -> None:
    assert decode_job(sent(encode_job(1 << 63, job))) == (1 << 63, job)


def test_a_rate_is_what_was_told_and_no_job() -> None:
    assert decode_rate(sent(encode_rate(1 << 34))) == 1 << 34
    assert decode_rate(sent(encode_rate(0))) == 0
    assert decode_rate(sent(encode_job(1, JOB))) is None
    with pytest.raises(BadMessage, match="kind 16"):
        decode_job(sent(encode_rate(5)))
    with pytest.raises(BadMessage):
        decode_rate(sent(encode_rate(5)) + b"!")


@given(
    st.one_of(
        st.builds(Made, st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 64) - 1)),
        st.builds(Cleaned, st.integers(0, (1 << 32) - 1), *[st.integers(0, (1 << 64) - 1)] * 3),
        st.builds(Failed, st.text(max_size=1000), *[st.integers(-1, (1 << 63) - 1)] * 2),
    )
)
def test_an_answer_is_what_was_said(answer: Answer) -> None:
    number, heard = decode_answer(sent(encode_answer(5, answer)))
    assert number == 5
    if isinstance(answer, Failed):
        text = answer.reason.encode("utf-8", "replace").decode()
        assert heard == answer._replace(reason=text)
    else:
        assert heard == answer


def test_the_largest_plan_fits() -> None:
    wanted = tuple((partition_number(number), number) for number in range(WANTED_MAX))
    largest = JOB._replace(bases=(0,) * SEGMENTS_MAX, wanted=wanted, root="/" + "x" * 4000)
    frame = encode_job(1, largest)
    assert len(frame) < BODY_BYTES_MAX
    assert decode_job(sent(frame)) == (1, largest)
    with pytest.raises(BadMessage, match="at most"):
        encode_job(1, largest._replace(wanted=wanted * 2))
    extents = CLEAN.order.extents[:1] * EXTENTS_MAX
    cleaned = CLEAN._replace(order=CLEAN.order._replace(extents=extents))
    assert decode_job(sent(encode_job(1, cleaned))) == (1, cleaned)
    numbers = array("I", range(WANTED_MAX))
    shrunk = SHRINK._replace(kept=Kept(numbers, array("q", [1 << 60]) * len(numbers)))
    assert decode_job(sent(encode_job(1, shrunk))) == (1, shrunk)


def test_a_long_reason_is_cut() -> None:
    _, heard = decode_answer(sent(encode_answer(1, Failed("x" * 100_000))))
    assert isinstance(heard, Failed)
    assert len(heard.reason) == 1000


@pytest.mark.parametrize(
    "frame", [*(encode_job(3, job) for job in JOBS), encode_answer(3, Failed("no", 77))]
)
def test_a_message_with_a_flipped_bit_or_cut_short_is_refused(frame: bytes) -> None:
    for at in range(len(frame)):
        changed = bytearray(frame)
        changed[at] ^= 1
        with pytest.raises(BadMessage):
            sent(bytes(changed))
        if at:
            with pytest.raises(BadMessage):
                sent(frame[:at])
    assert read_frame(io.BytesIO(b"").read) is None


@pytest.mark.parametrize(
    "body",
    [*(sent(encode_job(3, job)) for job in JOBS), sent(encode_answer(3, Failed("no")))],
)
def test_a_body_whose_numbers_lie_is_refused_whatever_its_checksum_says(body: bytes) -> None:
    decode = decode_job if len(body) > 100 else decode_answer
    for at in range(len(body)):
        with pytest.raises(BadMessage):
            decode(body[:at])
    with pytest.raises(BadMessage):
        decode(body + b"x")
    with pytest.raises(BadMessage, match="kind 9"):
        decode(b"\x09" + body[1:])


@pytest.mark.parametrize(
    "unfinished",
    ["set-1/second/x.tmp", "set-7/second/0.extents", "set-7/../set-1/second/x.tmp", "x.tmp"],
)
@pytest.mark.parametrize("job", JOBS)
def test_a_job_that_would_write_elsewhere_is_refused(job: Any, unfinished: str) -> None:
    with pytest.raises(BadMessage, match="no unfinished file of set-7"):
        decode_job(sent(encode_job(1, job._replace(unfinished=unfinished))))


def test_a_length_beyond_the_bound_is_refused_before_it_is_read() -> None:
    asked: list[int] = []

    def read(count: int) -> bytes:
        asked.append(count)
        return FRAME.pack(BODY_BYTES_MAX + 1, 0)

    with pytest.raises(BadMessage, match="bytes"):
        read_frame(read)
    assert asked == [FRAME.size]
