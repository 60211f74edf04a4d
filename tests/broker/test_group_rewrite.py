"""Rewrites append in slices, one partition after the other, and end with their mastership."""

from collections.abc import Iterator

from harness.log_world import SMALL
from penstock.broker.coordinators.rewrite import Rewriter
from penstock.broker.partitions import HostedPartition
from penstock.coordinator.records import JournalRecord
from penstock.groups.partitioning import INTERNAL_TOPIC
from tests.broker.cluster import Cluster
from tests.broker.test_group_ownership import GROUP, commit, committed, started

BATCH: list[JournalRecord] = [(b"key", bytes(3_000))]
SLICE = SMALL.segment_bytes // 4
MANY = 12
"""Batches: more than two slices, less than a segment."""


def hosted_ones(cluster: Cluster) -> list[HostedPartition]:
    return [each for each in cluster.nodes[0].journal.partitions if each is not None]


class Taken:
    """Live records that note how many were taken."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.taken = 0

    def __iter__(self) -> Iterator[list[JournalRecord]]:
        for _ in range(self.count):
            self.taken += 1
            yield BATCH


def test_a_turn_of_the_loop_appends_one_slice() -> None:
    cluster = started()
    hosted, _ = hosted_ones(cluster)
    done: list[int | None] = []
    live = Taken(MANY)
    begin = hosted.log.log_end_offset
    assert cluster.nodes[0].journal.rewrite(hosted, live, done.append)
    assert live.taken == SLICE // 3_015 + 1 < MANY
    cluster.replicate()
    assert live.taken == MANY
    assert done == [MANY * 3_015]
    assert hosted.log.log_start_offset == begin, "the first slice is kept as well"


def test_one_partition_appends_at_a_time_and_cuts_where_its_own_records_begin() -> None:
    cluster = started()
    first, second = hosted_ones(cluster)
    journal = cluster.nodes[0].journal
    done: list[int | None] = []
    lives = [Taken(MANY), Taken(2)]
    journal.rewrite(first, lives[0], done.append)
    journal.rewrite(second, lives[1], done.append)
    assert lives[1].taken == 0
    # What is written while the second one waits for its turn is replaced by it, too.
    journal._append(second, BATCH, lambda _: None)
    behind = second.log.log_end_offset
    cluster.replicate()
    assert done == [MANY * 3_015, 2 * 3_015]
    assert second.log.log_start_offset == behind
    assert second.log.log_end_offset == behind + 2


def test_a_rewrite_ends_with_its_mastership_also_where_the_same_broker_leads_on() -> None:
    cluster = started()
    hosted, _ = hosted_ones(cluster)
    commit(cluster.nodes[0], 5)
    cluster.replicate()
    start = hosted.log.log_start_offset
    done: list[int | None] = []
    live = Taken(MANY)
    cluster.nodes[0].journal.rewrite(hosted, live, done.append)
    taken = live.taken
    assert taken < MANY
    cluster.lead(0)
    cluster.replicate()
    assert done == [None]
    assert live.taken == taken
    assert hosted.log.log_start_offset == start
    assert committed(cluster.nodes[0]) == 5
    assert cluster.nodes[0].journal.rewrite(hosted, [BATCH], done.append)
    cluster.replicate()
    assert done == [None, 3_015]


def test_what_is_asked_for_while_another_ends_is_done_as_well() -> None:
    cluster = started()
    first, second = hosted_ones(cluster)
    done: list[int | None] = []
    rewriter = Rewriter(cluster.world, cluster.nodes[0].journal._append)

    def then(live_bytes: int | None) -> None:
        done.append(live_bytes)
        rewriter.begin(second, iter([BATCH]), done.append)

    rewriter.begin(first, iter([]), then)
    cluster.replicate()
    assert done == [0, 3_015]


def test_a_rewrite_whose_mastership_ends_while_it_waits_cuts_nothing() -> None:
    # Its live records are those of groups that are given up: behind the cut there would be none.
    cluster = started()
    first, second = hosted_ones(cluster)
    journal = cluster.nodes[0].journal
    start = second.log.log_start_offset
    done: list[int | None] = []
    live = Taken(1)
    journal.rewrite(first, Taken(MANY), lambda _: None)
    journal.rewrite(second, live, done.append)
    journal._append(second, BATCH, lambda _: None)
    assert live.taken == 0, "it waits for its turn"
    cluster.lead(0)
    cluster.replicate()
    assert done == [None]
    assert live.taken == 0
    assert second.log.log_start_offset == start


def test_another_rewrite_of_a_partition_may_begin_when_the_end_of_one_is_told() -> None:
    cluster = started()
    first, _ = hosted_ones(cluster)
    done: list[int | None] = []
    begun: list[bool] = []
    rewriter = Rewriter(cluster.world, cluster.nodes[0].journal._append)

    def then(live_bytes: int | None) -> None:
        done.append(live_bytes)
        begun.append(rewriter.begin(first, iter([BATCH]), done.append))

    rewriter.begin(first, iter([BATCH, BATCH]), then)
    cluster.replicate()
    cluster.replicate()
    assert (begun, done) == ([True], [6_030, 3_015])


def test_a_rewrite_that_is_confirmed_late_cuts_all_the_same() -> None:
    cluster = started()
    hosted, _ = hosted_ones(cluster)
    begin = hosted.log.log_end_offset
    done: list[int | None] = []
    cluster.nodes[0].journal.rewrite(hosted, [BATCH, BATCH], done.append)
    cluster.world.advance(31_000)
    cluster.nodes[0].broker.expire_waiting()
    assert done == []
    cluster.replicate()
    assert (done, hosted.log.log_start_offset) == ([6_030], begin)


def test_nothing_is_cut_while_the_mastership_is_being_handed_over() -> None:
    # The cut is a frame of the log: the new master would not have what the old one says it holds.
    cluster = started()
    hosted, _ = hosted_ones(cluster)
    journal, member = cluster.nodes[0].journal, cluster.nodes[0].member
    start = hosted.log.log_start_offset
    done: list[int | None] = []
    journal.rewrite(hosted, [BATCH], done.append)
    cluster.world.run()
    pause, end = member.pause_writes(), member.log.end_position
    cluster.replicate()
    assert done == [None]
    assert (hosted.log.log_start_offset, member.log.end_position) == (start, end)
    member.resume_writes(pause)
    journal.rewrite(hosted, [BATCH], done.append)
    cluster.replicate()
    assert done == [None, 3_015]


def take_up_again(cluster: Cluster) -> None:
    """Broker 0 gives its role up and takes it again, in the epoch that it has."""
    member = cluster.nodes[0].member
    epoch, membership = member.leader_epoch, member.confirm.membership
    member.resign()
    member.become_master(epoch, membership)


def groups_and_other(cluster: Cluster) -> tuple[HostedPartition, HostedPartition]:
    """The internal partition of GROUP, and another one."""
    number = cluster.nodes[0].broker.groups.partition_of(GROUP)
    ones = hosted_ones(cluster)
    return ones[number], ones[1 - number]


def test_a_rewrite_that_waits_while_its_mastership_is_taken_up_again_cuts_nothing() -> None:
    # Its groups are loaded anew: the rewrite would find none of them, and cut off all.
    cluster = started()
    commit(cluster.nodes[0], 5)
    cluster.replicate()
    of_group, other = groups_and_other(cluster)
    coordinator = cluster.nodes[0].broker.coordinators[INTERNAL_TOPIC]
    done: list[bool] = []
    cluster.nodes[0].journal.rewrite(other, Taken(MANY), lambda _: None)
    assert coordinator.rewrite(of_group, done.append), "it waits for its turn"
    take_up_again(cluster)
    cluster.replicate()
    assert done == [False]
    assert of_group.log.log_start_offset == 0
    assert committed(cluster.nodes[0]) == 5
    cluster.lead(1)
    cluster.replicate()
    assert committed(cluster.nodes[1]) == 5


def test_a_rewrite_that_ended_with_its_tenure_does_not_keep_the_next_one_waiting() -> None:
    cluster = started()
    of_group, other = groups_and_other(cluster)
    coordinator = cluster.nodes[0].broker.coordinators[INTERNAL_TOPIC]
    done: list[bool] = []
    cluster.nodes[0].journal.rewrite(other, Taken(MANY), lambda _: None)
    assert coordinator.rewrite(of_group, done.append)
    take_up_again(cluster)
    cluster.replicate()
    assert done == [False]
    rewrites = coordinator.runtime.base.rewrites
    rewrites.appended(of_group.partition, 1 << 30)
    assert rewrites.due() == (of_group.partition,)
