"""What a controller says of its log is compared with its disk, by the term in which it says it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.base.ids import PeerId
from penstock.raft.ids import DirectoryId, RaftIndex, Term
from penstock.raft.messages import AppendResponse
from penstock.raft.ready import HardState
from simulator.checks.raft import talk
from simulator.checks.raft.talk import RaftTalk

ENTRY, LEADER = RaftIndex(6), PeerId(11)


class _Disk:
    """A disk with entries of one term each, and the term of its last vote."""

    def __init__(self, term: int, terms: dict[int, int]) -> None:
        self._term, self._terms = term, terms

    def state(self, _: object) -> HardState:
        return HardState(term=Term(self._term))

    def last_index(self, _: object) -> int:
        return max(self._terms)

    def has_now(self, _: object, index: int, term: int) -> bool:
        return self._terms.get(index) == term


def _told(
    monkeypatch: pytest.MonkeyPatch, disk: _Disk, *, term_now: int, entry_now: int | None
) -> list[str]:
    """Let a member say, in answer to the leader of term 3, that it has the entry."""
    found: list[str] = []
    log = SimpleNamespace(term_at=lambda _: entry_now, _core=SimpleNamespace(term=Term(term_now)))
    monkeypatch.setattr(talk, "_log", lambda _: log)
    monkeypatch.setattr(talk, "is_unreadable", lambda _: False)
    member: Any = SimpleNamespace(name="c1", host=SimpleNamespace(is_controller=False))
    answer = AppendResponse(
        sender=PeerId(1),
        term=Term(3),
        round=1,
        is_success=True,
        match_index=ENTRY,
        rejected_index=RaftIndex(0),
        hint_index=RaftIndex(0),
        hint_term=Term(0),
        directory_id=DirectoryId("disk"),
    )
    RaftTalk(cast("Any", disk), cast("Any", None), {"c1": member}, found.append).heard(
        "c1", LEADER, answer
    )
    return found


def test_an_answer_to_the_present_leader_is_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    there, missing = _Disk(3, {6: 3}), _Disk(3, {5: 3})
    assert _told(monkeypatch, there, term_now=3, entry_now=3) == []
    assert _told(monkeypatch, missing, term_now=3, entry_now=3) != []


def test_an_answer_to_an_earlier_leader_is_of_entries_that_a_later_one_has_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    still_there, cut = _Disk(3, {6: 3}), _Disk(4, {5: 4})
    assert _told(monkeypatch, still_there, term_now=4, entry_now=4) == []
    assert _told(monkeypatch, cut, term_now=4, entry_now=None) == []


def test_an_answer_to_an_earlier_leader_that_never_was_on_the_disk_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _told(monkeypatch, _Disk(3, {5: 3}), term_now=4, entry_now=None) == [
        "c1 tells 11 of entry 6 in term 3, which its disk has not"
    ]
