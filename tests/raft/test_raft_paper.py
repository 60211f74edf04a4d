"""One test for each claim of the Raft paper, 5: elections, replication, safety, crashes."""

import pytest

from penstock.base.ids import PeerId
from penstock.raft.entry import Entry
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.messages import (
    AppendEntries,
    AppendResponse,
    VoteRequest,
    VoteResponse,
)
from penstock.raft.raft import Raft
from penstock.raft.ready import HardState, Role, Snapshot
from tests.raft.group import CONFIG, Group, voters
from tests.raft.single import (
    Single,
    append,
    entries,
    granted,
    success,
    vote_request,
)

LEADING = {Role.LEADER}


# -- 5.1 terms


@pytest.mark.parametrize("role", [Role.FOLLOWER, Role.CANDIDATE, Role.LEADER])
def test_a_member_that_sees_a_later_term_takes_it_and_follows(role: Role) -> None:
    """Raft 5.1."""
    single = _in_role(role)
    single.step(append(2, term=single.raft.term + 5))
    assert single.raft.role is Role.FOLLOWER
    assert single.raft.leader_id == 2
    assert single.readies[-1].hard_state or single.readies[-2].hard_state


@pytest.mark.parametrize("role", [Role.FOLLOWER, Role.CANDIDATE, Role.LEADER])
def test_a_request_of_an_earlier_term_is_refused_with_the_own_term(role: Role) -> None:
    """Raft 5.1."""
    single = _in_role(role)
    term, before = single.raft.term, single.raft.last_index
    single.take(object)
    single.step(vote_request(2, term - 1, (9, 9)), append(3, term - 1, new=entries([1])))
    answers = [message for _, message in single.sent]
    assert [type(answer) for answer in answers] == [VoteResponse, AppendResponse]
    assert [answer.term for answer in answers] == [term, term]
    assert not any(
        getattr(a, "is_granted", False) or getattr(a, "is_success", False) for a in answers
    )
    assert (single.raft.role, single.raft.last_index) == (role, before)


def _in_role(role: Role) -> Single:
    single = Single(term=3)
    if role is Role.FOLLOWER:
        return single
    single.elected()
    if role is Role.CANDIDATE:
        single = Single(term=3).tick(CONFIG.election_ticks_min)
        single.step(granted(2, 4, is_pre_vote=True))
    assert single.raft.role is role
    return single


# -- 5.2 elections


def test_members_start_as_followers() -> None:
    """Raft 5.2."""
    assert Single().raft.role is Role.FOLLOWER


def test_a_leader_sends_heartbeats_to_all() -> None:
    """Raft 5.2."""
    single = Single().elected().acknowledge(2, 1).acknowledge(3, 1)
    single.take(object)
    single.tick(CONFIG.heartbeat_ticks)
    assert [(to, type(m)) for to, m in single.sent] == [(2, AppendEntries), (3, AppendEntries)]
    assert all(m.entries == () for m in single.take(AppendEntries))


def test_a_follower_that_hears_a_leader_does_not_campaign() -> None:
    """Raft 5.2."""
    single = Single(term=1)
    for _ in range(10):
        single.step(append(2, term=1)).tick(CONFIG.election_ticks_min - 1)
    assert single.raft.role is Role.FOLLOWER


def test_silence_for_an_election_timeout_begins_an_election_in_a_new_term() -> None:
    """Raft 5.2, with the pre-vote of thesis 9.6 before it."""
    single = Single(term=1).tick(CONFIG.election_ticks_min - 1)
    assert single.raft.role is Role.FOLLOWER
    single.tick()
    assert (single.raft.role, single.raft.term) == (Role.PRE_CANDIDATE, 1)
    single.take(object)
    single.step(granted(2, 2, is_pre_vote=True))
    assert (single.raft.role, single.raft.term) == (Role.CANDIDATE, 2)
    assert [to for to, _ in single.sent] == [2, 3]
    assert all(request.term == 2 for request in single.take(VoteRequest))


