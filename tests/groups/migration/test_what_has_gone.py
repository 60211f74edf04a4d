"""Conversions both ways while topics, partitions and the group's own partition go.

A partition that does not exist is had by nobody and told to nobody, whether its topic was deleted
or made again with fewer. Positions of a deleted topic go with it, whatever the kind of the group by
then. A group whose internal partition has moved away is converted by whoever has it now: what was
under way here shows nothing and starts nothing.
"""

from collections.abc import Callable

import pytest

from penstock.coordinator.records import JournalRecord
from penstock.coordinator.unwritten import Unwritten
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.migration.claims import existing
from penstock.protocol.error_codes import ErrorCode
from tests.groups.consumer.club import Club, Consumer
from tests.groups.migration.crew import GROUP, Worker, crew, given, kind, named, said, settle
from tests.groups.world import SESSION_MS, only

FEWER = {("t", 0), ("t", 1)}
ALL = {("t", number) for number in range(6)}


def classic_with(club: Club, *topics: str, has: set[tuple[str, int]]) -> str:
    """A classic group of one member, which its leader has given these partitions."""
    (member,) = club.joined(1, protocols=(("range", said(*topics)),))
    club.sync(member.member_id, member.generation, {member.member_id: given(has)})
    return member.member_id


def fewer(club: Club) -> None:
    """The topic is deleted, and made again with two partitions."""
    club.cluster.delete("t")
    club.cluster.create("t", 2)


# Up


def test_partitions_that_a_topic_has_no_more_are_had_by_nobody_after_an_upgrade() -> None:
    club = Club()
    club.cluster.create("t", 6)
    member_id = classic_with(club, "t", has=ALL)
    fewer(club)
    club.journal.is_prompt = False
    club.enter("c", "t")
    club.journal.confirm(1)
    group = club.group()
    assert club.names(group.currents[member_id].assigned) == FEWER
    assert club.names(group.targets[member_id].partitions) == FEWER
    assert set(group.owners) == {club.cluster.topics["t"].topic_id}
    assert sorted(group.owners[club.cluster.topics["t"].topic_id]) == [0, 1]


def test_all_that_is_left_of_a_topic_is_read_after_an_upgrade() -> None:
    club, workers = crew(2)
    fewer(club)
    settle(*workers, Consumer(club, "c", "t"))
    assert set().union(*(one.reads for one in workers)) <= FEWER


def test_partitions_that_a_member_says_it_reads_and_that_have_gone_are_not_claimed() -> None:
    club = Club()
    club.cluster.create("t", 2)
    metadata = said("t", "gone", owned={("t", 1), ("t", 5), ("gone", 0)}, generation=3)
    club.joined(1, protocols=(("cooperative-sticky", metadata),))
    club.journal.is_prompt = False
    club.enter("c", "t")
    club.journal.confirm(1)
    (member_id,) = club.members()
    assert club.names(club.group().currents[member_id].assigned) == {("t", 1)}


def test_a_claim_of_what_has_gone_is_no_topic_without_partitions() -> None:
    club = Club()
    club.cluster.create("t", 1)
    member_id = classic_with(club, "t", has={("t", 3)})
    club.journal.is_prompt = False
    club.enter("c", "t")
    club.journal.confirm(1)
    assert club.group().currents[member_id].assigned == {}


def test_positions_of_a_topic_that_is_deleted_during_an_upgrade_go_and_others_stay() -> None:
    club, (worker,) = crew(1)
    only(club.commit({("t", 0): 7, ("gone", 0): 9}, worker.member_id, worker.generation))
    club.journal.is_prompt = False
    club.enter("c", "t")
    club.coordinator.on_topics_deleted({"gone": bytes(16)})
    club.journal.confirm()
    club.journal.is_prompt = True
    assert kind(club) == "consumer"
    assert club.all_committed() == {("t", 0): 7}
    club.restart()
    assert club.all_committed() == {("t", 0): 7}


# Down


def mixed(*topics: str) -> tuple[Club, Consumer, Worker]:
    club = Club()
    for topic in topics:
        club.cluster.create(topic, 6)
    consumer, worker = Consumer(club, "c", *topics), Worker(club, "w", *topics)
    settle(consumer, worker)
    return club, consumer, worker


def written(club: Club, worker: Worker) -> set[tuple[str, int]]:
    """What a member has in the record of its classic group."""
    return named(club.classic().members[worker.member_id].assignment)


def test_partitions_that_a_topic_has_no_more_are_not_written_by_a_downgrade() -> None:
    club, consumer, worker = mixed("t")
    before = worker.reads
    assert before - FEWER
    fewer(club)
    consumer.leave()
    assert kind(club) == "classic"
    assert written(club, worker) == before & FEWER
    club.restart()
    assert written(club, worker) == before & FEWER
    worker.is_in = False
    settle(worker)
    assert worker.reads == FEWER


def test_partitions_of_a_deleted_topic_are_not_written_by_a_downgrade() -> None:
    club, consumer, worker = mixed("s", "t", "u")
    before = worker.reads
    assert {topic for topic, _ in before} == {"t", "u"}
    club.cluster.delete("u")
    consumer.leave()
    assert written(club, worker) == {place for place in before if place[0] == "t"}


