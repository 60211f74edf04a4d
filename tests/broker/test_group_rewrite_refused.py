"""Groups over a rewrite that is refused half-way, and over a mastership that is renewed."""

from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.coordinator.partitioning import partition_of
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.protocol.error_codes import ErrorCode
from tests.broker.test_group_ownership import GROUP, commit, commit_error, committed, started


def test_a_rewrite_of_which_a_part_is_refused_cuts_nothing_off_and_is_tried_again() -> None:
    cluster = started()
    node = cluster.nodes[0]
    asked = commit(node, 7)
    cluster.replicate()
    assert commit_error(asked) == 0
    journal = InternalTopicJournal(node.broker, INTERNAL_TOPIC)
    hosted = journal.partitions[partition_of(GROUP, len(journal.partitions))]
    assert hosted is not None
    start = hosted.log.log_start_offset
    done: list[int | None] = []

    def live():
        yield [(b"a", b"1")]
        # The set has shrunk below its minimum: nothing more is taken.
        hosted.member.in_sync_count = 0
        yield [(b"b", b"2")]

    journal.rewrite(hosted, live(), done.append)
    hosted.member.in_sync_count = 3
    cluster.replicate()
    assert hosted.log.last_end_position <= hosted.member.confirm_position
    assert done == [None]
    assert hosted.log.log_start_offset == start

    end = hosted.log.log_end_offset
    journal.rewrite(hosted, [[(b"a", b"1")], [], [(b"b", b"2")]], done.append)
    cluster.replicate()
    assert done == [None, 28]
    assert hosted.log.log_start_offset == end


def test_groups_are_loaded_anew_for_each_mastership_also_of_the_same_broker() -> None:
    cluster = started()
    node = cluster.nodes[0]
    asked = commit(node, 7)
    cluster.replicate()
    assert commit_error(asked) == 0
    assert committed(node) == 7
    # Between the two masterships another broker may have led, and taken commits.
    cluster.lead(0)
    assert committed(node) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.replicate()
    assert committed(node) == 7
