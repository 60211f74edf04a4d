"""Any sequence of heartbeats, time, confirmations and failovers keeps what a group promises.

After every step: no partition is read by two members, no confirmed state gives it to two, epochs
only grow, each heartbeat is answered at most once, and what a restart would load equals what was
confirmed. At the end, when all members beat and the journal confirms, every partition of the
subscribed topics is read by exactly one member, and nobody has two more than another.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.coordinator.unwritten import Unwritten
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.owners import held
from penstock.groups.coordinator import GroupCoordinator
from tests.groups.consumer.club import SESSION_MS, TIMEOUT_MS, Club, Consumer, settle
from tests.groups.world import GROUP, PARTITIONS

MEMBERS = 4
members = st.integers(0, MEMBERS - 1)
COMPARED_MS = 10_001
"""How long a change of topics may go unnoticed while a member has a regular expression."""


class ConsumerGroupMachine(RuleBasedStateMachine):
    @initialize(has_turns=st.booleans(), assignor=st.sampled_from(["uniform", "range", None]))
    def start(self, has_turns: bool, assignor: str | None) -> None:
        self.club = Club(has_turns=has_turns, expiry_check_interval_ms=10**9)
        self.club.all_turns()
        self.club.cluster.create("t", 3)
        self.club.cluster.create("u", 2)
        self.consumers = [
            Consumer(
                self.club,
                f"m{n}",
                *(("t", "u"), ("t",), ("u",), ())[n],
                regex="t|u" if n == 3 else None,
                assignor=assignor,
                instance_id=f"i{n}" if n == 1 else None,
            )
            for n in range(MEMBERS)
        ]
        self.names = MEMBERS
        self.epoch = 0
        self.everything: list[list[Any]] = []

    @rule(who=members)
    def beat(self, who: int) -> None:
        consumer = self.consumers[who].beat()
        if consumer.waits is not None:
            self.everything.append(consumer.waits)
        self.hear()

    @rule(who=members)
    def leave(self, who: int) -> None:
        if self.consumers[who].epoch > 0:
            self.everything.append(self.consumers[who].leave())
            self.hear()

    @rule()
    def a_static_member_restarts(self) -> None:
        consumer = self.consumers[1]
        if consumer.epoch > 0:
            consumer.leave(-2)
        self.names += 1
        consumer.member_id, consumer.epoch, consumer.owned = f"m{self.names}", 0, {}
        consumer.waits = None
        self.beat(1)

    @rule(who=members)
    def the_answer_is_lost(self, who: int) -> None:
        """The connection breaks: the client asks again with what it knew."""
        self.consumers[who].waits = None

    @rule(ms=st.sampled_from([1_000, TIMEOUT_MS // 2, SESSION_MS + 1]))
    def time_passes(self, ms: int) -> None:
        """Whoever was silent for its session stops to read: its client knows the time, too."""
        self.club.pass_ms(ms)
        for consumer in self.consumers:
            if self.club.clock.now_ms - consumer.alive_ms >= SESSION_MS:
                consumer.epoch, consumer.owned, consumer.waits = 0, {}, None
        self.hear()

    @rule(count=st.integers(3, 7))
    def a_topic_grows(self, count: int) -> None:
        known = self.club.cluster.find("t")
        if known is not None and known.partition_count < count:
            self.club.cluster.create("t", count)

    @rule()
    def the_journal_waits(self) -> None:
        self.club.journal.is_prompt = False

    @rule()
    def the_journal_confirms(self) -> None:
        self.club.journal.is_prompt = True
        self.club.journal.confirm()
        self.hear()

    @rule(unwritten=st.sampled_from([None, Unwritten.TOO_LARGE, Unwritten.FAILED]))
    def the_journal_refuses(self, unwritten: Unwritten | None) -> None:
        self.club.journal.refuses = unwritten

    @rule()
    def the_journal_is_late(self) -> None:
        """What takes long is told so, and may be confirmed in the end."""
        self.club.journal.late()
        self.hear()

    @rule()
    def turns_pass(self) -> None:
        self.club.all_turns()
        self.hear()

    @rule()
    def the_coordinator_fails(self) -> None:
        """What was not confirmed may be in the log or not: here it is all in it."""
        self.club.restart()
        for consumer in self.consumers:
            consumer.waits = None
        self.hear()

    def hear(self) -> None:
        for consumer in self.consumers:
            consumer.hear()

    def confirmed(self) -> ConsumerGroup | None:
        found = self.club.coordinator._table.groups.get(GROUP)
        return found if isinstance(found, ConsumerGroup) else None

    @invariant()
    def nobody_reads_what_another_reads(self) -> None:
        if not hasattr(self, "club"):
            return
        read = [each for one in self.consumers for each in one.reads]
        assert len(read) == len(set(read)), [(one.member_id, one.reads) for one in self.consumers]

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.confirmed() if hasattr(self, "club") else None
        if group is None:
            self.epoch = 0  # nobody came back for a while; a group of this name begins anew
            return
        had = [
            (topic_id, number, member_id)
            for member_id, current in group.currents.items()
            for topic_id, numbers in held(current)
            for number in numbers
        ]
        assert len(had) == len({each[:2] for each in had})
        assert set(had) == {
            (topic_id, number, member_id)
            for topic_id, owned in group.owners.items()
            for number, member_id in owned.items()
        }
        assert all(group.owners.values())
        assert group.epoch >= self.epoch
        self.epoch = group.epoch

    @invariant()
    def every_heartbeat_is_answered_once(self) -> None:
        if hasattr(self, "everything"):
            assert all(len(answers) <= 1 for answers in self.everything)

    @invariant()
    def replay_equals_what_was_confirmed(self) -> None:
        if not hasattr(self, "club") or self.club.journal.waiting or self.club.turns:
            return
        now = self.confirmed()
        if now is None:
            return
        again = self.loaded()._table.groups.get(GROUP)
        assert isinstance(again, ConsumerGroup) or not now.metadata.values
        if isinstance(again, ConsumerGroup):
            assert (again.facts, again.targets, again.currents, again.resolved) == (
                now.facts,
                now.targets,
                now.currents,
                now.resolved,
            )
            assert (again.said, again.target_said, again.owners) == (
                now.said,
                now.target_said,
                now.owners,
            )
            assert (again.static_members, again.state) == (now.static_members, now.state)
            assert again.size_bytes == now.size_bytes

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
        if not hasattr(self, "club"):
            return
        self.club.has_turns = False
        self.club.journal.refuses, self.club.journal.is_prompt = None, True
        self.club.journal.confirm()
        self.club.all_turns()
        self.club.restart()
        # An instance that came back without leaving is let in when its former session has ended.
        self.time_passes(SESSION_MS + 1)
        settle(*self.consumers)
        self.club.pass_ms(COMPARED_MS)
        settle(*self.consumers)
        topic = self.club.cluster.find("t")
        assert topic is not None
        wanted = {("t", n) for n in range(topic.partition_count)} | {("u", 0), ("u", 1)}
        assert {each for one in self.consumers for each in one.reads} == wanted
        assert self.club.described().state == "Stable"


TestConsumerGroupMachine = ConsumerGroupMachine.TestCase
TestConsumerGroupMachine.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None
)
