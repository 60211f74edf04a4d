"""Groups follow the mastership of the internal topic: nothing committed is lost on the way."""

import datetime
from typing import Any

import pytest

from harness.ids import as_brokers
from penstock.base.ids import BrokerId
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.controller.errors import MetadataTimeout
from penstock.coordinator.partitioning import partition_of
from penstock.coordinator.records import UnreadRecord
from penstock.coordinator.unwritten import Unwritten
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.replica.replica_set import Role
from penstock.replication.confirm import Membership
from tests.broker.cluster import Asked, Cluster, Node, fetched
from tests.groups.world import subscription

GROUP = "readers"


def started(count: int = 3) -> Cluster:
    """A cluster whose internal topic was made by the first one who asked for a coordinator."""
    cluster = Cluster(count)
    cluster.create("events")
    assert coordinator(cluster.nodes[0]) == (0, 0)
    cluster.replicate()
    return cluster


def coordinator(node: Node, version: int = 2) -> tuple[int, int]:
    fields = {"key": GROUP, "key_type": 0}
    found = node.ask(ApiKey.FIND_COORDINATOR, version, fields)
    return found.error_code, found.node_id


def commit(node: Node, offset: int) -> Asked:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    fields = {"generation_id_or_member_epoch": -1, "member_id": "", "group_id": GROUP}
    topics = [{"name": "events", "partitions": [partition]}]
    return node.send(ApiKey.OFFSET_COMMIT, 5, fields | {"topics": topics})


def commit_error(asked: Asked) -> int | None:
    return asked.answer and asked.answer.topics[0].partitions[0].error_code


def committed(node: Node) -> Any:
    topics = [{"name": "events", "partition_indexes": [0]}]
    fields = {"group_id": GROUP, "topics": topics}
    answer = node.ask(ApiKey.OFFSET_FETCH, 5, fields)
    return answer.error_code or answer.topics[0].partitions[0].committed_offset


def join(node: Node, member_id: str = "") -> Asked:
    protocols = [{"name": "range", "metadata": subscription("events")}]
    fields = {"group_id": GROUP, "member_id": member_id, "protocol_type": "consumer"}
    times = {"session_timeout": _seconds(30), "rebalance_timeout": _seconds(60)}
    return node.send(ApiKey.JOIN_GROUP, 3, fields | times | {"protocols": protocols})


def _seconds(count: int) -> Any:
    return datetime.timedelta(seconds=count)


def test_who_first_asks_for_a_coordinator_has_the_internal_topic_made() -> None:
    cluster = Cluster(3)
    assert coordinator(cluster.nodes[1]) == (0, 0)
    topic = cluster.metadata.image.topics_by_name["__consumer_offsets"]
    assert topic.internal
    assert len(topic.partitions) == 2
    cluster.replicate()
    assert committed(cluster.nodes[0]) == -1


def test_without_a_controller_there_is_no_coordinator_until_there_is_one() -> None:
    cluster = Cluster(3)

    class Silent:
        async def submit(self, command: object) -> Any:
            raise MetadataTimeout(1)

    port, cluster.nodes[1].broker.controller = cluster.nodes[1].broker.controller, Silent()
    assert coordinator(cluster.nodes[1]) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    cluster.nodes[1].broker.controller = port
    assert coordinator(cluster.nodes[1]) == (0, 0)


def test_the_coordinator_is_the_master_of_the_moment() -> None:
    cluster = started()
    assert [coordinator(node) for node in cluster.nodes] == [(0, 0)] * 3
    cluster.lead(2)
    assert [coordinator(node) for node in cluster.nodes] == [(0, 2)] * 3
    del cluster.metadata.image.brokers[BrokerId(2)]
    assert coordinator(cluster.nodes[0]) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


def test_a_commit_is_answered_when_every_member_in_step_has_it() -> None:
    cluster = started()
    asked = commit(cluster.nodes[0], 5)
    cluster.world.run()
    assert commit_error(asked) is None
    assert committed(cluster.nodes[0]) == -1
    cluster.replicate()
    assert commit_error(asked) == 0
    assert committed(cluster.nodes[0]) == 5


def test_positions_are_at_the_next_master_and_the_last_one_says_that_it_is_not_the_place() -> None:
    cluster = started()
    asked = commit(cluster.nodes[0], 5)
    cluster.replicate()
    assert commit_error(asked) == 0
    cluster.lead(1)
    assert committed(cluster.nodes[0]) == ErrorCode.NOT_COORDINATOR
    cluster.replicate()
    assert committed(cluster.nodes[1]) == 5


