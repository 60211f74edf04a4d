"""What clients see when the mastership of their partitions moves, broker by broker."""

import datetime
from typing import Any, cast

import pytest

from harness.ids import as_brokers
from penstock.base.ids import BrokerId, LeaderEpoch, Offset
from penstock.controller.commands.command import DeleteTopics, TopicReference
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.batch import read_header
from penstock.record.read import iter_records
from penstock.replication.confirm import Membership
from tests.broker.cluster import Cluster, batch, fetched, produced

LATEST = -1
LONG_MS = 20_000


def events(count: int = 3, *, configs: dict[str, str] | None = None, **config: Any) -> Cluster:
    """A cluster with one topic; broker 0 leads it."""
    cluster = Cluster(count, **config)
    cluster.create("events", **cast("dict[str, Any]", configs or {}))
    cluster.replicate()
    return cluster


def values(partition: Any) -> list[bytes | None]:
    found: list[bytes | None] = []
    data = memoryview(partition.records or b"")
    while data:
        size = read_header(data).size_bytes
        found += [record.value for record in iter_records(data[:size])]
        data = data[size:]
    return found


# Producing


def test_acks_all_waits_for_every_member_in_step_and_acks_one_for_the_master() -> None:
    cluster = events()
    for_all, for_one = cluster.nodes[0].produce(b"a"), cluster.nodes[0].produce(b"b", acks=1)
    cluster.world.run()
    assert produced(for_all) is None
    assert produced(for_one).base_offset == 1
    cluster.replicate(1)
    assert produced(for_all) is None
    cluster.replicate(2)
    assert produced(for_all).error_code == 0


def test_a_slave_refuses_batches_and_says_who_leads_and_where() -> None:
    cluster = events()
    asked = cluster.nodes[1].produce(b"a")
    answer = produced(asked)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (
        0,
        cluster.nodes[0].member.leader_epoch,
    )
    (endpoint,) = asked.answer.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (0, "host-0", 9092)