@pytest.mark.parametrize(
    ("voter_count", "grants", "refusals", "role"),
    [
        (1, 0, 0, Role.LEADER),
        (2, 0, 0, Role.CANDIDATE),
        (3, 1, 0, Role.LEADER),
        (3, 1, 1, Role.LEADER),
        (3, 0, 1, Role.CANDIDATE),
        (3, 0, 2, Role.FOLLOWER),
        (5, 1, 2, Role.CANDIDATE),
        (5, 2, 2, Role.LEADER),
        (5, 1, 3, Role.FOLLOWER),
    ],
)
def test_a_majority_of_votes_makes_a_leader_and_one_of_refusals_a_follower(
    voter_count: int, grants: int, refusals: int, role: Role
) -> None:
    """Raft 5.2."""
    single = Single(voter_ids=range(1, voter_count + 1)).tick(CONFIG.election_ticks_min)
    others = list(range(2, voter_count + 1))
    single.step(*(granted(other, 1, is_pre_vote=True) for other in others))
    single.step(*(granted(other, 1, is_granted=False) for other in others[:refusals]))
    single.step(*(granted(other, 1) for other in others[refusals : refusals + grants]))
    assert single.raft.role is role


def test_each_member_votes_for_at_most_one_candidate_of_a_term_the_first() -> None:
    """Raft 5.2."""
    single = Single()
    assert single.step(vote_request(2, 1)).one(VoteResponse).is_granted
    assert not single.step(vote_request(3, 1)).one(VoteResponse).is_granted
    assert single.step(vote_request(2, 1)).one(VoteResponse).is_granted


def test_a_vote_leaves_only_when_it_is_durable_and_is_known_after_a_restart() -> None:
    """Raft 5.2, figure 2: updated on stable storage before responding."""
    single = Single()
    single.raft.step(vote_request(2, 1))
    ready = single.raft.ready()
    assert ready is not None
    assert (ready.messages, len(ready.messages_persisted)) == ((), 1)
    assert ready.must_sync
    assert ready.hard_state == HardState(term=Term(1), voted_for=PeerId(2))
    again = Raft(
        own_id=PeerId(1),
        config=CONFIG,
        random_below=lambda _: 0,
        hard_state=ready.hard_state,
        snapshot=Snapshot(configuration=voters(1, 2, 3)),
    )
    again.step(vote_request(3, 1))
    answer = again.ready()
    assert answer is not None
    assert not answer.messages[0].message.is_granted  # type: ignore[union-attr]


def test_the_own_vote_counts_only_when_it_is_durable() -> None:
    """Raft 5.2, figure 2: a single voter that crashed before would lead the same term twice."""
    single = Single(voter_ids=[1])
    single.raft.tick()
    assert single.raft.role is Role.CANDIDATE
    ready = single.raft.ready()
    assert single.raft.role is Role.CANDIDATE
    assert ready is not None
    single.raft.advance(ready)
    assert single.raft.role in LEADING


@pytest.mark.parametrize("is_pre_vote", [True, False])
def test_a_candidate_that_meets_the_leader_of_its_term_follows_it(is_pre_vote: bool) -> None:
    """Raft 5.2."""
    single = Single(term=1).tick(CONFIG.election_ticks_min)
    if not is_pre_vote:
        single.step(granted(3, 2, is_pre_vote=True))
    single.step(append(2, term=single.raft.term))
    assert (single.raft.role, single.raft.leader_id) == (Role.FOLLOWER, 2)


def test_a_candidate_without_a_decision_begins_another_election() -> None:
    """Raft 5.2: split votes."""
    single = Single(term=1).tick(CONFIG.election_ticks_min)
    single.step(granted(2, 2, is_pre_vote=True))
    assert single.raft.role == "candidate"
    single.take(object)
    single.tick(CONFIG.election_ticks_min)
    assert single.raft.role == "pre-candidate"
    assert [request.term for request in single.take(VoteRequest)] == [3, 3]