def test_a_topic_that_was_made_again_is_not_the_one_that_a_member_had() -> None:
    club, consumer, worker = mixed("s", "t", "u")
    club.cluster.delete("u")
    club.cluster.create("u", 6)
    club.cluster.topics["u"] = club.cluster.topics["u"]._replace(topic_id=b"another u".rjust(16))
    consumer.leave()
    assert {topic for topic, _ in written(club, worker)} == {"t"}


def test_a_classic_member_is_not_told_of_partitions_that_have_gone() -> None:
    club, _, worker = mixed("t")
    before = worker.reads
    fewer(club)
    told = only(club.sync(worker.member_id, worker.generation))
    assert named(told.assignment) == before & FEWER


def test_positions_of_a_topic_that_is_deleted_during_a_downgrade_go_and_others_stay() -> None:
    club, consumer, worker = mixed("t")
    only(club.commit({("t", 0): 7, ("gone", 0): 9}, worker.member_id, worker.generation))
    club.journal.is_prompt = False
    consumer.leave()
    club.coordinator.on_topics_deleted({"gone": bytes(16)})
    club.journal.confirm()
    club.journal.is_prompt = True
    assert kind(club) == "classic"
    assert club.all_committed() == {("t", 0): 7}
    club.restart()
    assert club.all_committed() == {("t", 0): 7}


def test_which_partitions_exist() -> None:
    assert existing(frozenset({0, 1}), 2) == {0, 1}
    assert existing(frozenset({1, 2, -1}), 2) == {1}
    assert existing(frozenset(), 2) == frozenset()


# The group's own partition


Begun = tuple[Club, list[JournalRecord]]
"""A conversion is being written; the log as it was before."""


def begin(club: Club, act: Callable[[], object]) -> Begun:
    before = [*club.journal.logs[club.coordinator.partition_of(GROUP)]]
    club.journal.is_prompt = False
    act()
    assert club.journal.waiting
    return club, before


def upgrading() -> Begun:
    club, _ = crew(1)
    club.join(instance="i", protocols=(("range", said("t")),))
    assert club.state() == "PreparingRebalance"
    return begin(club, lambda: club.enter("c", "t"))


def downgrading() -> Begun:
    club, consumer, _ = mixed("t")
    return begin(club, consumer.leave)


BOTH = pytest.mark.parametrize("begun", [upgrading, downgrading])


def move_away(club: Club) -> int:
    partition = club.coordinator.partition_of(GROUP)
    club.coordinator.runtime.unload(partition)
    return partition


@BOTH
def test_a_conversion_that_is_confirmed_after_its_partition_has_gone_shows_no_group(
    begun: Callable[[], Begun],
) -> None:
    club, _ = begun()
    move_away(club)
    club.journal.confirm()
    assert club.coordinator.group_count == 0
    assert club.coordinator.pinned_bytes == 0


@BOTH
def test_a_conversion_that_is_confirmed_after_its_partition_has_come_back_shows_what_was_loaded(
    begun: Callable[[], Begun],
) -> None:
    club, _ = begun()
    partition = move_away(club)
    club.load(partition)
    (loaded,) = club.coordinator._table.groups.values()
    club.journal.confirm()
    assert [*club.coordinator._table.groups.values()] == [loaded]


@BOTH
def test_a_conversion_that_is_refused_after_its_partition_has_come_back_starts_nothing(
    begun: Callable[[], Begun],
) -> None:
    club, log = begun()
    partition = club.coordinator.partition_of(GROUP)
    club.journal.logs[partition] = log
    move_away(club)
    club.load(partition)
    before = [*club.coordinator._table.groups.values()]
    deadlines = deadlines_of(club)
    club.journal.fail(Unwritten.OVERTAKEN)
    assert [*club.coordinator._table.groups.values()] == before
    assert deadlines_of(club) == deadlines
    assert not club.journal.waiting


def deadlines_of(club: Club) -> dict[DeadlineKey, int]:
    """Those that change a group; at one for vacant groups it is looked whether the group is one."""
    due = club.coordinator._context.deadlines._due
    return {key: at for key, at in due.items() if key.kind is not DeadlineKind.VACANT}


@BOTH
def test_the_group_that_was_to_come_is_not_rewritten_after_its_partition_has_gone(
    begun: Callable[[], Begun],
) -> None:
    club, log = begun()
    partition = move_away(club)
    club.journal.logs[partition] = log
    club.load(partition)
    live = [record for some in club.coordinator.runtime.snapshot(partition) for record in some]
    assert {record[0] for record in live} <= {record[0] for record in log}


def test_a_group_that_moves_away_while_its_conversion_is_drafted_is_not_written() -> None:
    club, workers = crew(3, club=Club(has_turns=True))
    club.coordinator._context.portions._left = 10  # this turn reads what members say, and no more
    log = club.journal.logs[club.coordinator.partition_of(GROUP)]
    before = len(log)
    entering = club.enter("c", "t")
    (frozen,) = club.coordinator._table.groups.values()
    assert frozen.is_dead
    move_away(club)
    club.all_turns()
    assert only(entering).error in {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
    assert len(log) == before
    assert club.beat(workers[0].member_id, workers[0].generation) is ErrorCode.NOT_COORDINATOR
    club.pass_ms(SESSION_MS)
    assert len(log) == before
