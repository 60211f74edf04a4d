"""A group of very many members takes many short turns, not a long one."""

from collections import deque
from collections.abc import Callable, Sequence

import pytest

from penstock.coordinator.outbox import TOGETHER, Outbox
from penstock.coordinator.portions import PORTION, TO_TELL
from penstock.coordinator.runtime import DUE_TOGETHER
from penstock.groups.classic.group import Group
from penstock.groups.classic.rebalance import GONE_CHECK_MS, NAMED_MAX
from penstock.groups.classic.roll import Roll
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.messages import JoinReply, OfferedProtocol, SyncReply
from penstock.groups.records import decode_group_value
from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import DELAY_MS, GROUP, REBALANCE_MS, World, only

LONG_SESSION_MS = 10 * REBALANCE_MS

Turns = deque[Callable[[], None]]


def test_many_answers_leave_in_several_turns_and_in_their_order() -> None:
    turns: Turns = deque()
    got: list[int] = []
    outbox = Outbox(turns.append)
    queue = outbox.wrap(got.append)
    with outbox.holding():
        for number in range(2 * TOGETHER + 1):
            queue(number)
    assert got == [*range(TOGETHER)]
    with outbox.holding():
        queue(2 * TOGETHER + 1)
    assert got == [*range(TOGETHER)], "who comes later waits behind those who wait"
    while turns:
        before = len(got)
        turns.popleft()()
        assert len(got) - before <= TOGETHER
    assert got == [*range(2 * TOGETHER + 2)]


def test_answers_that_lead_to_others_leave_in_short_turns_too() -> None:
    turns: Turns = deque()
    got: list[int] = []
    outbox = Outbox(turns.append)

    def ask_again(number: int) -> None:
        got.append(number)
        if number < 3 * TOGETHER:
            with outbox.holding():
                queue(number + 1)

    queue = outbox.wrap(ask_again)
    with outbox.holding():
        queue(0)
    assert len(got) == TOGETHER
    while turns:
        turns.popleft()()
    assert got == [*range(3 * TOGETHER + 1)]


def test_an_answer_that_fails_does_not_keep_the_others() -> None:
    turns: Turns = deque()
    got: list[int] = []

    def deliver(number: int) -> None:
        if not number:
            raise ZeroDivisionError
        got.append(number)

    outbox = Outbox(turns.append)
    queue = outbox.wrap(deliver)

    def answer_two() -> None:
        with outbox.holding():
            queue(0)
            queue(1)

    with pytest.raises(ZeroDivisionError):
        answer_two()
    turns.popleft()()
    assert got == [1]


def test_sessions_that_end_in_one_moment_end_in_several_ticks() -> None:
    world = World()
    count = 2 * DUE_TOGETHER + 10
    world.stable(count, session_ms=LONG_SESSION_MS, rebalance_ms=LONG_SESSION_MS)
    members = world.classic().members
    world.clock.now_ms += LONG_SESSION_MS
    world.coordinator.runtime.tick(world.clock.now_ms)
    assert count - DUE_TOGETHER <= len(members) < count
    due_ms = world.coordinator.runtime.next_deadline_ms()
    assert due_ms is not None
    assert due_ms <= world.clock.now_ms, "the rest is due at once"
    world.coordinator.runtime.tick(world.clock.now_ms)
    world.coordinator.runtime.tick(world.clock.now_ms)
    assert not members


CHANGED = (("range", b"new"),)
COUNT = 3 * PORTION
IN_A_TURN = PORTION // TO_TELL + 1
"""Members who are answered, or dropped, in one turn."""


def most_in_a_turn(world: World, answers: Sequence[Sequence[object]]) -> int:
    """Let turns pass until nothing is left to do; return how many answers came in one at most."""
    most = 0
    while world.turns:
        before = sum(map(len, answers))
        world.turn()
        most = max(most, sum(map(len, answers)) - before)
    return most


def joining(world: World, count: int = COUNT) -> list[list[JoinReply]]:
    parked = [world.join(client=f"c{n}", session_ms=LONG_SESSION_MS) for n in range(count)]
    while not group_of(world).generation:
        world.pass_ms(DELAY_MS)
    return parked


def group_of(world: World) -> Group:
    return world.classic()


def syncing(world: World) -> tuple[JoinReply, list[list[SyncReply]]]:
    """A group whose members all wait for what its leader, who is returned, assigns."""
    parked = joining(world)
    world.all_turns()
    replies = [only(answers) for answers in parked]
    (leader,) = [reply for reply in replies if reply.member_id == reply.leader_id]
    followers = [reply for reply in replies if reply is not leader]
    return leader, [world.sync(follower.member_id, follower.generation) for follower in followers]


