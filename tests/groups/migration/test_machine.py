"""Members of both protocols, time, failovers, late and lost writes, in any order.

After every step: no partition is read by two members, no confirmed state gives it to two, and what
a restart would load is what was confirmed. In the end every partition has exactly one reader,
whichever kind of group it is then.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.coordinator.unwritten import Unwritten
from penstock.groups.classic.group import Group
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.owners import held
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.group import BaseGroup
from penstock.groups.records import encode_group_key
from tests.groups.consumer.club import SESSION_MS as NEW_SESSION_MS
from tests.groups.consumer.club import Club, Consumer
from tests.groups.migration.crew import Worker, settle
from tests.groups.world import GROUP, PARTITIONS, SESSION_MS

MEMBERS = 4
members = st.integers(0, MEMBERS - 1)
Member = Worker | Consumer


class MixedGroupMachine(RuleBasedStateMachine):
    @initialize(has_turns=st.booleans(), is_eager=st.booleans())
    def start(self, has_turns: bool, is_eager: bool) -> None:
        self.club = Club(has_turns=has_turns, expiry_check_interval_ms=10**9)
        self.club.all_turns()
        self.club.cluster.create("t", 3)
        self.club.cluster.create("u", 2)
        self.is_eager = is_eager
        self.names = 0
        self.people: list[Member] = [self.new(number, number % 2) for number in range(MEMBERS)]
        self.seen: dict[int, int] = {}
        self.forget_when()

    def new(self, number: int, is_classic: int) -> Member:
        self.names += 1
        instance = "i" if number == 1 else None
        if is_classic:
            name = f"w{self.names}"
            return Worker(self.club, name, "t", "u", is_eager=self.is_eager, instance=instance)
        return Consumer(self.club, f"c{self.names}", "t", "u", instance_id=instance)

    @rule(who=members)
    def acts(self, who: int) -> None:
        one = self.people[who]
        if isinstance(one, Worker):
            before = one.generation, one.joining, one.is_in
            one.step()
            if one.last_error is not None and (one.is_in or before[1] is not one.joining):
                self.alive[who] = self.club.clock.now_ms
        else:
            one.beat()

    @rule(who=members, is_classic=st.integers(0, 1))
    def restarts(self, who: int, is_classic: int) -> None:
        """A member leaves, and another one of its own or the other protocol comes."""
        one = self.people[who]
        if isinstance(one, Worker):
            if one.member_id:
                one.leave()
        elif one.epoch > 0:
            one.leave()
        self.people[who] = self.new(who, is_classic)
        self.alive[who] = self.club.clock.now_ms

    @rule(ms=st.sampled_from([500, 1_000, SESSION_MS // 2, SESSION_MS + 1]))
    def time_passes(self, ms: int) -> None:
        """Whoever was silent for its session stops to read: its client knows the time, too."""
        self.club.pass_ms(ms)
        now_ms = self.club.clock.now_ms
        for who, one in enumerate(self.people):
            if isinstance(one, Worker):
                if now_ms - self.alive[who] >= SESSION_MS:
                    self.forget(one)
            elif now_ms - one.alive_ms >= NEW_SESSION_MS:
                one.epoch, one.owned, one.waits = 0, {}, None

    @rule()
    def the_journal_waits(self) -> None:
        self.club.journal.is_prompt = False

    @rule()
    def the_journal_confirms(self) -> None:
        self.club.journal.is_prompt = True
        self.club.journal.confirm()

    @rule(unwritten=st.sampled_from([None, Unwritten.TOO_LARGE, Unwritten.FAILED]))
    def the_journal_refuses(self, unwritten: Unwritten | None) -> None:
        self.club.journal.refuses = unwritten

    @rule()
    def the_journal_is_late(self) -> None:
        self.club.journal.late()

    @rule(count=st.integers(3, 7))
    def a_topic_grows(self, count: int) -> None:
        known = self.club.cluster.find("t")
        if known is not None and known.partition_count < count:
            self.club.cluster.create("t", count)

    @rule()
    def turns_pass(self) -> None:
        self.club.all_turns()

    @rule()
    def the_coordinator_fails(self) -> None:
        """What was not confirmed may be in the log or not: here it is all in it."""
        self.club.restart()
        for one in self.people:
            if isinstance(one, Consumer):
                one.waits = None
            elif one.joining is not None or one.parked:
                one.joining, one.parked, one.is_in = None, [], False

    def forget_when(self) -> None:
        self.alive = dict.fromkeys(range(MEMBERS), self.club.clock.now_ms)

    @staticmethod
    def forget(one: Worker) -> None:
        one.reads, one.member_id, one.generation, one.is_in = set(), "", -1, False
        one.joining, one.parked = None, []

    @invariant()
    def nobody_reads_what_another_reads(self) -> None:
        if hasattr(self, "people"):
            read = [each for one in self.people for each in one.reads]
            assert len(read) == len(set(read)), [one.reads for one in self.people]

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.confirmed() if hasattr(self, "people") else None
        if isinstance(group, ConsumerGroup):
            had = [
                (topic_id, number)
                for current in group.currents.values()
                for topic_id, numbers in held(current)
                for number in numbers
            ]
            assert len(had) == len(set(had))

    def confirmed(self) -> BaseGroup | None:
        return self.club.coordinator._table.groups.get(GROUP)

    @invariant()
    def replay_equals_what_was_confirmed(self) -> None:
        if not hasattr(self, "people") or self.club.journal.waiting or self.club.turns:
            return
        now, again = self.confirmed(), self.loaded()._table.groups.get(GROUP)
        if isinstance(now, ConsumerGroup) and now.metadata.values:
            assert isinstance(again, ConsumerGroup)
            assert (again.facts, again.targets, again.currents, again.owners) == (
                now.facts,
                now.targets,
                now.currents,
                now.owners,
            )
            assert (again.said, again.target_said) == (now.said, now.target_said)
            assert again.tables.classic_count == now.tables.classic_count
            assert again.size_bytes == now.size_bytes
        elif isinstance(now, Group) and encode_group_key(GROUP) in now.metadata.values:
            assert isinstance(again, Group)
            assert again.metadata.values == now.metadata.values

    def loaded(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(
            self.club.clock,
            self.club.journal,
            config=self.club.config,
            new_suffix=str,
            cluster=self.club.cluster,
        )
        for partition in range(PARTITIONS):
            coordinator.runtime.begin_loading(partition)
            for record in self.club.journal.logs[partition]:
                coordinator.runtime.load(partition, record)
            coordinator.runtime.finish_loading(partition)
        return coordinator

    def teardown(self) -> None:
        if not hasattr(self, "people"):
            return
        self.club.has_turns = False
        self.club.journal.refuses, self.club.journal.is_prompt = None, True
        self.club.journal.confirm()
        self.club.all_turns()
        self.the_coordinator_fails()
        self.time_passes(NEW_SESSION_MS + 1)
        settle(*self.people, rounds=200)
        self.club.pass_ms(1_001)
        settle(*self.people, rounds=200)
        topic = self.club.cluster.find("t")
        assert topic is not None
        wanted = {("t", n) for n in range(topic.partition_count)} | {("u", 0), ("u", 1)}
        assert {each for one in self.people for each in one.reads} == wanted


TestMixedGroupMachine = MixedGroupMachine.TestCase
TestMixedGroupMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
