"""Deadlines that a group of one kind has left are none of the group that takes its place."""

from penstock.coordinator.unwritten import Unwritten
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from tests.groups.consumer.club import Club, Consumer
from tests.groups.migration.crew import ALL, GROUP, OK, Worker, kind, settle
from tests.groups.world import REBALANCE_MS, SESSION_MS, only

PORTION = 200


def mixed_with_turns(*, is_eager: bool) -> tuple[Club, Worker, list[Consumer]]:
    """A group whose classic member was told of a rebalance by a second member of KIP-848."""
    club = Club(has_turns=True)
    club.all_turns()
    club.cluster.create("t", 6)
    consumer, worker = Consumer(club, "c", "t"), Worker(club, "w", "t", is_eager=is_eager)
    settle(consumer, worker)
    other = Consumer(club, "d", "t").beat()
    club.all_turns()
    club.beat(worker.member_id, worker.generation)
    worker.is_in = False
    return club, worker, [consumer, other]


def becomes_classic_in_a_full_turn(club: Club, consumers: list[Consumer]) -> None:
    """Others have used the turn up, in which the deadlines of members would be cancelled."""
    *others, last = consumers
    for one in others:
        one.leave()
        club.all_turns()
    club.journal.is_prompt = False
    last.leave()
    club.all_turns()
    portions = club.coordinator._context.portions
    portions.begin(iter([PORTION]))
    club.journal.confirm()
    club.journal.is_prompt = True
    portions.begin(iter([PORTION]))
    club.turn()
    assert kind(club) == "classic"


def test_a_revocation_that_is_due_as_the_group_becomes_classic_is_nobodys() -> None:
    club, worker, consumers = mixed_with_turns(is_eager=False)
    worker.join()
    club.all_turns()
    deadlines = club.coordinator._context.deadlines
    key = DeadlineKey(DeadlineKind.REVOCATION, GROUP, worker.member_id)
    due_ms = deadlines.at(key)
    assert due_ms is not None
    becomes_classic_in_a_full_turn(club, consumers)
    assert deadlines.at(key) == due_ms
    club.clock.now_ms = due_ms
    club.coordinator.runtime.tick(due_ms)
    club.all_turns()
    assert deadlines.at(key) is None
    worker.is_in = False
    settle(worker)


def test_a_join_that_is_due_as_the_group_becomes_classic_ends_no_rebalance() -> None:
    club, worker, consumers = mixed_with_turns(is_eager=True)
    deadlines = club.coordinator._context.deadlines
    due_ms = deadlines.at(DeadlineKey(DeadlineKind.JOIN, GROUP, worker.member_id))
    assert due_ms is not None
    while due_ms - club.clock.now_ms > SESSION_MS // 2:
        club.pass_ms(SESSION_MS // 2)
        club.beat(worker.member_id, worker.generation)
        for one in consumers:
            one.beat()
        club.all_turns()
    becomes_classic_in_a_full_turn(club, consumers)
    club.clock.now_ms = due_ms
    club.coordinator.runtime.tick(due_ms)
    assert club.state() == "PreparingRebalance"
    club.all_turns()
    assert worker.member_id in club.classic().members
    settle(worker)
    assert worker.reads == ALL


def test_a_static_member_that_came_back_leaves_no_revocation_to_the_classic_group() -> None:
    """It was to give partitions up under the id that it had before it was restarted."""
    club = Club()
    club.cluster.create("t", 6)
    consumer = Consumer(club, "c", "t")
    worker = Worker(club, "w", "t", is_eager=False, instance="i")
    settle(consumer, worker)
    other = Consumer(club, "d", "t").beat()
    club.beat(worker.member_id, worker.generation, instance="i")
    worker.is_in = False
    worker.join()
    assert club.group().currents[worker.member_id].revoking
    back = Worker(club, "w", "t", is_eager=False, instance="i")
    settle(consumer, other, back)
    deadlines = club.coordinator._context.deadlines
    assert deadlines.at(DeadlineKey(DeadlineKind.REVOCATION, GROUP, worker.member_id)) is None
    assert deadlines.at(DeadlineKey(DeadlineKind.SESSION, GROUP, worker.member_id)) is None
    consumer.leave()
    other.leave()
    assert kind(club) == "classic"
    for _ in range(2 * REBALANCE_MS // (SESSION_MS // 2)):
        back.step()
        club.pass_ms(SESSION_MS // 2)
    settle(back)
    assert back.reads == ALL


def test_a_static_member_whose_return_is_not_written_is_removed_after_its_session() -> None:
    club = Club()
    club.cluster.create("t", 6)
    consumer = Consumer(club, "c", "t")
    worker = Worker(club, "w", "t", instance="i")
    settle(consumer, worker)
    club.journal.refuses = Unwritten.FAILED
    Worker(club, "w", "t", instance="i").join()
    club.journal.refuses = None
    assert worker.member_id in club.members()
    for _ in range(4):
        club.pass_ms(SESSION_MS // 2)
        consumer.beat()
    assert worker.member_id not in club.members()


def test_an_id_that_was_handed_out_by_a_classic_group_is_not_overdue_in_a_consumer_group() -> None:
    club = Club()
    club.cluster.create("t", 6)
    worker = Worker(club, "w", "t", is_eager=False).step()
    worker.step()
    assert worker.member_id
    began_ms = club.clock.now_ms
    consumer = Consumer(club, "c", "t").beat()
    assert kind(club) == "consumer"
    settle(worker, consumer)
    club.pass_ms(SESSION_MS // 2)
    consumer.beat()
    assert club.beat(worker.member_id, worker.generation) is OK
    other = Consumer(club, "d", "t").beat()
    worker.is_in = False
    worker.join()
    assert only(worker.joining or []).error is OK
    assert club.group().currents[worker.member_id].revoking
    consumer.beat()
    club.pass_ms(began_ms + SESSION_MS - club.clock.now_ms)
    assert worker.member_id in club.members()
    settle(worker, consumer, other)
    assert club.coordinator.counters.members_expired == 0
    assert REBALANCE_MS > SESSION_MS // 2
