"""Consensus counted a second time: silent beside a sound core, and it tells of each broken rule."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.base.ids import PeerId
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.history import ConfigurationHistory
from penstock.raft.ids import DirectoryId, RaftIndex, Term
from penstock.raft.log import RaftLog
from penstock.raft.messages import AppendEntries, TimeoutNow
from penstock.raft.raft import Raft
from penstock.raft.ready import HardState, Role
from penstock.raft.roles import members as members_module
from penstock.raft.roles import votes as votes_module
from penstock.raft.roles.current import Roles
from penstock.raft.roles.follower import Follower
from penstock.raft.roles.leader import Leader
from penstock.raft.roles.replication import Replicator
from penstock.raft.roles.rounds import Rounds
from penstock.runtime.raft.storage import RaftStorage
from simulator.checks.raft.recount import MemberCount, RaftRecount
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan, Shape
from tests.raft.group import led
from tests.raft.single import Single, append, entries, entry, granted, success, vote_request
from tests.raft.test_safety import Schedule

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Recount(RaftRecount):
    """Counts cores that stand in no process and on no disk."""

    def __init__(self) -> None:
        self.told: list[str] = []
        super().__init__(disks=None, servers={}, found=self.told.append)  # type: ignore[arg-type]

    def _member(self, raft: Raft) -> MemberCount:
        if raft not in self._members:
            disk: Any = SimpleNamespace(name=f"n{raft._core.own_id}", is_unreadable=True)
            self._members[raft] = MemberCount(raft, disk, self._found)
        return self._members[raft]


@pytest.fixture
def told() -> Iterator[list[str]]:
    """What is told of every core that the test makes."""
    recount = Recount()
    with recount.at_work():
        yield recount.told


@pytest.mark.parametrize("seed", range(24))
def test_nothing_is_told_of_sound_groups_whatever_happens_to_them(
    told: list[str], seed: int
) -> None:
    Schedule(seed, has_equal_clocks=seed % 2 == 0).run(600)
    assert told == []


# --- logs ----------------------------------------------------------------------------------------


def test_a_late_message_that_cuts_newer_entries(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(self: RaftLog, new: tuple[Entry, ...]) -> None:
        self._truncate(RaftIndex(new[0].index - 1))
        self.append(new)

    monkeypatch.setattr(RaftLog, "merge", cut)
    follower = Single(terms=(1, 1, 1), term=1)
    follower.step(append(2, 1, (1, 1), entries((1,), first=2)))
    assert "makes Ends(last=2" in told[0]


def test_entries_that_are_agreed_on_before_they_are_known_to_be_equal(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_of_it(self: Follower, message: AppendEntries) -> None:
        self._core.log.commit_to(message.commit_index)

    monkeypatch.setattr(Follower, "_on_append", all_of_it)
    Single(terms=(1, 1, 1), term=1).step(append(2, 1, (1, 1), commit_index=3))
    assert "makes Ends(last=3, last_term=1, agreed=3) of" in told[0]


def test_voters_that_stay_though_their_entry_was_cut_off(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Single(term=1)
    change = Entry(
        index=RaftIndex(1),
        term=Term(1),
        kind=EntryKind.CONFIGURATION,
        payload=Configuration.of({PeerId(1): "a:1", PeerId(2): "b:1"}).encode(),
    )
    follower.step(append(2, 1, (0, 0), (change,)))
    assert told == []
    monkeypatch.setattr(ConfigurationHistory, "truncate", lambda *_: None)
    follower.step(append(3, 2, (0, 0), (entry(1, 2),)))
    assert "voters are Configuration(voters=((1, 'a:1'), (2, 'b:1'))" in told[0]


def test_a_leader_that_agrees_on_entries_of_earlier_terms_by_counting(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(self: Leader) -> None:
        held = sorted(peer.match_index for peer in self._peers.values())[-1]
        self._core.log.commit_to(held)

    leader = Single(terms=(1, 1), term=1).elected()
    monkeypatch.setattr(Leader, "maybe_commit", count)
    leader.acknowledge(2, 2)
    assert any("agrees on entry 2 of term 1 in term 2" in one for one in told)


def test_a_leader_that_counts_one_copy_too_few(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Single().elected()
    monkeypatch.setattr(
        Leader, "maybe_commit", lambda self: self._core.log.commit_to(self._core.log.stable_index)
    )
    leader.step(success(2, leader.raft.term, 0))
    assert "agrees on entry 1 of term 1 in term 1, which [(1, '')]" in told[0]


def test_a_copy_counts_for_the_directory_that_it_is_in(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Single().elected()
    monkeypatch.setattr(Replicator, "counted", lambda self, voter: self.peers.get(voter))
    stranger = success(2, leader.raft.term, 0)
    object.__setattr__(stranger, "directory_id", "another")
    leader.step(stranger)
    object.__setattr__(stranger, "match_index", 1)
    leader.step(stranger)
    assert "agrees on entry 1" in told[0]


def test_a_snapshot_with_the_voters_of_another_entry(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ConfigurationHistory, "at", lambda self, _: Configuration())
    group = led(1, 2, 3)
    index = group.propose(b"x")
    group.leader.compact(RaftIndex(index), b"")
    assert "n1 the snapshot up to (2, 1)" in told[0]


# --- voters --------------------------------------------------------------------------------------


def test_a_change_of_the_voters_before_the_one_before_is_agreed_on(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members_module, "_check_settled", lambda _: None)
    group = led(1, 2, 3, 4, learners=(5,))
    group.leader.remove_voter(PeerId(4))
    group.leader.add_voter(PeerId(5), "host5:9093")
    group.leader.ready()
    assert any("n1 changes the voters by entry 3 of term 1: those of 2" in one for one in told)


def test_a_change_of_two_voters_at_once(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    group = led(1, 2, 3)
    other = Configuration.of(
        {PeerId(1): "host1:9093", PeerId(2): "host2:9093", PeerId(3): "c:1"},
        {PeerId(3): DirectoryId("new")},
    )
    monkeypatch.setattr(members_module, "without_voter", lambda *_: other)
    group.leader.remove_voter(PeerId(3))
    assert "n1 changes the voters [(3, ''), (3, 'new')] at once by entry 2" in told[0]


def test_a_seat_that_is_taken_from_a_voter_that_answers(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = led(1, 2, 3)
    vacant = group.leader.configuration.with_vacancy(PeerId(3))
    monkeypatch.setattr(members_module, "without_voter", lambda *_: vacant)
    group.leader.remove_voter(PeerId(3))
    assert "n1 entry 2 takes the vote of 3, which answers" in told


# --- votes ---------------------------------------------------------------------------------------


def test_a_vote_in_spite_of_the_leader_that_is_heard(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(votes_module, "is_kept_by_promise", lambda *_, **__: False)
    follower = Single(term=1).step(append(2, 1))
    follower.step(vote_request(3, 2))
    assert told == ["n1 gives 3 its vote in term 2, 0 ticks after it heard its leader"]


def test_a_term_that_nobody_was_asked_about(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Roles, "campaign", lambda self: self.stand(is_transfer=False))
    Single(term=1).tick(25)
    assert "n1 stands in term 2 with votes in advance of [(1, '')] alone" in told[0]


def test_a_term_that_the_leader_asked_for_needs_no_votes_in_advance(told: list[str]) -> None:
    Single(term=1).step(TimeoutNow(sender=PeerId(2), term=Term(1)))
    assert told == []


def test_a_vote_counts_for_the_directory_that_it_is_in(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Configuration, "is_voter", lambda self, peer_id, _: self.has(peer_id))
    candidate = Single(term=1).tick(25)
    assert candidate.raft.role is Role.PRE_CANDIDATE
    stranger = granted(2, 2, is_pre_vote=True)
    object.__setattr__(stranger, "directory_id", "another")
    candidate.step(stranger)
    assert "n1 stands in term 2 with votes in advance of [(1, ''), (2, 'another')]" in told[0]


def test_a_leader_that_leads_on_though_nobody_answers(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Leader, "_hears_majority", lambda _: True)
    leader = Single().elected()
    leader.tick(20)
    assert told == []
    leader.tick(5)
    assert "leads term 1 on, and only [(1, '')]" in told[0]


# --- reads ---------------------------------------------------------------------------------------


def test_a_read_by_answers_from_before_it_was_asked(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Single().elected().acknowledge(2, 1)
    leader.tick(2)
    leader.acknowledge(2, 1)
    monkeypatch.setattr(Rounds, "begin", lambda _: None)
    leader.raft.read_index(7)
    leader.work()
    assert told == [
        "n1 answers a read by entry 1 in term 1, and only [] of"
        f" {leader.raft.configuration} have said since it was asked that it leads"
    ]


def test_a_read_by_answers_to_a_later_round_is_sound(told: list[str]) -> None:
    leader = Single().elected().acknowledge(2, 1)
    leader.raft.read_index(7)
    leader.work().acknowledge(2, 1)
    assert [read.context for ready in leader.readies for read in ready.reads] == [7]
    assert told == []


# --- disks, in a whole cluster -------------------------------------------------------------------


def findings() -> list[str]:
    async def nothing(_: Run) -> None:
        """The plan says it all."""

    plan = Plan(seed=3, shape=Shape(partitions=1, producers=1, snapshot_after_bytes=512))
    return run_plan(plan, nothing).findings


def test_entries_that_are_called_durable_and_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RaftStorage, "_sync", lambda *_: None)
    assert any("durable, which it is not" in finding for finding in findings())


def test_a_log_that_is_written_again_without_its_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    head = RaftStorage._head

    def nameless(self: RaftStorage, base_index: int, base_term: int) -> Any:
        found = head(self, RaftIndex(base_index), Term(base_term))
        return found._replace(directory_id=DirectoryId("")) if base_index else found

    monkeypatch.setattr(RaftStorage, "_head", nameless)
    assert any("and its disk says ''" in finding for finding in findings())


def test_a_log_that_is_begun_without_a_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    head = RaftStorage._head
    monkeypatch.setattr(
        RaftStorage,
        "_head",
        lambda self, *base: head(self, *base)._replace(directory_id=DirectoryId("")),
    )
    assert any("votes with directory '', and its disk says ''" in finding for finding in findings())


def test_a_term_that_goes_back_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    write = RaftStorage.write

    def older(self: RaftStorage, state: HardState, new: list[Entry]) -> None:
        write(self, HardState(term=Term(state.term - 1)) if state.term and new else state, new)

    monkeypatch.setattr(RaftStorage, "write", older)
    assert any("on its disk, where HardState(" in finding for finding in findings())


def test_a_proposal_that_is_answered_by_another_ones_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    look = RaftRecount._look_at_applied

    def confused(self: RaftRecount, host: str, index: int, payload: bytes) -> None:
        asked.append(payload)
        look(self, host, RaftIndex(index), asked[0])

    monkeypatch.setattr(RaftRecount, "_look_at_applied", confused)
    told = findings()
    assert len(asked) > 5
    assert all("answers a proposal by entry" in one for one in told)
    assert told