def test_election_timeouts_are_drawn_from_the_whole_interval() -> None:
    """Raft 5.2: randomized so that split votes are rare."""
    ticks = []
    for draw in range(CONFIG.election_ticks_max - CONFIG.election_ticks_min):
        single = Single(draw=draw)
        count = 0
        while single.raft.role is Role.FOLLOWER:
            single.tick()
            count += 1
        ticks.append(count)
    assert ticks == list(range(CONFIG.election_ticks_min, CONFIG.election_ticks_max))


# -- 5.3 replication


def test_a_leader_appends_a_proposal_and_sends_it_to_all_in_parallel_with_its_own_disk() -> None:
    """Raft 5.3; thesis 10.2.1."""
    single = Single().elected().acknowledge(2, 1).acknowledge(3, 1)
    assert single.raft.propose(b"x") == 2
    ready = single.raft.ready()
    assert ready is not None
    assert [e.payload for e in ready.entries] == [b"x"]
    sent = [(to, m.entries) for to, m in ready.messages if isinstance(m, AppendEntries)]
    assert sent == [(2, ready.entries), (3, ready.entries)]


def test_proposals_of_one_turn_travel_in_one_message_and_do_not_wait_for_answers() -> None:
    """Thesis 10.2.2: batching and pipelining."""
    single = Single().elected().acknowledge(2, 1)
    single.take(object)
    for payload in (b"a", b"b"):
        single.raft.propose(payload)
    single.work()
    single.raft.propose(b"c")
    single.work()
    to_2 = [m for to, m in single.sent if to == 2 and isinstance(m, AppendEntries)]
    assert [[e.payload for e in m.entries] for m in to_2] == [[b"a", b"b"], [b"c"]]


def test_the_leaders_own_copy_counts_only_when_it_is_durable() -> None:
    """Thesis 10.2.1."""
    single = Single().elected()
    single.acknowledge(2, 1).acknowledge(3, 1)
    single.raft.propose(b"x")
    ready = single.raft.ready()
    single.raft.step(success(2, 1, 2))
    assert single.raft.commit_index == 1
    assert ready is not None
    single.raft.advance(ready)
    single.work()
    assert single.raft.commit_index == 2


@pytest.mark.parametrize(
    ("voter_count", "acknowledging", "is_committed"),
    [
        (1, 0, True),
        (2, 0, False),
        (2, 1, True),
        (3, 0, False),
        (3, 1, True),
        (4, 1, False),
        (4, 2, True),
        (5, 1, False),
        (5, 2, True),
    ],
)
def test_an_entry_is_committed_once_a_majority_has_it(
    voter_count: int, acknowledging: int, is_committed: bool
) -> None:
    """Raft 5.3."""
    single = Single(voter_ids=range(1, voter_count + 1)).elected((2, 3, 4))
    for other in range(2, 2 + acknowledging):
        single.acknowledge(other, 1)
    assert (single.raft.commit_index == 1) is is_committed


def test_a_commit_takes_all_entries_before_it_along() -> None:
    """Raft 5.3: including entries created by previous leaders."""
    single = Single(terms=[1, 1, 2]).elected().acknowledge(2, 4)
    assert single.raft.commit_index == 4
    applied = [e.index for ready in single.readies for e in ready.committed]
    assert applied == [1, 2, 3, 4]


def test_followers_hear_of_a_commit_at_once_and_apply_it_in_order() -> None:
    """Raft 5.3. Not at the next heartbeat: how soon a change is seen everywhere depends on it."""
    group = Group([1, 2, 3], [4])
    group.elect(1)
    group.tick(CONFIG.learner_hello_ticks)
    group.propose(b"a")
    group.propose(b"b")
    assert all(member.applied == [b"a", b"b"] for member in group.members.values())


def test_a_follower_without_the_entry_before_refuses() -> None:
    """Raft 5.3: consistency check."""
    single = Single(terms=[1, 2], term=3)
    for previous in [(2, 3), (1, 2), (3, 2)]:
        answer = single.step(append(2, 3, previous)).one(AppendResponse)
        assert (answer.is_success, answer.rejected_index) == (False, previous[1])
    for previous in [(0, 0), (1, 1), (2, 2)]:
        answer = single.step(append(2, 3, previous)).one(AppendResponse)
        assert (answer.is_success, answer.match_index) == (True, previous[1])


