"""The links under calls: lost, silent, refused, of another release, at another address."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from harness.waiting import until
from penstock.base.ids import BrokerId
from penstock.coordinator.calls.asking import (
    FRAME_BYTES_MAX,
    BrokerNotReached,
    CallFailed,
    CallNotServed,
    LinkLost,
)
from penstock.net.peer import Credentials, PeerHello, PeerSecurity, dial
from penstock.net.redial import RedialPause
from penstock.replication.config import ReplicationConfig
from penstock.runtime.calls.lane import SENT_PER_TURN, Lane
from penstock.runtime.calls.messages import CALL_CODEC, KINDS, StillThere, Unserved, encode
from penstock.runtime.calls.ports import CallLimits
from tests.net.peering import End, drained
from tests.runtime.calling import AMPLE_MS, SECRET, Broker, pair, run, verify

TWO = BrokerId(2)
ENDLESS = ReplicationConfig(reconnect_ms=60_000, reconnect_ms_max=60_000)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    taken: list[int] = []
    after: Callable[[RedialPause, int], int] = RedialPause.after

    def noted(pause: RedialPause, lasted_ms: int) -> int:
        taken.append(after(pause, 0))
        return taken[-1]

    monkeypatch.setattr(RedialPause, "after", noted)
    return taken


async def raw_end(broker: Broker, peer_id: int = 9, secret: bytes = SECRET) -> End:
    """The end of a peer that sends what it likes."""
    link = await dial(
        ("127.0.0.1", broker.listener.port),
        PeerHello(b"call", "", peer_id, 1),
        PeerSecurity(Credentials(secret)),
        timeout_ms=10_000,
        frame_bytes_max=FRAME_BYTES_MAX,
    )
    return End(link)


def frame(number: int, version: int = 1, **fields: object) -> bytes:
    return bytes((number, version)) + msgspec.msgpack.encode(fields)


def asked(number: int, partition: int) -> bytes:
    question = verify(partition)
    fields = {name: getattr(question, name) for name in question.__slots__}
    return frame(2, **fields | {"correlation": number})


def test_calls_on_a_lost_link_end_at_once_and_what_waits_is_sent_over_the_next() -> None:
    async def scenario() -> None:
        async with pair(limits=CallLimits(in_flight=2)) as (one, two):
            calls = [one.soon(2, number) for number in range(3)]
            await two.gate.until(lambda: len(two.gate.asked) >= 2)
            two.links[0].abort("the test cuts it")
            for lost in calls[:2]:
                with pytest.raises(LinkLost, match="broker 2"):
                    await lost
            two.gate.let(2)
            assert (await calls[2]).codes == (2,)
            assert two.gate.numbers == [0, 1, 2], "nothing is sent twice"
            assert one.outcomes() == {"lost": 2, "answered": 1}

    run(scenario())


def test_what_a_lost_link_has_asked_is_worked_on_and_told_to_nobody() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            lost = one.soon(2, 0)
            await two.gate.until(lambda: bool(two.gate.asked))
            two.links[0].abort("the test cuts it")
            with pytest.raises(LinkLost):
                await lost
            later = one.soon(2, 1)
            await two.gate.until(lambda: len(two.gate.asked) >= 2)
            two.gate.let(0, 1)
            assert (await later).codes == (1,)
            assert two.calls.stats.served == {("VerifyRequest", "answered"): 2}

    run(scenario())


def test_a_silent_link_is_given_up() -> None:
    quick = ReplicationConfig(keep_alive_ms=50, link_silence_ms=100)

    async def scenario() -> None:
        async with pair(config=quick) as (one, two):
            two.purposes[b"call"] = lambda link: setattr(link, "on_frame", lambda _: None)
            with pytest.raises(LinkLost, match="nothing heard"):
                await one.soon(2, 0)

    run(scenario())


def test_a_broker_that_works_for_long_is_not_silent() -> None:
    async def scenario() -> None:
        often = ReplicationConfig(keep_alive_ms=50)
        async with pair(limits=CallLimits(served=1), config=often) as (_, two):
            end = await raw_end(two)
            end.link.send(asked(4, 0))
            frames = await end.received(2)
            assert {type(CALL_CODEC.decode(each)) for each in frames} == {StillThere}
            two.gate.let(0)
            await end.until(lambda: end.frames[-1][0] == 131)
            end.link.abort("over")

    run(scenario())


def test_a_malformed_message_ends_its_link_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)

    async def scenario() -> None:
        async with pair() as (_, two):
            for number, bad in enumerate(
                (
                    frame(2, correlation="x"),
                    frame(2)[:1],
                    frame(1, correlation=1, entries=[{"topics": 1}]),
                    frame(99, nothing=1),
                    frame(131, codes=(), correlation=1),
                    frame(200, correlation=1),
                )
            ):
                end = await raw_end(two, peer_id=100 + number)
                end.link.send(bad)
                await end.closed()
            assert not two.gate.asked

    run(scenario())
    assert "peer link calls of=100 at 127.0.0.1" in caplog.text
    assert "ended: message type 2" in caplog.text


def test_a_topic_id_of_another_length_is_malformed() -> None:
    async def scenario() -> None:
        async with pair() as (_, two):
            entry = {
                "producer_id": 1, "producer_epoch": 1, "coordinator_epoch": 1, "is_commit": True,
                "transaction_version": 1, "topics": [(b"short", 1)],
            }  # fmt: skip
            end = await raw_end(two)
            end.link.send(frame(1, correlation=1, entries=[entry]))
            await end.closed()
            end, asked = await raw_end(two), encode(replace(verify(1), topic_ids=(b"short",)))
            end.link.send(asked)
            await end.closed()

    run(scenario())


def test_an_answer_that_is_malformed_ends_the_link_and_its_calls() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            call = one.soon(2, 0)
            await two.gate.until(lambda: bool(two.gate.asked))
            two.links[0].send(frame(131, codes="no", correlation=1))
            with pytest.raises(LinkLost, match="message type 131"):
                await call

    run(scenario())


def test_a_question_of_a_later_release_is_answered_as_unknown_and_the_link_lives_on() -> None:
    async def scenario() -> None:
        async with pair() as (_, two):
            end = await raw_end(two)
            end.link.send(frame(77, correlation=5, something=[1, 2, {"a": b"b"}]))
            end.link.send(frame(2, 2, correlation=6))
            end.link.send(frame(2, 2, correlation=7, partitions=[("t" * 100, 1)] * 1_000))
            two.gate.is_open = True
            end.link.send(asked(8, 3))
            await end.received(4)
            answers = [CALL_CODEC.decode(each) for each in end.frames]
            assert all(isinstance(one, Unserved) and not one.is_begun for one in answers[:3])
            assert [getattr(one, "correlation", None) for one in answers] == [5, 6, 7, 8]
            assert "upgrade this process" in str(answers[0])
            assert two.calls.stats.served["unknown", "unserved"] == 3
            end.link.abort("over")

    run(scenario())


def test_an_answer_of_a_later_release_ends_its_call_alone() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            calls = [one.soon(2, 0), one.soon(2, 1)]
            await two.gate.until(lambda: len(two.gate.asked) >= 2)
            unknown = max(KINDS) + 1
            two.links[0].send(frame(unknown, correlation=1, more=1))
            with pytest.raises(CallFailed, match=f"message type {unknown}"):
                await calls[0]
            two.gate.let(1)
            assert (await calls[1]).codes == (1,)
            assert len(two.links) == 1

    run(scenario())


def test_a_release_that_does_not_know_the_purpose_is_told_about_and_not_dialled_in_a_loop(
    pauses: list[int],
) -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            del two.purposes[b"call"]
            for _ in range(6):
                with pytest.raises(BrokerNotReached, match="serves no links for 'call'"):
                    await one.soon(2, 0)
            assert one.outcomes() == {"not_reached": 6}

    run(scenario())
    assert pauses[:5] == [1, 2, 4, 8, 16], "each attempt waits for the pause after the last one"
    assert len(pauses) <= 6


def test_a_caller_that_asks_again_at_once_causes_no_attempt_before_its_time() -> None:
    async def scenario() -> None:
        async with pair(config=ENDLESS) as (one, two):
            del two.purposes[b"call"]
            with pytest.raises(BrokerNotReached):
                await one.soon(2, 0)
            again = one.soon(2, 1)
            await drained()
            assert not again.done()
            assert two.listener.stranger_count == 0
            again.cancel()

    run(scenario())


def test_a_wrong_secret_reaches_nobody() -> None:
    async def scenario() -> None:
        async with pair(secret=b"another secret of the tests") as (one, two):
            with pytest.raises(BrokerNotReached, match="wrong secret"):
                await one.soon(2, 0)
            assert not two.links
            assert not two.gate.asked

    run(scenario())


def test_a_broker_that_is_down_is_not_reached() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            two.listener.stop()
            with pytest.raises(BrokerNotReached, match="no link to"):
                await one.soon(2, 0)

    run(scenario())


def test_another_broker_at_the_address_is_not_asked() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            two.listener.own = two.listener.own._replace(peer_id=3)
            with pytest.raises(BrokerNotReached, match="is broker 3"):
                await one.soon(2, 0)
            assert not two.gate.asked

    run(scenario())


def test_a_broker_that_restarts_at_another_address_is_found_there() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            two.gate.is_open = True
            assert (await one.soon(2, 0)).codes == (0,)
            await two.close()
            again = Broker(2)
            again.serve()
            again.gate.is_open = True
            one.knows(again)
            await drained()
            assert (await one.soon(2, 1)).codes == (1,)
            assert again.gate.numbers == [1]
            await again.close()

    run(scenario())


def test_a_broker_that_is_registered_elsewhere_is_asked_there_though_the_old_link_lives() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            before = one.soon(2, 0)
            await two.gate.until(lambda: bool(two.gate.asked))
            moved = Broker(2)
            moved.serve()
            moved.gate.is_open = True
            one.knows(moved)
            assert (await one.soon(2, 1)).codes == (1,)
            with pytest.raises(LinkLost, match="registered elsewhere"):
                await before
            assert two.gate.numbers == [0]
            await moved.close()

    run(scenario())


def test_a_broker_works_on_so_many_questions_of_another_one_at_a_time() -> None:
    # Whatever the other one sends, and over however many links.
    async def scenario() -> None:
        async with pair(limits=CallLimits(served=2)) as (_, two):
            end = await raw_end(two)
            for number in range(4):
                end.link.send(asked(number, number))
            await two.gate.until(lambda: len(two.gate.asked) >= 2)
            newer = await raw_end(two)
            await end.closed()
            newer.link.send(asked(9, 9))
            other = await raw_end(two, peer_id=10)
            other.link.send(asked(5, 5))
            await two.gate.until(lambda: len(two.gate.asked) >= 3)
            assert two.gate.numbers == [0, 1, 5]
            two.gate.let(0)
            await two.gate.until(lambda: len(two.gate.asked) >= 4)
            assert two.gate.numbers == [0, 1, 5, 9]
            two.gate.let(9)
            await newer.received(1)
            for one in (newer, other):
                one.link.abort("over")

    run(scenario())


def test_brokers_that_have_left_are_forgotten() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            two.gate.is_open = True
            await one.soon(2, 0)
            del one.image.brokers[TWO]
            two.links[0].abort("the test cuts it")
            await until(lambda: not one.calls._asked and not two.calls.server._asking)

    run(scenario())


def test_not_served_is_known_to_be_undone_and_failed_is_not() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            calls = [one.soon(2, 0), one.soon(2, 1)]
            await two.gate.until(lambda: len(two.gate.asked) >= 2)
            two.links[0].send(frame(128, correlation=1, reason="no", is_begun=False))
            two.links[0].send(frame(128, correlation=2, reason="half", is_begun=True))
            with pytest.raises(CallNotServed, match="no"):
                await calls[0]
            with pytest.raises(CallFailed, match="half"):
                await calls[1]

    run(scenario())


def test_a_link_asks_or_answers() -> None:
    async def scenario() -> None:
        async with pair() as (one, two):
            call = one.soon(2, 0)
            await two.gate.until(lambda: bool(two.gate.asked))
            two.links[0].send(asked(1, 1))
            with pytest.raises(LinkLost, match="only asks"):
                await call

    run(scenario())


def test_what_has_waited_for_a_link_is_sent_in_several_turns_and_in_order() -> None:
    # 64 of the largest questions take 35 ms.
    async def scenario() -> None:
        async with pair() as (one, two):
            del two
            sent: list[int] = []
            is_linked = False
            lane = Lane(
                "broker 2",
                one.calls.server.ports,
                transmit=lambda question: sent.append(question.correlation),
                has_room=lambda: is_linked,
            )
            count = 3 * SENT_PER_TURN
            asking = [
                asyncio.ensure_future(lane.ask(verify(each), AMPLE_MS)) for each in range(count)
            ]
            await drained()
            is_linked = True
            lane.pump()
            lane.pump()
            assert len(sent) == SENT_PER_TURN
            await asyncio.sleep(0)
            assert len(sent) == 2 * SENT_PER_TURN
            await drained()
            assert sent == list(range(1, count + 1))
            lane.lose("the test is over")
            assert all(isinstance(one, LinkLost) for one in await gathered(asking))

    run(scenario())


async def gathered(asking: list[Any]) -> list[Any]:
    return list(await asyncio.gather(*asking, return_exceptions=True))
