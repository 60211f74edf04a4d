"""What a broker asks another one: answers, bounds, time-outs, itself."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from penstock.base.ids import BrokerId, LeaderEpoch
from penstock.coordinator.calls.asking import (
    BrokerNotReached,
    Caller,
    CallFailed,
    CallNotSent,
    CallNotServed,
    CallsFull,
    CallTimedOut,
    CallTooLarge,
)
from penstock.coordinator.calls.extents import (
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
from penstock.coordinator.calls.tier import (
    RUNS_BYTES_MAX,
    RUNS_MAX,
    TierRunsRequest,
    TierRunsResponse,
)
from penstock.coordinator.calls.transactions import (
    PARTITIONS_MAX,
    AskedPartition,
    MarkersRequest,
    MarkersResponse,
    VerifyRequest,
    VerifyResponse,
)
from penstock.replication.errors import ReplicationError
from penstock.runtime.calls.messages import check, encode
from penstock.runtime.calls.ports import CallLimits
from penstock.runtime.peer_codec import MalformedPeerMessage
from tests.runtime.calling import AMPLE_MS, markers, pair, run, verify

TWO = BrokerId(2)
OWN = BrokerId(1)


def test_each_kind_of_question_is_answered_by_its_handler() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            seen: list[MarkersRequest] = []

            async def write(question: MarkersRequest) -> MarkersResponse:
                seen.append(question)
                return MarkersResponse(
                    codes=tuple(tuple(range(len(one.partitions))) for one in question.entries)
                )

            two.calls.server.serve(MarkersRequest, write)
            two.gate.is_open = True
            asked = markers(2, 0, 1)
            answer = await one.calls.ask(TWO, asked, timeout_ms=AMPLE_MS)
            assert answer.codes == ((0, 1), (), (0,))
            assert seen[0].entries == asked.entries
            verified = await one.calls.ask(TWO, verify(4, 5, name="ü"), timeout_ms=AMPLE_MS)
            assert verified.codes == (4, 5)
            assert two.gate.asked[0].partitions == (AskedPartition("ü", 4), AskedPartition("ü", 5))
            assert two.gate.asked[0].topic_ids == (16 * b"i",)
            assert one.calls.stats.outcomes == {
                ("MarkersRequest", "answered"): 1,
                ("VerifyRequest", "answered"): 1,
            }
            assert two.calls.stats.served == one.calls.stats.outcomes
            assert len(two.links) == 1, "all calls to a broker share a link"

    run(scenario())


def test_what_slaves_ask_of_the_tier_is_answered_over_a_link() -> None:
    where = TierRunsRequest(
        replica_set_id=3, leader_epoch=LeaderEpoch(4), topic_id=16 * b"i", partition=5, offset=6
    )

    async def scenario() -> None:
        async with pair() as (one, two):

            async def tell(question: TierRunsRequest) -> TierRunsResponse:
                assert replace(question, correlation=0) == where
                return TierRunsResponse(
                    is_known=True, start_offset=7, lease_ms=8, runs=(b"one", b"two")
                )

            two.calls.server.serve(TierRunsRequest, tell)
            told = await one.calls.ask(TWO, where, timeout_ms=AMPLE_MS)
            assert (told.is_known, told.start_offset, told.lease_ms) == (True, 7, 8)
            assert told.runs == (b"one", b"two")

    run(scenario())
    check(where)
    with pytest.raises(MalformedPeerMessage):
        check(replace(where, topic_id=15 * b"i"))
    with pytest.raises(CallTooLarge):
        encode(TierRunsResponse(is_known=True, runs=(RUNS_MAX + 1) * (b"",)))
    with pytest.raises(CallTooLarge):
        encode(TierRunsResponse(is_known=True, runs=((RUNS_BYTES_MAX + (5 << 10)) * b"x",)))


def test_what_share_groups_ask_is_answered_over_a_link() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):

            async def summaries(question: ShareSummaryRequest) -> ShareSummaryResponse:
                found = (ShareSummary(0, len(question.group)),) * len(question.places)
                return ShareSummaryResponse(found=found)

            async def codes(
                question: ShareChangeRequest | ShareLeaveRequest | ShareBeginRequest,
            ) -> ShareCodesResponse:
                return ShareCodesResponse(codes=(len(question.group),))

            two.calls.server.serve(ShareSummaryRequest, summaries)
            two.calls.server.serve(ShareChangeRequest, codes)
            two.calls.server.serve(ShareLeaveRequest, codes)
            two.calls.server.serve(ShareBeginRequest, codes)
            place = SharePlace(16 * b"i", 3)
            where = ShareSummaryRequest(group="abc", places=(place, place))
            told = await one.calls.ask(TWO, where, timeout_ms=AMPLE_MS)
            assert [ShareSummary(*each).start_offset for each in told.found] == [3, 3]
            change = ShareChangeRequest(group="ab", kind=0, changes=(ShareChange(*place),))
            assert (await one.calls.ask(TWO, change, timeout_ms=AMPLE_MS)).codes == (2,)
            leave = ShareLeaveRequest(group="a", member="m")
            assert (await one.calls.ask(TWO, leave, timeout_ms=AMPLE_MS)).codes == (1,)
            begin = ShareBeginRequest(group="abcd", places=(place,))
            assert (await one.calls.ask(TWO, begin, timeout_ms=AMPLE_MS)).codes == (4,)
            assert len(two.links) == 1

    run(scenario())


def test_what_a_member_with_damage_asks_is_answered_over_a_link() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):

            async def batches(question: BatchesRequest) -> BatchesResponse:
                return BatchesResponse(code=question.skip, batches=b"b", total_bytes=3)

            async def extent(question: ExtentRequest) -> ExtentResponse:
                return ExtentResponse(code=0, piece=question.topic_id, total_bytes=30)

            two.calls.server.serve(BatchesRequest, batches)
            two.calls.server.serve(ExtentRequest, extent)
            where: Any = {
                "replica_set_id": 1,
                "leader_epoch": 2,
                "topic_id": 16 * b"i",
                "partition": 3,
            }
            asked = BatchesRequest(**where, offset=4, end_offset=5, skip=1)
            told = await one.calls.ask(TWO, asked, timeout_ms=AMPLE_MS)
            assert (told.code, told.batches, told.total_bytes) == (1, b"b", 3)
            question = ExtentRequest(**where, offset=4)
            answer = await one.calls.ask(TWO, question, timeout_ms=AMPLE_MS)
            assert (answer.piece, answer.total_bytes) == (16 * b"i", 30)
            assert one.outcomes("ExtentRequest") == {"answered": 1}

    run(scenario())


def test_a_question_too_long_for_one_slice_is_answered() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            two.gate.is_open = True
            question = verify(*range(PARTITIONS_MAX), name="a topic")
            answer = await one.calls.ask(TWO, question, timeout_ms=AMPLE_MS)
            assert answer.codes == tuple(range(PARTITIONS_MAX))

    run(scenario())


def test_answers_come_in_any_order() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            asked = [one.soon(2, number) for number in range(3)]
            await two.gate.until(lambda: len(two.gate.asked) >= 3)
            assert two.gate.numbers == [0, 1, 2], "questions keep their order"
            for number in (2, 0, 1):
                two.gate.let(number)
                answer = await asked[number]
                assert answer.codes == (number,)

    run(scenario())


def test_a_call_that_is_not_answered_in_time_may_have_been_done() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            first = one.soon(2, 0, timeout_ms=AMPLE_MS)
            await two.gate.until(lambda: bool(two.gate.asked))
            with pytest.raises(CallTimedOut, match="broker 2"):
                await one.soon(2, 1, timeout_ms=50)
            two.gate.let(1, 0)
            assert (await first).codes == (0,), "the link lives on, and a late answer harms nobody"
            assert one.outcomes() == {"timed_out": 1, "answered": 1}
            assert one.calls.stats.in_flight["VerifyRequest"] == 0

    run(scenario())


def test_who_gives_up_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        async with pair(limits=CallLimits(in_flight=1)) as (one, two):
            given_up, behind = one.soon(2, 0), one.soon(2, 1)
            await two.gate.until(lambda: bool(two.gate.asked))
            given_up.cancel()
            two.gate.let(1)
            assert (await behind).codes == (1,)
            assert one.outcomes() == {"given_up": 1, "answered": 1}

    run(scenario())


def test_calls_in_flight_are_bounded_and_more_of_them_wait_and_more_are_refused() -> None:
    async def scenario() -> None:
        async with pair(limits=CallLimits(in_flight=2, queued=3)) as (one, two):
            first = one.soon(2, 0)
            await two.gate.until(lambda: len(two.gate.asked) >= 1)
            asked = [first, *(one.soon(2, number) for number in range(1, 5))]
            await two.gate.until(lambda: len(two.gate.asked) >= 2)
            with pytest.raises(CallsFull, match="3 calls wait for broker 2"):
                await one.soon(2, 9)
            assert one.calls.stats.in_flight["VerifyRequest"] == 5
            assert two.gate.numbers == [0, 1]
            two.gate.let(*range(5))
            answers = await asyncio.gather(*asked)
            assert [one.codes for one in answers] == [(0,), (1,), (2,), (3,), (4,)]
            assert two.gate.numbers == [0, 1, 2, 3, 4]

    run(scenario())


def test_a_call_that_waited_its_time_was_not_sent() -> None:
    async def scenario() -> None:
        async with pair(limits=CallLimits(in_flight=1)) as (one, two):
            first = one.soon(2, 0)
            await two.gate.until(lambda: bool(two.gate.asked))
            with pytest.raises(CallNotSent):
                await one.soon(2, 1, timeout_ms=20)
            two.gate.let(0)
            assert (await first).codes == (0,)
            two.gate.let(2)
            await one.soon(2, 2)
            assert two.gate.numbers == [0, 2]

    run(scenario())


@pytest.mark.parametrize("to", [2, 1])
def test_what_is_too_large_is_refused_before_it_is_sent(to: int) -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            one.serve()
            ask = one.calls.ask
            question = verify(*range(PARTITIONS_MAX + 1))
            with pytest.raises(CallTooLarge, match="10001 partitions"):
                await ask(BrokerId(to), question, timeout_ms=AMPLE_MS)
            with pytest.raises(CallTooLarge, match="bytes"):
                await ask(BrokerId(to), markers(20_000), timeout_ms=AMPLE_MS)
            one.gate.is_open = two.gate.is_open = True
            assert (await one.soon(to, 3)).codes == (3,)

    run(scenario())


def test_a_broker_asks_itself_without_a_link_and_under_the_same_bounds() -> None:
    async def scenario() -> None:
        async with pair(limits=CallLimits(in_flight=2, queued=1)) as (one, _):
            one.serve()
            asked = [one.soon(1, 0), one.soon(1, 1), one.soon(1, 2)]
            await one.gate.until(lambda: len(one.gate.asked) >= 2)
            with pytest.raises(CallsFull):
                await one.soon(1, 3)
            one.gate.let(2, 1, 0)
            assert [each.codes for each in await asyncio.gather(*asked)] == [(0,), (1,), (2,)]
            assert not one.links
            with pytest.raises(CallNotServed, match="broker 1 does not serve MarkersRequest"):
                await one.calls.ask(OWN, markers(1), timeout_ms=AMPLE_MS)

    run(scenario())


def test_a_broker_works_on_no_more_of_its_own_questions_than_it_waits_for() -> None:
    async def scenario() -> None:
        async with pair(limits=CallLimits(in_flight=2, served=2)) as (one, _):
            one.serve()
            late = [one.soon(1, number, timeout_ms=20) for number in range(2)]
            await asyncio.gather(*late, return_exceptions=True)
            with pytest.raises(CallNotSent):
                await one.soon(1, 2, timeout_ms=20)
            one.gate.is_open = True
            one.gate.let(0, 1)
            assert (await one.soon(1, 3)).codes == (3,)
            assert one.gate.numbers == [0, 1, 3]

    run(scenario())


@pytest.mark.parametrize("to", [2, 1])
def test_a_question_that_nobody_serves_is_answered_so(to: int) -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            with pytest.raises(CallNotServed, match=f"broker {to} does not serve MarkersRequest"):
                await one.calls.ask(BrokerId(to), markers(1), timeout_ms=AMPLE_MS)
            assert one.outcomes("MarkersRequest") == {"not_served": 1}
            asked = two if to == 2 else one
            assert asked.calls.stats.served == {("MarkersRequest", "unserved"): 1}

    run(scenario())


@pytest.mark.parametrize("to", [2, 1])
def test_a_handler_that_fails_or_takes_too_long_may_have_done_it(to: int) -> None:
    async def scenario() -> None:
        async with pair(limits=CallLimits(served_ms=20)) as (one, two):

            async def fail(question: MarkersRequest) -> MarkersResponse:
                raise ReplicationError("the disk is full")

            one.serve()
            for each in (one, two):
                each.calls.server.serve(MarkersRequest, fail)
            with pytest.raises(CallFailed, match="the disk is full"):
                await one.calls.ask(BrokerId(to), markers(1), timeout_ms=AMPLE_MS)
            with pytest.raises(CallFailed, match="not done in 20 ms"):
                await one.soon(to, 1)
            asked = two if to == 2 else one
            assert sorted(asked.calls.stats.served.items()) == [
                (("MarkersRequest", "failed"), 1),
                (("VerifyRequest", "failed"), 1),
            ]

    run(scenario())


def test_a_broker_that_is_not_registered_or_has_no_port_for_peers_is_not_reached() -> None:
    async def scenario() -> None:
        async with pair() as (one, _):
            with pytest.raises(BrokerNotReached, match="broker 3 is not registered"):
                await one.soon(3, 0)
            assert one.outcomes() == {"not_reached": 1}

    run(scenario())


def test_an_answer_with_too_few_codes_is_none() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            lane_of = one.calls._asked
            asked = one.soon(2, 0, 1)
            await two.gate.until(lambda: bool(two.gate.asked))
            lane = lane_of[TWO].lane
            lane.on_answer(VerifyResponse(codes=(0,), correlation=1))
            with pytest.raises(CallFailed, match="does not fit"):
                await asked

    run(scenario())


def test_after_a_stop_nothing_is_asked_and_what_waits_ends() -> None:
    async def scenario() -> None:
        async with pair(limits=CallLimits(in_flight=1)) as (one, two):
            one.serve()
            sent, waits = one.soon(2, 0), one.soon(2, 1)
            own_sent, own_waits = one.soon(1, 0), one.soon(1, 1)
            await two.gate.until(lambda: bool(two.gate.asked))
            await one.gate.until(lambda: bool(one.gate.asked))
            one.calls.stop()
            everything = (sent, waits, own_sent, own_waits)
            ended = await asyncio.gather(*everything, return_exceptions=True)
            kinds = [type(each).__name__ for each in ended]
            assert kinds == ["LinkLost", "BrokerNotReached"] * 2
            for to in (1, 2):
                with pytest.raises(BrokerNotReached, match="this broker stops"):
                    await one.soon(to, 2)

    run(scenario())


def test_who_asks_needs_to_know_nothing_of_links() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            two.gate.is_open = True
            caller: Caller = one.calls
            answer = await caller.ask(TWO, verify(6), timeout_ms=AMPLE_MS)
            assert answer.codes == (6,)

    run(scenario())


def test_questions_of_a_kind_have_one_handler() -> None:
    async def scenario() -> None:
        async with pair() as (_, two):
            with pytest.raises(AssertionError, match="served already"):
                two.calls.server.serve(VerifyRequest, two.gate)

    run(scenario())
