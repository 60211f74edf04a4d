"""What is asked of the coordinator of a transaction: questions that a link takes, one by one."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.broker.append.verification import Verification, Verified, WantedPartition
from penstock.coordinator.calls.asking import CallError, CallNotBegun
from penstock.coordinator.calls.transactions import VerifyRequest, VerifyResponse
from penstock.kafka.transactions import asking
from penstock.kafka.transactions.asking import PARTITIONS_MAX, CoordinatorAsker
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.runtime.calls.messages import encode

NAME_CHARS_MAX = 249
KNOWN = 100
"""Codes below it are known."""
_WANTED = tuple(
    WantedPartition(f"{number:0{NAME_CHARS_MAX}}", 0, number.to_bytes(16, "big"))
    for number in range(2 * PARTITIONS_MAX + 7)
)


class Link:
    """Keeps the questions, each of which has to fit into a frame; answers with these numbers."""

    def __init__(self, *answers: int | CallError) -> None:
        self.asked: list[VerifyRequest] = []
        self._answers = answers

    async def ask(self, broker_id: int, question: Any, *, timeout_ms: int) -> VerifyResponse:
        del broker_id, timeout_ms
        assert isinstance(question, VerifyRequest)
        encode(question)
        self.asked.append(question)
        answer = self._answers[len(self.asked) - 1]
        if isinstance(answer, CallError):
            raise answer
        codes = tuple(number % KNOWN for number in range(len(question.partitions)))
        return VerifyResponse(codes=codes, number=answer)


def verify(link: Link, monkeypatch: pytest.MonkeyPatch, *, adds: bool = False) -> Verified:
    monkeypatch.setattr(asking, "coordinator_of", lambda broker, name: 1)
    nobody = SimpleNamespace()
    asker = CoordinatorAsker(nobody, link, nobody)  # type: ignore[arg-type]
    asked = Verification("i" * 1_024, ProducerId(1), ProducerEpoch(0), adds, _WANTED)
    return asyncio.run(asker.verify(asked))


def test_a_wide_transaction_with_the_longest_names_is_asked_for_in_several_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = Link(5, 5, 5)
    found = verify(link, monkeypatch)
    assert [len(one.partitions) for one in link.asked] == [PARTITIONS_MAX, PARTITIONS_MAX, 7]
    told = [(place.topic, place.partition) for one in link.asked for place in one.partitions]
    assert told == [one[:2] for one in _WANTED]
    assert [one for part in link.asked for one in part.topic_ids] == [one[2] for one in _WANTED]
    assert found.number == 5
    assert [found.codes[one] for one in _WANTED] == [
        number % PARTITIONS_MAX % KNOWN for number in range(len(_WANTED))
    ]


def test_parts_of_two_transactions_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = verify(Link(5, 6, 6), monkeypatch)
    assert set(found.codes.values()) == {Code.CONCURRENT_TRANSACTIONS}


def test_partitions_that_can_not_enter_yet_are_not_tried_part_by_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The coordinator waits for the last transaction's end, and would for each part."""
    link = Link(5)
    found = verify(link, monkeypatch, adds=True)
    assert len(link.asked) == 1
    assert set(found.codes) == set(_WANTED)
    assert set(found.codes.values()) == {Code.CONCURRENT_TRANSACTIONS}


@pytest.mark.parametrize(
    ("error", "code"),
    [(CallError("lost"), Code.NETWORK_EXCEPTION), (CallNotBegun("no link"), 15)],
)
def test_a_part_without_an_answer_is_said_of_that_part(
    error: CallError, code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = verify(Link(5, error, 5), monkeypatch)
    assert found.number == 5
    second = _WANTED[PARTITIONS_MAX : 2 * PARTITIONS_MAX]
    assert {found.codes[one] for one in second} == {code}
    assert found.codes[_WANTED[0]] == 0