def test_a_new_coordinator_answers_once_what_it_has_loaded_is_confirmed() -> None:
    # The commit reached one slave only. If that one showed it before the others have it, the next
    # election could take it back.
    cluster = started()
    asked = commit(cluster.nodes[0], 5)
    cluster.replicate(1)
    cluster.lead(1, members=(1, 2))
    assert commit_error(asked) == ErrorCode.NOT_COORDINATOR
    assert committed(cluster.nodes[1]) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.replicate(2)
    assert committed(cluster.nodes[1]) == 5


def test_a_partition_that_is_gone_before_it_is_confirmed_is_not_answered_for() -> None:
    # Not the mastership ends here, which answers all that is parked, but the partition.
    cluster = started()
    commit(cluster.nodes[0], 5)
    cluster.replicate(1)
    cluster.lead(1, members=(1, 2))
    node = cluster.nodes[1]
    hosting = node.broker.coordinators[INTERNAL_TOPIC]
    assert committed(node) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    del node.broker.partitions.by_name[INTERNAL_TOPIC.encode()]
    hosting.reconcile()
    cluster.replicate(2)
    assert not len(node.member.waiting_for_all)
    assert not any(node.broker.groups.runtime.base.partitions.is_active(each) for each in range(2))


def test_an_election_answers_everybody_who_is_parked() -> None:
    cluster = started()
    joining = [join(cluster.nodes[0]), join(cluster.nodes[0])]
    cluster.lead(1)
    for asked in joining:
        assert asked.answer.error_code == ErrorCode.NOT_COORDINATOR
    assert cluster.nodes[0].broker.groups.group_count == 0


def test_a_coordinator_that_leads_again_knows_what_was_committed_elsewhere_meanwhile() -> None:
    cluster = started()
    commit(cluster.nodes[0], 5)
    cluster.replicate()
    cluster.lead(1)
    cluster.replicate()
    asked = commit(cluster.nodes[1], 9)
    cluster.replicate()
    assert commit_error(asked) == 0
    cluster.lead(0)
    cluster.replicate()
    assert committed(cluster.nodes[0]) == 9


def test_commits_are_refused_while_the_mastership_is_being_handed_over() -> None:
    cluster = started()
    pause = cluster.nodes[0].member.pause_writes()
    assert commit_error(commit(cluster.nodes[0], 5)) == ErrorCode.NOT_COORDINATOR
    assert committed(cluster.nodes[0]) == -1
    cluster.nodes[0].member.resume_writes(pause)
    asked = commit(cluster.nodes[0], 6)
    cluster.replicate()
    assert commit_error(asked) == 0


def test_a_commit_that_takes_too_long_counts_when_it_is_confirmed_after_all() -> None:
    cluster = started()
    asked = commit(cluster.nodes[0], 5)
    cluster.world.advance(31_000)
    cluster.nodes[0].broker.expire_waiting()
    assert commit_error(asked) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert committed(cluster.nodes[0]) == -1
    cluster.replicate()
    assert committed(cluster.nodes[0]) == 5


def test_a_write_is_called_late_once_and_then_told_what_became_of_it() -> None:
    cluster = started()
    node = cluster.nodes[0]
    told: list[Unwritten | None] = []
    node.journal.append(0, [(b"key", b"value")], told.append)
    for _ in range(3):
        cluster.world.advance(31_000)
        node.broker.expire_waiting()
    assert told == [Unwritten.LATE]
    cluster.replicate()
    assert told == [Unwritten.LATE, None]


def test_who_reads_the_internal_topic_gets_a_commit_when_it_is_confirmed() -> None:
    cluster = started()
    node = cluster.nodes[0]
    asked = node.fetch(0, topic=INTERNAL_TOPIC, wait_ms=30_000)
    cluster.world.run()
    assert asked.answer is None
    node.journal.append(0, [(b"key", b"value")], lambda _: None)
    cluster.world.run()
    assert asked.answer is None, "it is not confirmed"
    cluster.replicate()
    assert fetched(asked).records


def test_a_rewrite_that_an_election_overtakes_cuts_nothing() -> None:
    cluster = started()
    commit(cluster.nodes[0], 5)
    cluster.replicate()
    node = cluster.nodes[0]
    partition = node.broker.groups.partition_of(GROUP)
    hosted = node.journal.partitions[partition]
    assert hosted is not None
    done: list[int | None] = []
    begun = [  # there is no second one while the first goes on
        node.journal.rewrite(hosted, node.broker.groups.runtime.snapshot(partition), done.append)
        for _ in range(2)
    ]
    assert begun == [True, False]
    assert hosted.log.log_end_offset == 2
    cluster.lead(1)
    cluster.replicate()
    assert done == [None]
    assert hosted.log.log_start_offset == 0
    assert committed(cluster.nodes[1]) == 5