@pytest.mark.parametrize(
    ("previous", "new", "result"),
    [
        ((2, 2), entries([3], 3), [1, 2, 3]),
        ((1, 1), entries([3, 4], 2), [1, 3, 4]),
        ((0, 0), entries([3, 4]), [3, 4]),
        ((0, 0), entries([1]), [1, 2]),
        ((1, 1), (), [1, 2]),
    ],
)
def test_entries_that_conflict_go_with_all_behind_them_and_others_stay(
    previous: tuple[int, int],
    new: tuple[Entry, ...],
    result: list[int],
) -> None:
    """Raft 5.3, figure 2: a late message must not take away what came after it."""
    single = Single(terms=[1, 2], term=4).step(append(2, 4, previous, new))
    assert single.terms == result


@pytest.mark.parametrize(
    "terms",
    [
        [1, 1, 1, 4, 4, 5, 5, 6, 6],
        [1, 1, 1, 4],
        [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6],
        [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7],
        [1, 1, 1, 4, 4, 4, 4],
        [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3],
    ],
    ids="abcdef",
)
def test_a_leader_makes_every_log_of_figure_7_equal_to_its_own(terms: list[int]) -> None:
    """Raft 5.3, figure 7."""
    group = Group([1, 2, 3])
    for peer_id, log in ((1, [1, 1, 1, 4, 4, 5, 5, 6, 6, 6]), (2, terms)):
        group.disks[peer_id].entries = list(entries(log))
        group.disks[peer_id].hard_state = HardState(term=Term(7))
        group.restart(peer_id)
    group.elect(1)
    group.tick(CONFIG.heartbeat_ticks * 3)
    group.propose(b"x")
    logs = [member.raft._core.log._entries for member in group.members.values()]
    assert logs[0] == logs[1] == logs[2]
    assert [e.term for e in logs[0]][:10] == [1, 1, 1, 4, 4, 5, 5, 6, 6, 6]


def test_a_leader_finds_where_logs_part_with_one_question_per_term() -> None:
    """Raft 5.3: reduce the number of rejected AppendEntries."""
    single = Single(terms=[1] + [3] * 50, term=4).elected()
    single.take(object)
    # The other has [1] + [2] * 60.
    hint = AppendResponse(
        sender=PeerId(2), term=Term(5), round=1, is_success=False, match_index=RaftIndex(0),
        rejected_index=RaftIndex(51), hint_index=RaftIndex(51), hint_term=Term(2),
    )  # fmt: skip
    single.step(hint)
    probe = next(m for m in single.take(AppendEntries) if m.entries)
    assert (probe.previous_term, probe.previous_index) == (1, 1)


def test_a_leader_never_changes_its_own_entries() -> None:
    """Raft 5.3: leader append-only."""
    single = Single(terms=[1, 2, 2]).elected()
    before = single.raft._core.log._entries[:]
    single.step(success(2, 3, 4), success(3, 3, 2)).tick(5)
    assert single.raft._core.log._entries[: len(before)] == before


# -- 5.4 safety


@pytest.mark.parametrize("is_pre_vote", [True, False])
@pytest.mark.parametrize(
    ("own", "last", "is_granted"),
    [
        ([1], (1, 1), True),
        ([1], (1, 2), True),
        ([1], (2, 1), True),
        ([1, 1], (1, 1), False),
        ([1, 1], (2, 1), True),
        ([2], (1, 5), False),
        ([1, 2], (2, 1), False),
    ],
)
def test_a_vote_goes_only_to_a_log_that_is_not_behind(
    own: list[int], last: tuple[int, int], is_granted: bool, is_pre_vote: bool
) -> None:
    """Raft 5.4.1."""
    single = Single(terms=own)
    answer = single.step(vote_request(2, 3, last, is_pre_vote=is_pre_vote)).one(VoteResponse)
    assert answer.is_granted is is_granted


