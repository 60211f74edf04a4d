"""Any sequence of requests, time, confirmations and restarts keeps the promises of a group.

After every step: generations only grow, a generation has one leader and one protocol, every member
of a stable group has the assignment its leader gave it, each request was answered at most once, a
commit of an old generation never shows, and what a restart would load equals what was confirmed.
At the end nothing is left unanswered.
"""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.coordinator import portions
from penstock.groups.classic.group import PENDING_BYTES
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.group import GROUP_OVERHEAD_BYTES
from penstock.groups.messages import JoinReply, SyncReply
from penstock.groups.offsets.positions import POSITION_BYTES
from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import GROUP, PARTITIONS, REBALANCE_MS, SESSION_MS, World

CLIENTS = 4
OK = ErrorCode.NONE
clients = st.integers(0, CLIENTS - 1)


class Client:
    """What a client knows: its id, its generation, and the answer it waits for."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.name = name
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.is_leader = False
        self.seen: tuple[str, ...] = ()
        self.waits: list[Any] | None = None


class GroupMachine(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from([0, 500]))
    def start(self, delay_ms: int) -> None:
        self.world = self.new_world(delay_ms)
        self.clients = [Client(f"c{n}", f"i{n}" if n % 2 else None) for n in range(CLIENTS)]
        self.everything: list[list[Any]] = []
        self.leaders: dict[int, str] = {}
        self.assigned: dict[int, dict[str, bytes]] = {}
        self.highest_generation = 0
        self.offset = 0
        self.acknowledged: int | None = None
        self.commits: list[tuple[int, list[Any]]] = []

    def new_world(self, delay_ms: int) -> World:
        return World(initial_rebalance_delay_ms=delay_ms, expiry_check_interval_ms=10**9)

    def note(self, answers: list[Any]) -> list[Any]:
        self.everything.append(answers)
        return answers

    # What clients do

    @rule(who=clients, changed=st.booleans())
    def join(self, who: int, changed: bool) -> None:
        client = self.clients[who]
        protocols = (("range", b"changed" if changed else b"meta"), ("sticky", b""))
        client.waits = self.note(
            self.world.join(
                client.member_id,
                client=client.name,
                instance=client.instance,
                protocols=protocols,
                id_required=True,
                can_skip=who == 1,
            )
        )
        self.hear()

    @rule(who=clients)
    def sync(self, who: int) -> None:
        client = self.clients[who]
        given = {}
        if client.is_leader:
            given = {m: f"{m}@{client.generation}".encode() for m in client.seen}
        if self.is_leaders_turn(client):
            # Also of one who does not know that it leads: its generation was lost in a restart,
            # and has begun once more with others.
            self.assigned[client.generation] = given
        client.waits = self.note(
            self.world.sync(client.member_id, client.generation, given, instance=client.instance)
        )
        self.hear()

    def is_leaders_turn(self, client: Client) -> bool:
        group = self.world.coordinator._table.classic(GROUP)
        return (
            group is not None
            and group.state.value == "CompletingRebalance"
            and (group.generation, group.leader_id) == (client.generation, client.member_id)
            and not group.is_assignment_in_flight
        )

    @rule(who=clients)
    def beat(self, who: int) -> None:
        client = self.clients[who]
        error = self.world.beat(client.member_id, client.generation, instance=client.instance)
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""

    @rule(who=clients, age=st.integers(0, 2))
    def commit(self, who: int, age: int) -> None:
        client = self.clients[who]
        self.offset += 1
        generation = client.generation - age
        answers = self.note(
            self.world.commit(
                {("t", 0): self.offset}, client.member_id, generation, instance=client.instance
            )
        )
        current = self.group_generation()
        if answers and answers[0][("t", 0)] is OK:
            assert generation == current or generation < 0, (generation, current)
        self.commits.append((self.offset, answers))
        self.hear()

    @rule(who=clients)
    def leave(self, who: int) -> None:
        client = self.clients[who]
        self.world.leave((client.member_id, client.instance))
        client.member_id = ""
        self.hear()

    @rule(who=clients)
    def forget_everything(self, who: int) -> None:
        """The client process dies and comes back without its member id."""
        client = self.clients[who]
        client.member_id, client.generation, client.waits = "", -1, None
        client.is_leader = False

    @rule()
    def meet(self) -> None:
        """Everybody joins, with an id, and the rebalance has the time it needs."""
        for _ in range(2):
            for who in range(CLIENTS):
                if not self.clients[who].waits:
                    self.join(who, False)
        self.world.pass_ms(5 * 500)
        self.hear()

    @rule(followers_first=st.booleans())
    def sync_everybody(self, followers_first: bool) -> None:
        for who in sorted(
            range(CLIENTS), key=lambda n: self.clients[n].is_leader is followers_first
        ):
            self.sync(who)

    # What the world does

    @rule(ms=st.sampled_from([1, 400, SESSION_MS // 3, SESSION_MS, REBALANCE_MS]))
    def pass_time(self, ms: int) -> None:
        self.world.pass_ms(ms)
        self.hear()

    @rule()
    def slow_journal(self) -> None:
        self.world.journal.is_prompt = False

    @precondition(lambda self: self.world.journal.waiting)
    @rule()
    def confirm_one(self) -> None:
        self.world.journal.confirm(1)
        self.hear()

    @rule()
    def prompt_journal(self) -> None:
        self.world.journal.confirm()
        self.world.journal.is_prompt = True
        self.hear()

    @rule()
    def rewrite(self) -> None:
        partition = self.world.coordinator.partition_of(GROUP)
        log = self.world.journal.logs[partition]
        start = len(log)
        for records in self.world.coordinator.runtime.snapshot(partition):
            log.extend(records)
        del log[:start]
        self.world.coordinator.runtime.rewritten(partition, 0)

    @rule()
    def kill(self) -> None:
        """All connections break: nobody waits for anything any more."""
        in_log = self.offset_in_log()
        self.world.restart()
        self.everything.clear()
        self.commits.clear()
        for client in self.clients:
            client.waits = None
        self.acknowledged = in_log
        generation = self.group_generation()
        self.highest_generation = generation
        self.leaders = {g: m for g, m in self.leaders.items() if g <= generation}
        self.assigned = {g: a for g, a in self.assigned.items() if g <= generation}

    # What clients hear

    def hear(self) -> None:
        for client in self.clients:
            if client.waits:
                answer = client.waits[0]
                client.waits = None
                if isinstance(answer, JoinReply):
                    self.on_joined(client, answer)
                else:
                    self.on_synced(client, answer)
        for offset, answers in self.commits:
            if answers and answers[0][("t", 0)] is OK:
                self.acknowledged = max(offset, self.acknowledged or 0)
        self.commits = [each for each in self.commits if not each[1]]

    def on_joined(self, client: Client, reply: JoinReply) -> None:
        if reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = reply.member_id
        elif reply.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""
        elif reply.error is OK:
            client.member_id, client.generation = reply.member_id, reply.generation
            client.is_leader = reply.leader_id == reply.member_id and not reply.skip_assignment
            client.seen = tuple(m.member_id for m in reply.members)
            if client.is_leader:
                # One that was removed before it was told hears of members that it is none of, and
                # that it is none when it brings their assignments.
                assert client.member_id in client.seen or not self.is_member(client)
                known = self.leaders.setdefault(reply.generation, reply.member_id)
                assert known == reply.member_id, "two leaders in one generation"

    def on_synced(self, client: Client, reply: SyncReply) -> None:
        if reply.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""
        elif reply.error is OK and client.instance is None:
            given = self.assigned[client.generation]
            assert reply.assignment == given.get(client.member_id, b"")

    # What must always hold

    def group_generation(self) -> int:
        group = self.world.coordinator._table.classic(GROUP)
        return 0 if group is None else group.generation

    def is_member(self, client: Client) -> bool:
        group = self.world.coordinator._table.classic(GROUP)
        return group is not None and client.member_id in group.members

    def loaded(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(
            self.world.clock,
            self.world.journal,
            config=self.world.config,
            new_suffix=str,
            cluster=self.world.cluster,
        )
        for partition in range(PARTITIONS):
            coordinator.runtime.begin_loading(partition)
            for record in self.world.journal.logs[partition]:
                coordinator.runtime.load(partition, record)
            coordinator.runtime.finish_loading(partition)
        return coordinator

    def offset_in_log(self) -> int | None:
        offsets = self.loaded().reading.fetch_offsets(GROUP, None).offsets
        return next((f.committed.offset for f in offsets.values() if f.committed), None)

    @invariant()
    def nobody_is_answered_twice(self) -> None:
        for answers in getattr(self, "everything", ()):
            assert len(answers) <= 1

    @invariant()
    def generations_only_grow(self) -> None:
        if not hasattr(self, "world"):
            return
        group = self.world.coordinator._table.classic(GROUP)
        if group is None:
            self.highest_generation = 0
            self.leaders.clear()
            self.assigned.clear()
            return
        assert group.generation >= self.highest_generation
        self.highest_generation = group.generation

    @invariant()
    def the_group_is_consistent(self) -> None:
        group = self.world.coordinator._table.classic(GROUP) if hasattr(self, "world") else None
        if group is None:
            return
        members = group.members
        assert set(group.joined) == {m.member_id for m in members.values() if m.awaits_join}
        assert {*group.static_members.values()} <= {*members}
        assert not {*group.pending} & {*members}
        assert {*group.awaiting_sync} <= {*members}
        assert (group.leader_id in members) if members else True
        offered: dict[str, int] = {}
        for member in members.values():
            for name in {p.name for p in member.protocols}:
                offered[name] = offered.get(name, 0) + 1
        assert group.offered == offered
        offsets = group.offsets
        recounted = sum(POSITION_BYTES + o.metadata.__sizeof__() for o in offsets.values.values())
        assert offsets.size_bytes == recounted
        assert bool(offsets.in_flight_bytes) <= bool(offsets.in_flight_count)
        assert self.world.coordinator.pinned_bytes == (
            group.size_bytes + offsets.size_bytes + offsets.in_flight_bytes
        )
        assert group.size_bytes == (
            GROUP_OVERHEAD_BYTES
            + len(GROUP)
            + PENDING_BYTES * len(group.pending)
            + sum(member.size_bytes for member in members.values())
        )
        if group.state.value in ("Empty", "Stable"):
            assert not group.joined
            assert not any(m.awaits_sync for m in members.values())

    @invariant()
    def an_acknowledged_commit_is_shown_until_a_later_one(self) -> None:
        if hasattr(self, "world"):
            assert self.world.committed() == self.acknowledged

    @invariant()
    def replay_equals_what_was_confirmed(self) -> None:
        if not hasattr(self, "world") or self.world.journal.waiting or self.world.turns:
            return
        again, live = self.loaded(), self.world.coordinator
        assert again.reading.fetch_offsets(GROUP, None) == live.reading.fetch_offsets(GROUP, None)
        now, then = live._table.classic(GROUP), again._table.classic(GROUP)
        if now is None or now.state.value not in ("Empty", "Stable"):
            return
        if then is None:
            assert not now.members
            return
        assert (then.state, then.generation) == (now.state, now.generation)
        assert (then.leader_id, then.protocol_name) == (now.leader_id, now.protocol_name)
        assert then.static_members == now.static_members
        assert {m.member_id: m.assignment for m in then.members.values()} == {
            m.member_id: m.assignment for m in now.members.values()
        }

    def teardown(self) -> None:
        """With the journal confirming and enough time, nobody is left waiting."""
        if not hasattr(self, "world"):
            return
        self.world.journal.confirm()
        self.world.journal.is_prompt = True
        for _ in range(10):
            self.world.pass_ms(REBALANCE_MS)
            self.world.all_turns()
        assert all(len(answers) == 1 for answers in self.everything)


class SlicedGroupMachine(GroupMachine):
    """The same where every member, answer and position has a turn of the loop for itself."""

    def new_world(self, delay_ms: int) -> World:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(portions, "PORTION", 1)
        return World(
            has_turns=True, initial_rebalance_delay_ms=delay_ms, expiry_check_interval_ms=10**9
        )

    @rule(count=st.sampled_from([1, 2, 10]))
    def turn(self, count: int) -> None:
        for _ in range(count):
            self.world.turn()
        self.hear()

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "patch"):
            self.patch.undo()


GroupMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestGroupMachine = GroupMachine.TestCase
SlicedGroupMachine.TestCase.settings = GroupMachine.TestCase.settings
TestSlicedGroupMachine = SlicedGroupMachine.TestCase
