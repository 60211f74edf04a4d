"""Answers between brokers fit their questions exactly, and name every topic that is in them."""

import pytest

from penstock.base.ids import CoordinatorEpoch, LeaderEpoch, ProducerEpoch, ProducerId
from penstock.coordinator.calls.asking import Asks, Told, fits
from penstock.coordinator.calls.extents import (
    BatchesCode,
    BatchesRequest,
    BatchesResponse,
    ExtentRequest,
    ExtentResponse,
)
from penstock.coordinator.calls.shares import (
    ShareBeginRequest,
    ShareChange,
    ShareChangeRequest,
    ShareCodesResponse,
    ShareLeaveRequest,
    SharePlace,
    ShareSummary,
    ShareSummaryRequest,
    ShareSummaryResponse,
)
from penstock.coordinator.calls.tier import TierRunsRequest, TierRunsResponse
from penstock.coordinator.calls.transactions import (
    AskedPartition,
    MarkedPartition,
    MarkerEntry,
    MarkersRequest,
    MarkersResponse,
    VerifyRequest,
    VerifyResponse,
)

ONE, TWO, THREE = (bytes([number]) * 16 for number in (1, 2, 3))
OK = BatchesCode.OK


def batches(skip: int) -> BatchesRequest:
    return BatchesRequest(
        replica_set_id=1,
        leader_epoch=LeaderEpoch(1),
        topic_id=ONE,
        partition=0,
        offset=0,
        end_offset=9,
        skip=skip,
    )


def extent(skip: int) -> ExtentRequest:
    return ExtentRequest(
        replica_set_id=1,
        leader_epoch=LeaderEpoch(1),
        topic_id=ONE,
        partition=0,
        offset=0,
        skip=skip,
    )


def markers(*topics: tuple[bytes, ...]) -> MarkersRequest:
    return MarkersRequest(
        entries=tuple(
            MarkerEntry(
                producer_id=ProducerId(1),
                producer_epoch=ProducerEpoch(1),
                coordinator_epoch=CoordinatorEpoch(1),
                is_commit=True,
                transaction_version=2,
                partitions=tuple(MarkedPartition(one, 0) for one in ids),
            )
            for ids in topics
        )
    )


TIER = TierRunsRequest(
    replica_set_id=1, leader_epoch=LeaderEpoch(1), topic_id=ONE, partition=0, offset=0
)
VERIFY = VerifyRequest(
    transactional_id="x",
    producer_id=ProducerId(1),
    producer_epoch=ProducerEpoch(1),
    is_verify_only=True,
    partitions=(AskedPartition("t", 0), AskedPartition("t", 1)),
)
PLACES = SharePlace(ONE, 0), SharePlace(TWO, 0)
SUMMARY = ShareSummaryRequest(group="g", places=PLACES)
CHANGE = ShareChangeRequest(group="g", kind=0, changes=(ShareChange(ONE, 0), ShareChange(TWO, 1)))
BEGIN = ShareBeginRequest(group="g", places=PLACES)
LEAVE = ShareLeaveRequest(group="g", member="m")


def codes(count: int) -> ShareCodesResponse:
    return ShareCodesResponse(codes=(0,) * count)


def found(count: int) -> ShareSummaryResponse:
    return ShareSummaryResponse(found=(ShareSummary(0),) * count)


@pytest.mark.parametrize(
    ("question", "answer", "is_fit"),
    [
        (batches(3), BatchesResponse(code=OK, batches=b"1234", total_bytes=7), True),
        (batches(3), BatchesResponse(code=OK, batches=b"1234", total_bytes=6), False),
        (batches(3), BatchesResponse(code=OK, total_bytes=3), True),
        (batches(3), BatchesResponse(code=BatchesCode.NOT_HERE), True),
        (batches(3), BatchesResponse(code=BatchesCode.NOT_HERE, batches=b"1"), False),
        (extent(3), ExtentResponse(code=OK, piece=b"1234", total_bytes=7), True),
        (extent(3), ExtentResponse(code=OK, piece=b"1234", total_bytes=6), False),
        (extent(3), ExtentResponse(code=BatchesCode.REWRITTEN), True),
        (TIER, TierRunsResponse(is_known=True), True),
        (TIER, TierRunsResponse(is_known=True, runs=(b"r",)), True),
        (TIER, TierRunsResponse(is_known=False), True),
        (TIER, TierRunsResponse(is_known=False, runs=(b"r",)), False),
        (markers((ONE,), (ONE, TWO)), MarkersResponse(codes=((0,), (0, 0))), True),
        (markers((ONE,), (ONE, TWO)), MarkersResponse(codes=((0, 0), (0,))), False),
        (markers((ONE,), (ONE, TWO)), MarkersResponse(codes=((0,),)), False),
        (VERIFY, VerifyResponse(codes=(0, 0)), True),
        (VERIFY, VerifyResponse(codes=(0,)), False),
        (VERIFY, VerifyResponse(codes=(0, 0, 0)), False),
        *((SUMMARY, found(count), count == 2) for count in (1, 2, 3)),
        *((CHANGE, codes(count), count == 2) for count in (1, 2, 3)),
        *((BEGIN, codes(count), count == 2) for count in (1, 2, 3)),
        *((LEAVE, codes(count), count == 1) for count in (0, 1, 2)),
        (SUMMARY, codes(2), False),
    ],
)
def test_an_answer_has_what_is_asked_for_no_more_and_no_less(
    question: Asks[Told], answer: Told, *, is_fit: bool
) -> None:
    assert fits(question, answer) is is_fit


def test_a_question_names_the_topics_of_all_its_parts() -> None:
    assert list(markers((ONE,), (TWO, THREE)).ids()) == [ONE, TWO, THREE]
    assert list(SUMMARY.ids()) == list(CHANGE.ids()) == list(BEGIN.ids()) == [ONE, TWO]
    assert list(batches(0).ids()) == list(extent(0).ids()) == list(TIER.ids()) == [ONE]