def test_entries_of_earlier_terms_are_not_committed_by_counting() -> None:
    """Raft 5.4.2."""
    single = Single(terms=[1, 2]).elected().acknowledge(2, 2).acknowledge(3, 2)
    assert single.raft.commit_index == 0
    single.acknowledge(2, 3)
    assert single.raft.commit_index == 3


def test_figure_8_an_entry_on_a_majority_can_still_be_replaced_and_is_not_applied() -> None:
    """Raft 5.4.2, figure 8, step by step."""
    group = Group([1, 2, 3, 4, 5])
    logs = {1: [1, 2], 2: [1, 2], 3: [1], 4: [1], 5: [1, 3]}
    for peer_id, terms in logs.items():
        group.disks[peer_id].entries = list(entries(terms))
        group.disks[peer_id].hard_state = HardState(term=Term(3), commit_index=RaftIndex(1))
        group.restart(peer_id)
    # (c) S1 leads term 4 and brings the entry of term 2 to S3: a majority has it.
    group.isolate(4, 5)
    leader = group.elect(1)
    assert leader.term == 4
    assert group[3]._core.log.term(RaftIndex(2)) == 2
    # Were the empty entry of term 4 not on a majority yet, nothing could be said:
    group = Group([1, 2, 3, 4, 5])
    for peer_id, terms in {1: [1, 2], 2: [1, 2], 3: [1, 2], 4: [1], 5: [1, 3]}.items():
        group.disks[peer_id].entries = list(entries(terms))
        group.disks[peer_id].hard_state = HardState(term=Term(4), commit_index=RaftIndex(1))
        group.restart(peer_id)
    # (d) so S5 may be elected, and replaces it everywhere.
    group.isolate(1)
    group.elect(5)
    group.tick(5)
    group.heal()
    group.tick(5)
    for member in group.members.values():
        assert [e.term for e in member.applied_entries] == [1, 3, 5]


def test_every_later_leader_has_what_was_committed() -> None:
    """Raft 5.4.3: leader completeness."""
    group = Group([1, 2, 3])
    group.elect(1)
    group.isolate(3)
    group.propose(b"x")
    group.heal()
    group.crash(1)
    for _ in range(3):
        group.tick(2 * CONFIG.election_ticks_max, only=[3])
        assert group[3].role is not Role.LEADER
    group.elect(2)
    assert group.members[2].applied == [b"x"]


# -- 5.5 crashes


def test_messages_may_come_twice() -> None:
    """Raft 5.5: RPCs are idempotent."""
    single = Single(term=1)
    message = append(2, 1, new=entries([1, 1]), commit_index=1)
    assert single.step(message).one(AppendResponse).match_index == 2
    # What is committed needs no second look.
    assert single.step(message).one(AppendResponse).match_index == 1
    assert single.terms == [1, 1]


def test_an_answer_leaves_only_when_its_entries_are_durable_but_a_heartbeats_at_once() -> None:
    """Raft 5.3, figure 2; a slow disk must not make a live follower look dead."""
    single = Single(term=1)
    single.raft.step(append(2, 1, new=entries([1])))
    writing = single.raft.ready()
    assert writing is not None
    assert (writing.messages, len(writing.messages_persisted)) == ((), 1)
    single.raft.step(append(2, 1, (1, 1), round_number=2))
    ready = single.raft.ready()
    assert ready is not None
    answer = ready.messages[0].message
    assert isinstance(answer, AppendResponse)
    assert (answer.is_success, answer.round, answer.match_index) == (True, 2, 0)


def test_a_leader_keeps_trying_a_follower_that_is_away() -> None:
    """Raft 5.3, 5.5: retried indefinitely."""
    group = Group([1, 2, 3])
    group.elect(1)
    group.crash(3)
    for payload in (b"a", b"b"):
        group.propose(payload)
    group.tick(50)
    group.restart(3)
    group.tick(CONFIG.heartbeat_ticks)
    assert group.members[3].applied == [b"a", b"b"]