def test_a_broker_that_does_not_carry_a_partition_says_who_leads_it() -> None:
    cluster = events()
    member = cluster.nodes[2].member
    member.resign()
    cluster.nodes[2].broker.remove_member(member)
    answer = produced(cluster.nodes[2].produce(b"a"))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader.leader_id == 0
    assert fetched(cluster.nodes[2].fetch(0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    missing = produced(cluster.nodes[2].produce(b"a", topic="nowhere"))
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_parked_batches_are_refused_when_the_mastership_is_lost() -> None:
    cluster = events()
    waiting = [cluster.nodes[0].produce(b"a"), cluster.nodes[0].produce(b"b", acks=1)]
    cluster.lead(1)
    for asked in waiting:
        answer = produced(asked)
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert answer.current_leader.leader_id == 1


def test_too_few_members_in_step_refuse_a_batch_before_it_is_appended() -> None:
    cluster = events(configs={"min_insync_replicas": "2"})
    cluster.lead(0, members=(0,))
    assert produced(cluster.nodes[0].produce(b"a")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    asked = cluster.nodes[0].produce(b"b", acks=1)
    cluster.world.run()
    assert produced(asked).base_offset == 0


def test_a_set_that_shrinks_while_a_batch_waits_answers_that_it_is_appended() -> None:
    cluster = events(configs={"min_insync_replicas": "2"})
    asked = cluster.nodes[0].produce(b"a")
    cluster.world.run()
    cluster.nodes[0].member.change_members(
        Membership(replicas=as_brokers(0, 1, 2), committed=as_brokers(0))
    )
    assert produced(asked).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_batch_without_a_minimum_survives_a_set_that_shrinks() -> None:
    cluster = events()
    asked = cluster.nodes[0].produce(b"a")
    cluster.world.run()
    cluster.nodes[0].member.change_members(
        Membership(replicas=as_brokers(0, 1, 2), committed=as_brokers(0))
    )
    assert produced(asked).error_code == 0


def two_sets_asked(cluster: Cluster) -> Any:
    """One request for a partition in each of two sets."""
    cluster.create("events", partitions=2)
    for set_id in (0, 1):
        cluster.replicate(set_id=set_id)
    partitions = [{"index": index, "records": batch(b"a")} for index in (0, 1)]
    topics = [{"name": "events", "partition_data": partitions}]
    fields = {"transactional_id": None, "acks": -1, "timeout_ms": 5000, "topic_data": topics}
    return cluster.nodes[0].send(ApiKey.PRODUCE, 11, fields)


def errors_by_partition(asked: Any) -> list[int]:
    return [
        partition_response.error_code
        for partition_response in asked.answer.responses[0].partition_responses
    ]


def test_each_set_of_a_request_succeeds_or_fails_by_itself() -> None:
    cluster = Cluster(2, set_count=2)
    asked = two_sets_asked(cluster)
    cluster.lead(1, set_id=1)
    assert asked.answer is None
    cluster.replicate(set_id=0)
    assert errors_by_partition(asked) == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_request_whose_time_is_up_is_answered_for_all_its_sets_at_once() -> None:
    cluster = Cluster(2, set_count=2)
    asked = two_sets_asked(cluster)
    cluster.replicate(set_id=0)
    cluster.world.advance(5_001)
    cluster.nodes[0].broker.expire_waiting()
    assert errors_by_partition(asked) == [ErrorCode.REQUEST_TIMED_OUT] * 2
    cluster.replicate(set_id=1)
    assert len(asked.wire.answers) == 1


def test_during_a_transfer_batches_are_refused_and_consumers_go_on() -> None:
    cluster = events()
    cluster.nodes[0].produce(b"a")
    cluster.replicate()
    pause = cluster.nodes[0].member.pause_writes()
    assert produced(cluster.nodes[0].produce(b"b")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert values(fetched(cluster.nodes[0].fetch(0))) == [b"a"]
    assert cluster.nodes[0].list_offset(LATEST).offset == 1
    cluster.nodes[0].member.resume_writes(pause)
    assert produced(cluster.nodes[0].produce(b"b", acks=1)) is None


@pytest.mark.parametrize("produced_count", [1, 5])
def test_a_new_master_knows_what_an_idempotent_producer_has_sent(produced_count: int) -> None:
    cluster = events()
    batches: list[dict[str, Any]] = [
        {"producer_id": 9, "producer_epoch": 0, "base_sequence": n} for n in range(7)
    ]
    for fields in batches[:produced_count]:
        cluster.nodes[0].produce(b"x", **fields)
    cluster.replicate()
    cluster.lead(1)
    again = [cluster.nodes[1].produce(b"x", acks=1, **one) for one in batches[:produced_count]]
    following = cluster.nodes[1].produce(b"x", acks=1, **batches[produced_count])
    gap = cluster.nodes[1].produce(b"x", acks=1, **(batches[6] | {"base_sequence": 50}))
    cluster.world.run()
    assert [produced(one).base_offset for one in again] == list(range(produced_count))
    assert produced(following).base_offset == produced_count
    assert produced(gap).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_duplicate_at_a_new_master_is_acknowledged_when_its_first_copy_is_confirmed() -> None:
    # The old master died before it could answer; the batch is on one of the two others.
    cluster = events()
    fields: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    cluster.nodes[0].produce(b"x", **fields)
    cluster.replicate(1)
    cluster.lead(1, members=(1, 2))
    again = cluster.nodes[1].produce(b"x", **fields)
    cluster.world.run()
    assert produced(again) is None
    cluster.replicate(2)
    assert produced(again).base_offset == 0
    assert values(fetched(cluster.nodes[1].fetch(0))) == [b"x"]


# Fetching


def test_a_parked_fetch_hears_at_once_that_its_master_is_another() -> None:
    cluster = events()
    parked = cluster.nodes[0].fetch(0, wait_ms=LONG_MS)
    assert fetched(parked) is None
    cluster.lead(2)
    answer = fetched(parked)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader.leader_id == 2


def test_a_parked_fetch_with_an_epoch_is_fenced_when_its_broker_is_elected_again() -> None:
    cluster = events()
    parked = cluster.nodes[0].fetch(0, wait_ms=LONG_MS, epoch=cluster.nodes[0].member.leader_epoch)
    cluster.lead(0)
    answer = fetched(parked)
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert answer.current_leader.leader_epoch == cluster.nodes[0].member.leader_epoch


def test_a_fetch_of_a_deleted_topic_is_answered_at_once() -> None:
    cluster = events()
    parked = cluster.nodes[0].fetch(0, wait_ms=LONG_MS)
    cluster.metadata.submit(DeleteTopics(topics=(TopicReference(name="events"),)))
    assert fetched(parked).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("broker_id", [0, 1])
def test_epochs_that_are_too_old_or_too_new_are_told_apart_on_any_broker(broker_id: int) -> None:
    cluster = events()
    node, epoch = cluster.nodes[broker_id], cluster.nodes[0].member.leader_epoch
    fenced, unknown = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
    for asked, error in ((epoch - 1, fenced), (epoch + 1, unknown)):
        assert fetched(node.fetch(0, epoch=asked)).error_code == error
        assert node.list_offset(LATEST, epoch=asked).error_code == error
        assert node.epoch_end(0, current=asked).error_code == error


def test_hints_stand_only_in_versions_that_have_them() -> None:
    cluster = events()
    for version in range(4, 13):
        asked = cluster.nodes[1].fetch(0, version=version)
        assert fetched(asked).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader = getattr(fetched(asked), "current_leader", None)
        assert (leader is not None and leader.leader_id == 0) == (version >= 12)
    for version in range(3, 13):
        answer = produced(cluster.nodes[1].produce(b"a", version=version))
        leader = getattr(answer, "current_leader", None)
        assert (leader is not None and leader.leader_id == 0) == (version >= 10)


def test_without_a_live_master_there_is_no_hint() -> None:
    cluster = events()
    image = cluster.metadata.image
    del image.brokers[BrokerId(0)]
    answer = produced(cluster.nodes[1].produce(b"a"))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader.leader_id == -1


def test_what_was_acknowledged_is_read_from_the_next_master() -> None:
    cluster = events()
    acknowledged = cluster.nodes[0].produce(b"a", b"b")
    cluster.replicate()
    assert produced(acknowledged).error_code == 0
    cluster.lead(1, members=(1,))
    assert values(fetched(cluster.nodes[1].fetch(0))) == [b"a", b"b"]


def test_nothing_is_visible_that_is_not_on_all_members_in_step() -> None:
    cluster = events()
    asked = cluster.nodes[0].produce(b"a", acks=1)
    cluster.replicate(1)
    assert produced(asked).error_code == 0
    answer = fetched(cluster.nodes[0].fetch(0))
    assert (answer.high_watermark, values(answer)) == (0, [])
    cluster.replicate(2)
    assert values(fetched(cluster.nodes[0].fetch(0))) == [b"a"]


def test_a_consumer_that_read_what_was_cut_off_hears_where_its_epoch_ended() -> None:
    cluster = events()
    cluster.nodes[0].produce(b"a")
    cluster.replicate()
    old = cluster.nodes[0].member.leader_epoch
    cluster.lead(1)
    cluster.nodes[1].produce(b"b")
    cluster.replicate(2)
    answer = fetched(cluster.nodes[1].fetch(2, last_epoch=old))
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (old, 1)
    at_its_end = fetched(cluster.nodes[1].fetch(1, last_epoch=old))
    assert (at_its_end.error_code, at_its_end.diverging_epoch.epoch) == (0, -1)


def test_a_session_goes_over_from_records_to_an_error_and_back() -> None:
    cluster = events(2)
    node = cluster.nodes[0]
    session = _session_fetch(node, 0, 0).answer.session_id
    node.produce(b"a", acks=1)
    cluster.replicate()
    assert values(_session_fetch(node, session, 1).answer.responses[0].partitions[0]) == [b"a"]
    cluster.lead(1)
    refused = _session_fetch(node, session, 2).answer.responses[0].partitions[0]
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.lead(0)
    (again,) = _session_fetch(node, session, 3).answer.responses
    assert again.partitions[0].error_code == 0


def _session_fetch(node: Any, session_id: int, session_epoch: int) -> Any:
    topics = []
    if session_epoch == 0:
        partition = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0}
        partition |= {"last_fetched_epoch": -1, "log_start_offset": -1}
        topics = [{"topic": "events", "partitions": [partition | {"partition_max_bytes": 9999}]}]
    fields: dict[str, Any] = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 9999}
    fields |= {"isolation_level": 0, "session_id": session_id, "session_epoch": session_epoch}
    fields |= {"topics": topics, "forgotten_topics_data": [], "rack_id": ""}
    return node.send(ApiKey.FETCH, 12, fields)


# Ends and epochs


@pytest.mark.parametrize("version", [1, 4, 5, 11])
def test_a_new_master_names_no_latest_offset_before_it_knows_it(version: int) -> None:
    cluster = events()
    cluster.nodes[0].produce(b"a")
    cluster.replicate()
    # Broker 1 has not heard yet that this is confirmed: its high watermark lies below.
    cluster.nodes[0].produce(b"b")
    cluster.replicate(1)
    cluster.lead(1, members=(1, 2))
    unknown = ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
    assert cluster.nodes[1].list_offset(LATEST, version=version).error_code == unknown
    far = 1 << 50
    assert cluster.nodes[1].list_offset(far, version=version).error_code == unknown
    assert cluster.nodes[1].list_offset(-2, version=version).offset == 0
    cluster.replicate(2)
    assert cluster.nodes[1].list_offset(LATEST, version=version).offset == 2
    assert cluster.nodes[1].list_offset(far, version=version).offset == -1


def test_ends_of_epochs_over_two_fast_failovers() -> None:
    # KIP-279: A, B without a record, A again; who asks for an epoch that wrote nothing here gets
    # the largest one below it.
    cluster = events()
    cluster.nodes[0].produce(b"a", b"b")
    cluster.replicate()
    first = cluster.nodes[0].member.leader_epoch
    second = cluster.lead(1)
    cluster.replicate(0, 2)
    third = cluster.lead(0)
    cluster.nodes[0].produce(b"c", acks=1)
    cluster.replicate()
    master = cluster.nodes[0]
    ends = [master.epoch_end(epoch) for epoch in (first, second, third, third + 1)]
    assert [(end.leader_epoch, end.end_offset) for end in ends] == [
        (first, 2),
        (second, 2),
        (third, 3),
        (-1, -1),
    ]
    before = master.epoch_end(first - 1)
    assert before.end_offset == 0
    for slave in cluster.nodes[1:]:
        assert slave.epoch_end(first).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# Deleting


def test_an_epoch_whose_records_are_deleted_ends_where_the_partition_begins() -> None:
    # Its bytes are in the log until their file goes; an end below the start names no record.
    cluster = events()
    master = cluster.nodes[0]
    master.produce(b"a", b"b")
    cluster.replicate()
    first = master.member.leader_epoch
    second = cluster.lead(0)
    master.produce(b"c", b"d", b"e")
    cluster.replicate()
    hosted = master.broker.partitions.find("events", 0)
    assert hosted is not None
    master.member.log.delete_records(hosted.log, Offset(4))
    ends = [master.epoch_end(epoch) for epoch in (first, second)]
    assert [(end.leader_epoch, end.end_offset) for end in ends] == [(first, 4), (second, 5)]


def delete_records(node: Any, offset: int) -> Any:
    topics = [{"name": "events", "partitions": [{"partition_index": 0, "offset": offset}]}]
    return node.send(ApiKey.DELETE_RECORDS, 2, {"topics": topics, "timeout": _seconds(5)})


def _seconds(count: int) -> Any:
    return datetime.timedelta(seconds=count)


def test_records_are_deleted_at_the_master_once_everybody_in_step_knows() -> None:
    cluster = events()
    cluster.nodes[0].produce(b"a", b"b")
    cluster.replicate()
    slave = delete_records(cluster.nodes[1], 1).answer.topics[0].partitions[0]
    assert slave.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    asked = delete_records(cluster.nodes[0], 1)
    cluster.world.run()
    assert asked.answer is None
    cluster.replicate()
    (told,) = cast("Any", asked.answer).topics
    assert told.partitions[0].low_watermark == 1
    cluster.lead(1)
    assert cluster.nodes[1].list_offset(-2).offset == 1


def test_a_deletion_that_an_election_overtakes_is_refused() -> None:
    cluster = events()
    cluster.nodes[0].produce(b"a", b"b")
    cluster.replicate()
    asked = delete_records(cluster.nodes[0], 1)
    cluster.lead(1)
    answer = asked.answer.topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.low_watermark == -1


# The registry


def test_a_member_that_opens_after_the_topic_gets_its_partitions() -> None:
    cluster = events()
    node = cluster.nodes[2]
    member = node.member
    member.resign()
    node.broker.remove_member(member)
    assert node.broker.partitions.find("events", 0) is None
    node.broker.add_member(member)
    hosted = node.broker.partitions.find("events", 0)
    assert hosted is not None
    assert hosted.log is member.log.partitions[hosted.log.topic_partition]


def test_partitions_of_topics_that_are_gone_are_dropped_at_promotion_and_not_before() -> None:
    cluster = events()
    cluster.nodes[0].produce(b"a")
    cluster.replicate(1)
    cluster.metadata.submit(DeleteTopics(topics=(TopicReference(name="events"),)))
    cluster.replicate(2)  # what it gets is older than the deletion that it has seen
    assert len(cluster.nodes[2].member.log.partitions) == 1
    cluster.lead(2)
    assert not cluster.nodes[2].member.log.partitions


def test_a_log_that_was_cut_is_served_by_its_new_objects() -> None:
    cluster = events()
    cluster.nodes[0].produce(b"a")
    cluster.replicate()
    common = cluster.nodes[0].member.log.end_position
    lost = cluster.nodes[0].produce(b"lost", acks=1)
    cluster.world.run()
    assert produced(lost).base_offset == 1
    cluster.lead(1, members=(1, 2))
    old = cluster.nodes[0]
    old.member.log.on_reopened = old.member.reopened
    old.member.log.truncate(common, lambda error: None)
    cluster.world.run()
    cluster.nodes[1].produce(b"b")
    cluster.replicate(0, 2)
    cluster.lead(0)
    cluster.replicate()
    assert values(fetched(old.fetch(0))) == [b"a", b"b"]
    assert old.list_offset(LATEST).offset == 2


def test_only_a_new_mastership_drops_partitions_of_topics_that_are_not_known() -> None:
    # After a loss of power a process may know of fewer topics than its log has records of.
    cluster = events()
    node = cluster.nodes[0]
    written = set(node.member.log.partitions)
    members = Membership(replicas=as_brokers(0, 1, 2), committed=as_brokers(0, 1, 2))
    cluster.metadata.image.topics_by_id.clear()
    node.member.resign()
    node.member.become_master(node.member.leader_epoch, members)
    assert set(node.member.log.partitions) == written
    node.member.resign()
    node.member.become_master(LeaderEpoch(node.member.leader_epoch + 1), members)
    assert not node.member.log.partitions