def test_a_partition_that_can_not_be_read_is_tried_again() -> None:
    cluster = started()
    commit(cluster.nodes[0], 5)
    cluster.replicate()
    taker = cluster.nodes[1]
    taker.disk.is_cold = True
    taker.disk.fail("read", "log", 5)
    cluster.lead(1)
    taker.disk.is_cold = False
    cluster.replicate()
    assert committed(taker) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.world.advance(1_001)
    assert committed(taker) == 5


def test_a_partition_that_is_lost_before_it_is_tried_again_stays_lost() -> None:
    cluster = started()
    commit(cluster.nodes[0], 5)
    cluster.replicate()
    taker, next_one = cluster.nodes[1:]
    taker.disk.is_cold = True
    taker.disk.fail("read", "log", 5)
    cluster.lead(1)
    taker.disk.is_cold = False
    cluster.replicate()
    assert committed(taker) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.lead(2)
    cluster.replicate()
    cluster.world.advance(1_001)
    assert committed(taker) == ErrorCode.NOT_COORDINATOR
    assert committed(next_one) == 5


def test_a_partition_that_is_tried_again_has_nothing_twice() -> None:
    cluster = started()
    journal = cluster.nodes[0].journal
    number = cluster.nodes[0].broker.groups.partition_of(GROUP)
    journal.append(number, [UnreadRecord(None, b"of a later version")], lambda _: None)
    for _ in range(30):
        journal.append(number, [(b"\x00\x09later", bytes(5_000))], lambda _: None)
        cluster.replicate()
    cluster.lead(1)
    cluster.replicate()
    first, second = (cluster.nodes[one] for one in (1, 2))
    expected = first.broker.groups.runtime.unread_bytes
    assert expected > 0
    second.disk.is_cold = True
    second.disk.fail("read", "log", 5, after=1)
    cluster.lead(2)
    second.disk.is_cold = False
    cluster.replicate()
    assert committed(second) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.world.advance(1_001)
    assert committed(second) == -1
    assert second.broker.groups.runtime.unread_bytes == expected


def test_a_commit_counts_that_is_confirmed_after_its_set_has_shrunk() -> None:
    # It stands in the log: the next coordinator would find it.
    cluster = started()
    asked = commit(cluster.nodes[0], 5)
    cluster.world.run()
    cluster.nodes[0].member.change_members(
        Membership(replicas=as_brokers(0, 1, 2), committed=as_brokers(0, 1))
    )
    cluster.replicate(1)
    assert commit_error(asked) == 0
    assert committed(cluster.nodes[0]) == 5


@pytest.mark.parametrize("count", [1, 3, 7])
def test_the_internal_topic_says_how_many_partitions_it_has_and_not_the_setting(count: int) -> None:
    cluster = Cluster(3)
    cluster.create("events")
    topic = NewTopic(name=INTERNAL_TOPIC, partition_count=count)
    cluster.metadata.submit(CreateTopics(topics=(topic,), internal=True))
    for leader in (0, 1):
        cluster.lead(leader)
        cluster.replicate()
        groups = cluster.nodes[leader].broker.groups
        assert groups.partition_of(GROUP) == partition_of(GROUP, count)
        states = groups.runtime.base.partitions
        assert all(states.is_active(number) for number in range(count))
        asked = commit(cluster.nodes[leader], 5 + leader)
        cluster.replicate()
        assert (commit_error(asked), committed(cluster.nodes[leader])) == (0, 5 + leader)


def test_a_broker_without_the_role_owns_nothing() -> None:
    cluster = started()
    for node in cluster.nodes[1:]:
        assert node.member.role is Role.SLAVE
        assert committed(node) == ErrorCode.NOT_COORDINATOR
        assert join(node).answer.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("count", [2, 5])
def test_positions_survive_a_chain_of_failovers(count: int) -> None:
    cluster = started(count)
    for round_number in range(2 * count):
        leader = round_number % count
        cluster.lead(leader)
        cluster.replicate()
        if round_number:
            assert committed(cluster.nodes[leader]) == round_number - 1
        asked = commit(cluster.nodes[leader], round_number)
        cluster.replicate()
        assert commit_error(asked) == 0
