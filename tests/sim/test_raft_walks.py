"""Walks of copied Raft groups: nothing is wrong with our core, and what is wrong with others shows.

Each core is made to forget one rule.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from penstock.base.ids import PeerId
from penstock.raft import quorum
from penstock.raft.configuration import Configuration
from penstock.raft.core import Core
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.ids import DirectoryId, RaftIndex, Term
from penstock.raft.log import RaftLog
from penstock.raft.messages import AppendEntries
from penstock.raft.ready import HardState, Snapshot
from penstock.raft.roles import votes
from penstock.raft.roles.current import Roles
from penstock.raft.roles.progress import Progress
from penstock.raft.roles.transfer import Transfer
from simulator.trials.raft import View
from simulator.trials.raft_group import Group, Member
from simulator.trials.raft_walk import Begin, RaftWalk, Voters, config_of, stores_of

pytestmark = pytest.mark.timeout(600)  # hangs only
WALKS = 30


def voters() -> Voters:
    """Three voters with a short log, and a learner that is a little behind."""
    three = {PeerId(11): "c1:1", PeerId(12): "c2:1", PeerId(13): "c3:1"}
    first = Configuration.of(three, {peer_id: DirectoryId(f"disk {peer_id}") for peer_id in three})
    change = Entry(
        index=RaftIndex(1), term=Term(1), kind=EntryKind.CONFIGURATION, payload=first.encode()
    )
    others = [Entry(index=RaftIndex(at), term=Term(2), payload=b"x") for at in range(2, 9)]
    entries = {entry.index: entry for entry in (change, *others)}
    state, nothing = (
        HardState(term=Term(2), commit_index=RaftIndex(4)),
        Snapshot(configuration=Configuration()),
    )
    views = {peer: View(f"disk {peer}", state, nothing, dict(entries)) for peer in three}
    views[PeerId(1)] = View("disk 1", state, nothing, dict(list(entries.items())[:4]))
    return Voters(views, first.voters)


def told(count: int = WALKS) -> str:
    """Return what the first walk tells that finds something; nothing where none does."""
    found: list[str] = []
    for seed in range(count):
        RaftWalk(voters(), Random(seed), found.append).go()
        if found:
            return found[0]
    return ""


def test_nothing_is_wrong_with_what_our_core_does() -> None:
    assert told(12) == ""


def test_a_walk_is_the_same_again() -> None:
    first, second = (RaftWalk(voters(), Random(7), print) for _ in range(2))
    first.go()
    second.go()
    assert first.steps == second.steps > 500
    assert first.group.promises.agreed == second.group.promises.agreed > 8


def _asked_once(transfer: Transfer, to: int) -> None:
    is_asked = transfer._is_asked
    _begin(transfer, PeerId(to))
    transfer._is_asked = is_asked


def _without_the_first(log: RaftLog, limit: int) -> tuple[Entry, ...]:
    return _take_committed(log, limit)[1:]


_begin, _take_committed = Transfer.begin, RaftLog.take_committed


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "tells"),
    [
        (quorum, "majority_of", lambda count: (count + 1) // 2, "agrees on entry"),
        (votes, "is_kept_by_promise", lambda *_, **__: False, "after it heard its leader"),
        (votes, "_may_vote", lambda *_: True, "a term has one vote"),
        (Roles, "campaign", lambda self: self.stand(is_transfer=False), "in advance"),
        (Core, "send_persisted", Core.send, "its disk has"),
        (RaftLog, "is_up_to_date", lambda *_: True, "which is agreed on"),
        (RaftLog, "take_committed", _without_the_first, "applies entry"),
        (Transfer, "begin", _asked_once, "nobody hands over"),
        (Progress, "is_window_full", lambda *_: True, "nobody agrees on a proposal"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_core_that_forgets_a_rule_is_told_of(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, wrong: Callable[..., Any], tells: str
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    text = told()
    assert text.startswith("the controllers, had they lived on under bad luck: ")
    assert tells in text


LEARNER = PeerId(1)


def _asks(leader: int, term: int, terms: list[int]) -> AppendEntries:
    """The leader of a term sends entries from the fifth on, with these terms."""
    entries = [
        Entry(index=RaftIndex(at), term=Term(of), payload=b"y") for at, of in enumerate(terms, 5)
    ]
    return AppendEntries(
        sender=PeerId(leader),
        term=Term(term),
        previous_index=RaftIndex(4),
        previous_term=Term(2),
        commit_index=RaftIndex(4),
        round=1,
        entries=tuple(entries),
    )


def _cut_by_a_later_leader(found: list[str], *, is_one_work: bool = False) -> Member:
    """A learner takes two entries of one leader, and instead of both one of the next."""
    draw, begun = Random(0), voters()
    stores = stores_of(begun, Begin.AS_IT_WAS)
    group = Group(stores, begun.first_voters, config_of(draw), draw, found.append)
    group.start(LEARNER)
    member = group.members[LEARNER]
    member.step(_asks(11, 3, [3, 3]))
    if not is_one_work:
        member.collect()
    member.step(_asks(12, 4, [4]))
    member.collect()
    return member


@pytest.mark.parametrize("is_one_work", [False, True])
def test_a_late_answer_to_an_earlier_leader_states_what_the_disk_had(*, is_one_work: bool) -> None:
    found: list[str] = []
    member = _cut_by_a_later_leader(found, is_one_work=is_one_work)
    while member.write():
        pass
    assert member.store.last_index == 5
    member.settle()
    assert found == []


def test_a_late_answer_that_states_what_the_disk_never_had_is_told_of() -> None:
    found: list[str] = []
    member = _cut_by_a_later_leader(found)
    member.writing[0] = replace(member.writing[0], entries=())  # the disk forgets to write them
    while member.write():
        pass
    member.settle()
    assert found[:1] == ["1@disk 1 says that it has entry 6, which it has not"]