def test_a_generation_is_announced_in_several_turns() -> None:
    world = World(has_turns=True)
    parked = joining(world)
    assert sum(map(len, parked)) <= IN_A_TURN
    assert 0 < most_in_a_turn(world, parked) <= IN_A_TURN
    assert {only(answers).generation for answers in parked} == {1}


def test_who_leaves_while_a_generation_is_announced_is_answered_and_has_no_session() -> None:
    world = World(has_turns=True)
    parked = joining(world)
    last = [*group_of(world).members][-1]
    world.leave((last, None))
    world.all_turns()
    assert only(parked[-1]).member_id == last
    key = DeadlineKey(DeadlineKind.SESSION, GROUP, last)
    assert world.coordinator.runtime.base.deadlines.at(key) is None
    assert world.beat(last, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_moves_away_while_a_generation_is_announced_leaves_no_sessions() -> None:
    world = World(has_turns=True)
    parked = joining(world)
    world.coordinator.runtime.unload(world.coordinator.partition_of(GROUP))
    world.all_turns()
    assert all(len(answers) == 1 for answers in parked)
    kinds = {key.kind for key in world.coordinator.runtime.base.deadlines._due}
    assert kinds <= {DeadlineKind.EXPIRY, DeadlineKind.GONE}


def test_assignments_reach_thousands_of_members_in_several_turns() -> None:
    world = World(has_turns=True)
    leader, parked = syncing(world)
    given = {member_id: member_id.encode() for member_id in group_of(world).members}
    world.sync(leader.member_id, leader.generation, given)
    assert 0 < most_in_a_turn(world, parked) <= IN_A_TURN
    heard = {only(answers).assignment for answers in parked}
    assert heard == {*given.values()} - {leader.member_id.encode()}


def test_an_assignment_that_has_yet_to_leave_is_not_that_of_a_later_generation() -> None:
    # The group has a new generation, whose members wait, before the last hear of the old one.
    world = World(has_turns=True)
    leader, parked = syncing(world)
    ids = [*group_of(world).members]
    world.sync(leader.member_id, leader.generation, dict.fromkeys(ids, b"old"))
    while world.state() != "Stable":
        world.turn()
    assert not all(parked)
    again = [world.join(member_id, protocols=CHANGED) for member_id in ids]
    assert group_of(world).generation == 2
    newly = [world.sync(member_id, 2) for member_id in ids[1:]]
    world.all_turns()
    assert {only(answers).assignment for answers in parked} == {b"old"}
    assert {only(answers).generation for answers in again} == {2}
    assert not any(newly), "their leader has said nothing yet"


def test_the_record_of_thousands_of_members_is_built_in_several_turns() -> None:
    world = World(has_turns=True)
    leader, parked = syncing(world)
    given = {member_id: member_id.encode() for member_id in group_of(world).members}
    world.coordinator._context.portions._left = 1
    world.sync(leader.member_id, leader.generation, given)
    assert not any(world.journal.logs.values())
    world.all_turns()
    (record,) = world.journal.logs[world.coordinator.partition_of(GROUP)]
    assert record[1] is not None
    written = decode_group_value(record[1])
    assert {member.member_id: member.assignment for member in written.members} == given
    assert len(parked) + 1 == len(written.members)


def test_a_record_that_is_being_built_when_its_generation_ends_is_not_written() -> None:
    world = World(has_turns=True)
    leader, parked = syncing(world)
    world.coordinator._context.portions._left = 1
    last = [*group_of(world).members][-1]
    world.sync(leader.member_id, leader.generation, {last: b"all"})
    world.leave((last, None))
    world.all_turns()
    assert not any(world.journal.logs.values())
    *stay, left = [only(answers).error for answers in parked]
    assert {*stay} == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert left is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.state() == "PreparingRebalance"


@pytest.mark.parametrize("steps", range(1, 8))
def test_a_generation_may_end_in_any_step_of_its_record(steps: int) -> None:
    world = World(has_turns=True)
    parked = joining(world, 4)
    world.all_turns()
    (leader,) = {only(answers).leader_id for answers in parked}
    world.coordinator._context.portions._left = steps
    world.sync(leader, 1)
    is_built = any(world.journal.logs.values())
    world.leave(([*group_of(world).members][-1], None))
    world.all_turns()
    assert any(world.journal.logs.values()) == is_built


def test_what_clients_call_themselves_counts_in_the_bound_of_a_record() -> None:
    world = World(has_turns=True, record_bytes_max=30_000)
    parked = [world.join(client="c" * 20_000) for _ in range(2)]
    world.pass_ms(3 * DELAY_MS)
    (leader,) = [one for one in map(only, parked) if one.member_id == one.leader_id]
    answers = world.sync(leader.member_id, leader.generation)
    assert only(answers).error is ErrorCode.MESSAGE_TOO_LARGE
    assert not any(world.journal.logs.values())


def test_syncs_of_a_generation_that_is_over_are_refused_in_several_turns() -> None:
    world = World(has_turns=True)
    leader, parked = syncing(world)
    world.leave((leader.member_id, None))
    assert 0 < most_in_a_turn(world, parked) <= IN_A_TURN
    assert {only(answers).error for answers in parked} == {ErrorCode.REBALANCE_IN_PROGRESS}


def test_thousands_who_do_not_join_again_go_in_several_turns_save_who_comes_in_time() -> None:
    world = World(has_turns=True)
    joining(world)
    world.all_turns()
    first, *others = group_of(world).members
    answers = world.join(first, protocols=CHANGED)
    world.clock.now_ms += REBALANCE_MS
    world.coordinator.runtime.tick(world.clock.now_ms)
    assert len(others) - IN_A_TURN < len(group_of(world).members)
    late = world.join(others[-1])
    while world.turns:
        before = len(group_of(world).members)
        world.turn()
        assert before - len(group_of(world).members) <= IN_A_TURN
    assert [*group_of(world).members] == [first, others[-1]]
    assert only(answers).generation == only(late).generation == 2


def test_those_who_came_in_time_are_not_taken_for_silent_in_the_rebalance_that_follows() -> None:
    world = World(has_turns=True)
    joining(world)
    world.all_turns()
    world.join(next(iter(group_of(world).members)), protocols=CHANGED)
    world.clock.now_ms += REBALANCE_MS
    world.coordinator.runtime.tick(world.clock.now_ms)
    for member_id in [*group_of(world).members]:
        world.join(member_id, protocols=CHANGED)
    assert group_of(world).generation == 2
    stay = [*group_of(world).members]
    world.join(stay[0])
    assert world.state() == "PreparingRebalance"
    world.all_turns()
    assert [*group_of(world).members] == stay


def test_thousands_who_do_not_ask_for_their_assignment_go_in_several_turns() -> None:
    world = World(has_turns=True)
    joining(world)
    world.all_turns()
    first, *others = group_of(world).members
    world.sync(first, 1)
    world.clock.now_ms += REBALANCE_MS
    world.coordinator.runtime.tick(world.clock.now_ms)
    assert len(others) - IN_A_TURN < len(group_of(world).members)
    assert world.beat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    world.all_turns()
    assert [*group_of(world).members] == [first]


def test_thousands_whose_connections_are_gone_go_in_several_turns() -> None:
    world = World(has_turns=True)
    parked = [world.join(client=f"c{n}", is_gone=lambda: True) for n in range(COUNT)]
    world.clock.now_ms += GONE_CHECK_MS
    world.coordinator.runtime.tick(world.clock.now_ms)
    assert 0 < sum(map(len, parked)) <= IN_A_TURN
    assert 0 < most_in_a_turn(world, parked) <= IN_A_TURN
    assert group_of(world).members == {}


def test_the_protocol_is_chosen_by_kinds_of_ballots_and_not_member_by_member() -> None:
    world = World()
    liked = (("range", b""), ("sticky", b""))
    for number in range(COUNT):
        world.join(client=f"c{number}", protocols=liked if number % 3 else liked[::-1])
    group = group_of(world)
    assert group.ballots == {
        ("range", "sticky"): COUNT - COUNT // 3,
        ("sticky", "range"): COUNT // 3,
    }
    assert group.choose_protocol() == "range"
    for member in [*group.members.values()][: COUNT // 2]:
        group.offer(member, tuple(OfferedProtocol(*each) for each in liked[::-1]))
    assert group.choose_protocol() == "sticky"


def test_what_a_leader_is_told_of_thousands_is_made_when_it_is_gone_through() -> None:
    # Its answer may wait for room. Kept meanwhile is nothing that members have sent.
    world = World(has_turns=True)
    parked = joining(world)
    world.all_turns()
    (told,) = [only(answers).members for answers in parked if only(answers).members]
    assert isinstance(told, Roll)
    assert len(told) == COUNT
    first, second, *_ = group_of(world).members
    world.join(first, protocols=CHANGED)
    world.leave((second, None))
    metadata = {one.member_id: one.metadata for one in told}
    assert metadata[first] == b"new"
    assert second not in metadata


def test_a_rebalance_that_thousands_held_up_names_a_few(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    first, *_ = world.stable(2 * NAMED_MAX, session_ms=LONG_SESSION_MS)
    world.join(first.member_id)
    caplog.clear()
    world.pass_ms(REBALANCE_MS + DELAY_MS)
    told = [record.message for record in caplog.records if "held up by" in record.message]
    assert len(told) == NAMED_MAX + 1
    assert told[-1].endswith(f"held up by {NAMED_MAX - 1} members more")
