"""What a slave was told of the tier: which window counts, from when, and for how long."""

import asyncio
from dataclasses import replace

import pytest

from penstock.base.ids import Offset
from penstock.broker.errors import TierUnavailable
from penstock.broker.fetch.sent_away import SentAway
from penstock.broker.tier import run_answers
from penstock.broker.tier.run_answers import _first_of
from penstock.coordinator.calls.asking import BrokerNotReached
from penstock.coordinator.calls.tier import TierRunsResponse
from penstock.runtime.tier.told import FRESH_MS, WINDOWS_MAX, Known
from tests.broker.test_role_changes import events
from tests.broker.test_tier_at_slaves import Tiered
from tests.broker.tier_reads import LEASE_MS
from tests.extents.files import Part, batch, key
from tests.tier.objects import name, put

SLOW_MS = 700
"""How long the master takes for an answer."""


def known_at(tiered: Tiered, offset: int) -> Known:
    hosted = tiered.slave.hosted
    assert hosted is not None
    return asyncio.run(tiered.slave.told.of(hosted, hosted.member.leader_epoch, Offset(offset)))


def asked_at(tiered: Tiered) -> list[int]:
    return [one.offset for one in tiered.caller.asked]


def test_a_lease_begins_with_the_question_and_not_with_its_answer() -> None:
    tiered = Tiered()

    def slow(answer: TierRunsResponse) -> TierRunsResponse:
        tiered.wait(SLOW_MS)
        return answer

    tiered.caller.change = slow
    known_at(tiered, 0)
    tiered.caller.error = BrokerNotReached("it has died")
    tiered.wait(LEASE_MS - SLOW_MS - 1)
    known_at(tiered, 0)
    tiered.wait(1)
    with pytest.raises(TierUnavailable):
        known_at(tiered, 0)


def test_a_master_that_is_silent_is_asked_again_by_when_it_was_asked() -> None:
    tiered = Tiered()
    known_at(tiered, 0)
    tiered.wait(FRESH_MS)

    def lost(answer: TierRunsResponse) -> TierRunsResponse:
        tiered.wait(SLOW_MS)
        raise BrokerNotReached("no answer came")

    tiered.caller.change = lost
    known_at(tiered, 0)
    tiered.wait(FRESH_MS - SLOW_MS - 1)
    known_at(tiered, 0)
    assert len(tiered.caller.asked) == 2
    tiered.wait(1)
    known_at(tiered, 0)
    assert len(tiered.caller.asked) == 3


def test_an_answer_from_before_does_not_bring_back_what_was_deleted() -> None:
    tiered = Tiered()
    for start in (2, 0):
        tiered.caller.change = lambda answer, start=start: replace(answer, start_offset=start)
        assert known_at(tiered, 4).start_offset == 2
        tiered.wait(FRESH_MS)
    assert len(tiered.caller.asked) == 2


def test_a_window_takes_the_place_of_an_older_one_that_has_its_beginning() -> None:
    tiered = Tiered()
    known_at(tiered, 0)
    tiered.wait(FRESH_MS)
    for _ in range(2):
        known_at(tiered, 4)
    assert asked_at(tiered) == [0, 4]


def test_of_more_windows_than_are_kept_the_one_that_was_used_longest_ago_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_answers, "RUNS_MAX", 1)
    tiered = Tiered()
    more = []
    for at in range(6, 4 + 2 * WINDOWS_MAX, 2):
        part = Part(tiered.master.key, [batch(at), batch(at + 1)])
        more += put(tiered.bucket, name(at + 1), [part])
    tiered.master.has([*tiered.runs, *more])
    full = [2 * number for number in range(WINDOWS_MAX)]
    for offset in (*full, 0, 2 * WINDOWS_MAX, 0):
        known_at(tiered, offset)
    assert asked_at(tiered) == [*full, 2 * WINDOWS_MAX], "the first was used again, and stayed"


def test_an_answer_has_the_first_runs_and_none_behind_one_that_does_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_answers, "RUNS_BYTES_MAX", 4)
    assert list(_first_of([b"12", b"345", b"6"])) == [b"12"]
    assert list(_first_of([b"12", b"34", b"5"])) == [b"12", b"34"]


def test_a_consumer_that_goes_back_to_an_earlier_offset_was_not_sent_back() -> None:
    known, consumer = SentAway(events(1).world), object()
    assert known.may_send(consumer, key(1, 0), 9)
    assert known.may_send(consumer, key(1, 0), 5)
    assert not known.may_send(consumer, key(1, 0), 5)
