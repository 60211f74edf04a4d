"""Streams groups: members come and go, and have tasks of their application."""

import pytest

from penstock.base.ids import TopologyEpoch
from penstock.coordinator.unwritten import Unwritten
from penstock.groups.assigned.names import Kind
from penstock.groups.assigned.reconcile import together
from penstock.groups.messages import CommitOffsets
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.groups.streams.group import StreamsGroupState
from penstock.groups.streams.records import Endpoint
from penstock.groups.streams.status import StatusCode
from penstock.groups.streams.tasks import Role, key_of
from penstock.groups.streams.topology import CopartitionGroup, Topology
from penstock.protocol.error_codes import ErrorCode
from tests.groups.streams.troupe import (
    SESSION_MS,
    STATELESS,
    TIMEOUT_MS,
    WORD_COUNT,
    Player,
    Troupe,
    internal,
    part,
    settle,
)
from tests.groups.world import GROUP, only

ALL = {("0", 0), ("0", 1), ("0", 2), ("1", 0), ("1", 1), ("1", 2)}


def world(**settings: int) -> Troupe:
    troupe = Troupe(**settings)
    troupe.words()
    return troupe


def test_the_first_member_gets_all_tasks() -> None:
    troupe = world()
    one = Player(troupe, "one", WORD_COUNT).beat()
    assert (one.tasks(), one.epoch, one.codes) == (ALL, 2, [])
    assert troupe.group().state is StreamsGroupState.STABLE


def test_a_second_member_gets_its_half_once_the_first_has_given_it_up() -> None:
    troupe = world()
    one, two = Player(troupe, "one", WORD_COUNT).beat(), Player(troupe, "two", WORD_COUNT).beat()
    assert (two.tasks(), troupe.group().state) == (set(), StreamsGroupState.RECONCILING)
    had = one.owned
    one.beat()
    kept, one.owned = one.owned, had
    assert len(one.tasks()) == 6
    two.beat()
    assert two.tasks() == set(), "the first has not said that it gave anything up"
    one.owned = kept
    settle(one, two)
    assert (len(one.tasks()), len(two.tasks())) == (3, 3)
    assert one.tasks() | two.tasks() == ALL


def test_a_topic_that_is_made_anew_with_fewer_partitions_takes_tasks_away() -> None:
    troupe = world()
    one = Player(troupe, "one", STATELESS).beat()
    troupe.cluster.create("lines", 1)
    troupe.pass_ms(1_000)
    settle(one)
    assert one.tasks() == {("0", 0)}


def test_tasks_that_are_no_more_are_named_until_they_are_given_up() -> None:
    troupe = world()
    one = Player(troupe, "one", STATELESS).beat()
    had = one.owned
    troupe.cluster.create("lines", 1)
    troupe.pass_ms(1_000)
    one.beat()
    assert troupe.group().currents["one"].revoking
    assert only(troupe.beat_as("one", one.epoch, owned=had)).error is ErrorCode.NONE
    settle(one)
    assert one.tasks() == {("0", 0)}


def test_a_leaving_members_tasks_go_to_the_others() -> None:
    troupe = world()
    one, two = Player(troupe, "one", WORD_COUNT), Player(troupe, "two", WORD_COUNT)
    settle(one, two)
    assert two.leave().member_epoch == -1
    settle(one)
    assert one.tasks() == ALL


def test_a_silent_member_is_removed_after_its_session() -> None:
    troupe = world()
    one, two = Player(troupe, "one", WORD_COUNT), Player(troupe, "two", WORD_COUNT)
    settle(one, two)
    troupe.pass_ms(SESSION_MS - 1)
    one.beat()
    troupe.pass_ms(1)
    settle(one)
    assert one.tasks() == ALL
    assert two.beat().answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_gives_nothing_up_is_removed_after_its_rebalance_timeout() -> None:
    troupe = world()
    troupe.cluster.keys[GROUP] = {"streams.session.timeout.ms": "100000"}
    one = Player(troupe, "one", WORD_COUNT).beat()
    two = Player(troupe, "two", WORD_COUNT).beat()
    had = one.owned
    one.beat()
    one.owned = had
    troupe.pass_ms(TIMEOUT_MS)
    settle(two)
    assert two.tasks() == ALL
    assert one.beat().answer.error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("epoch", [1, 3, 9])
def test_another_epoch_is_fenced(epoch: int) -> None:
    troupe = world()
    Player(troupe, "one", WORD_COUNT).beat()
    owned = {key_of(Role.ACTIVE, "0"): frozenset((0,))}
    answer = only(troupe.beat_as("one", epoch, owned=owned))
    assert answer.error is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_whose_answer_was_lost_comes_with_its_last_epoch() -> None:
    troupe = world()
    one = Player(troupe, "one", WORD_COUNT).beat()
    two = Player(troupe, "two", WORD_COUNT).beat()
    one.beat()
    epoch, owned = one.epoch, one.owned
    one.beat()
    assert one.epoch > epoch
    one.epoch, one.owned = epoch, owned
    assert one.beat().answer.error is ErrorCode.NONE
    settle(one, two)
    assert one.tasks() | two.tasks() == ALL


def test_a_lost_answer_is_not_given_again_to_who_runs_what_it_says_to_give_up() -> None:
    troupe = world()
    one = Player(troupe, "one", WORD_COUNT).beat()
    Player(troupe, "two", WORD_COUNT).beat()
    one.beat()
    Player(troupe, "three", WORD_COUNT).beat()
    answer = only(troupe.beat_as("one", one.epoch, owned=one.owned))
    assert answer.member_epoch == one.epoch + 1  # it is lost
    current = troupe.group().currents["one"]
    assert current.revoking
    assert together(current.assigned, current.revoking) == one.owned
    assert one.beat().answer.error is ErrorCode.FENCED_MEMBER_EPOCH


def test_missing_source_topics_are_told_and_mended() -> None:
    troupe = Troupe()
    one = Player(troupe, "one", STATELESS).beat()
    assert (one.codes, one.tasks()) == ([StatusCode.MISSING_SOURCE_TOPICS], set())
    assert troupe.group().state is StreamsGroupState.NOT_READY
    troupe.cluster.create("lines", 2)
    assert one.beat().codes == []
    assert one.tasks() == {("0", 0), ("0", 1)}


def test_a_source_topic_that_is_deleted_takes_the_tasks_away() -> None:
    troupe = world()
    one = Player(troupe, "one", WORD_COUNT).beat()
    troupe.cluster.delete("lines")
    troupe.pass_ms(1_000)
    settle(one)
    assert (one.codes, one.tasks()) == ([StatusCode.MISSING_SOURCE_TOPICS], set())


def test_missing_internal_topics_are_to_be_created_with_their_settings() -> None:
    troupe = Troupe()
    troupe.cluster.create("lines", 3)
    one = Player(troupe, "one", WORD_COUNT).beat()
    assert (one.codes, one.tasks()) == ([StatusCode.MISSING_INTERNAL_TOPICS], set())
    wanted = (internal("counts", 3), internal("words", 3))
    assert one.reply.missing == wanted
    troupe.words()
    settle(one)
    assert one.tasks() == ALL
    assert not one.reply.missing


def test_an_internal_topic_of_another_size_is_told() -> None:
    troupe = world()
    troupe.cluster.create("counts", 5)
    one = Player(troupe, "one", WORD_COUNT).beat()
    assert one.codes == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]
    assert "expected 3, found 5" in one.reply.statuses[0].detail


def test_topics_of_a_copartition_group_must_have_equally_many_partitions() -> None:
    troupe = Troupe()
    troupe.cluster.create("a", 2)
    troupe.cluster.create("b", 3)
    joined = Topology(
        TopologyEpoch(1), (part("0", "a", "b", together=(CopartitionGroup((0, 1), (), ()),)),)
    )
    one = Player(troupe, "one", joined).beat()
    assert one.codes == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]
    assert "a=2, b=3" in one.reply.statuses[0].detail
    troupe.cluster.create("a", 3)
    settle(one)
    assert len(one.tasks()) == 3


def test_a_repartition_topic_is_levelled_with_its_copartition_group() -> None:
    troupe = Troupe()
    troupe.cluster.create("a", 2)
    troupe.cluster.create("b", 4)
    joined = Topology(
        TopologyEpoch(1),
        (
            part("0", "a", sinks=("re",)),
            part(
                "1",
                "b",
                repartitions=(internal("re"),),
                together=(CopartitionGroup((0,), (), (0,)),),
            ),
        ),
    )
    one = Player(troupe, "one", joined).beat()
    assert one.reply.missing == (internal("re", 4),)


def test_topics_that_match_an_expression_are_read() -> None:
    troupe = Troupe()
    troupe.cluster.create("in-a", 2)
    one = Player(troupe, "one", Topology(TopologyEpoch(1), (part("0", regexes=("in-.*",)),)))
    settle(one)
    assert len(one.tasks()) == 2
    troupe.cluster.create("in-b", 3)
    troupe.pass_ms(10_000)
    settle(one)
    assert len(one.tasks()) == 3


def test_internal_topics_match_no_expression_of_an_application() -> None:
    """Kafka's applications match their patterns themselves, and leave internal topics out."""
    troupe = Troupe()
    troupe.cluster.create("__consumer_offsets", 5)
    troupe.cluster.create("in-a", 2)
    one = Player(troupe, "one", Topology(TopologyEpoch(1), (part("0", regexes=(".*",)),)))
    settle(one)
    assert len(one.tasks()) == 2


def test_standby_tasks_are_in_other_processes() -> None:
    troupe = world()
    troupe.cluster.keys[GROUP] = {"streams.num.standby.replicas": "1"}
    players = [Player(troupe, name, WORD_COUNT) for name in "abc"]
    settle(*players)
    copies = [task for one in players for task in one.tasks(Role.STANDBY)]
    assert sorted(copies) == [("1", 0), ("1", 1), ("1", 2)]
    assert not any(one.tasks() & one.tasks(Role.STANDBY) for one in players)


def test_a_change_of_the_key_assigns_anew() -> None:
    troupe = world()
    players = [Player(troupe, name, WORD_COUNT) for name in "ab"]
    settle(*players)
    assert not any(one.tasks(Role.STANDBY) for one in players)
    troupe.cluster.keys[GROUP] = {"streams.num.standby.replicas": "1"}
    settle(*players)
    assert sum(len(one.tasks(Role.STANDBY)) for one in players) == 3


def test_a_copy_of_the_state_takes_over() -> None:
    troupe = world()
    troupe.cluster.keys[GROUP] = {"streams.num.standby.replicas": "1"}
    players = [Player(troupe, name, WORD_COUNT) for name in "abc"]
    settle(*players)
    gone, *others = players
    wanted = {task for task in gone.tasks() if task[0] == "1"}
    near = {task for one in others for task in one.tasks(Role.STANDBY) & wanted}
    holders = {task: one for one in others for task in one.tasks(Role.STANDBY) & wanted}
    gone.leave()
    settle(*others)
    assert near == wanted
    assert all(task in one.tasks() for task, one in holders.items())


def test_one_member_asks_all_to_end() -> None:
    troupe = world()
    one, two = Player(troupe, "one", WORD_COUNT), Player(troupe, "two", WORD_COUNT)
    settle(one, two)
    only(troupe.beat_as("one", one.epoch, is_shutdown=True))
    assert two.beat().codes == [StatusCode.SHUTDOWN_APPLICATION]
    one.leave(), two.leave()
    assert Player(troupe, "three", WORD_COUNT).beat().codes == []


def test_an_older_topology_is_stale_and_another_one_is_refused() -> None:
    troupe = world()
    Player(troupe, "one", WORD_COUNT._replace(epoch=TopologyEpoch(2))).beat()
    old = Player(troupe, "old", WORD_COUNT).beat()
    assert StatusCode.STALE_TOPOLOGY in old.codes
    other = Player(troupe, "other", STATELESS._replace(epoch=TopologyEpoch(3))).beat()
    assert other.answer.error is ErrorCode.INVALID_REQUEST
    assert "other" not in troupe.group().facts


def test_a_group_without_members_takes_another_topology() -> None:
    troupe = world()
    one = Player(troupe, "one", WORD_COUNT).beat()
    one.leave()
    again = Player(troupe, "again", STATELESS)
    settle(again)
    assert again.tasks() == {("0", 0), ("0", 1), ("0", 2)}


def test_members_hear_of_endpoints_and_of_their_changes() -> None:
    troupe = world()
    one = Player(troupe, "one", WORD_COUNT, endpoint=Endpoint("here", 80))
    settle(one)
    found = one.beat(endpoint_epoch=-1).reply
    assert found.endpoints is not None
    (told,) = found.endpoints
    assert told.endpoint == Endpoint("here", 80)
    assert told.active == {"lines": (0, 1, 2), "words": (0, 1, 2)}
    assert one.beat(endpoint_epoch=found.endpoint_epoch).reply.endpoints is None
    two = Player(troupe, "two", WORD_COUNT)
    settle(one, two)
    later = one.beat(endpoint_epoch=found.endpoint_epoch).reply
    assert later.endpoints is not None
    assert sum(map(len, later.endpoints[0].active.values())) == 3


def test_a_full_group_refuses_new_members_and_keeps_its_own() -> None:
    troupe = world(streams_group_size_max=1)
    one = Player(troupe, "one", WORD_COUNT).beat()
    two = Player(troupe, "two", WORD_COUNT).beat()
    assert two.answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert two.beat(is_shutdown=True).answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert one.beat().codes == [], "who is no member does not end the application"
    one.epoch = 0
    assert one.beat().answer.error is ErrorCode.NONE


def test_too_many_tasks_are_told() -> None:
    troupe = world(streams_tasks_max=5)
    one = Player(troupe, "one", WORD_COUNT).beat()
    assert one.codes == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]


def test_tasks_that_there_are_not_are_refused() -> None:
    troupe = world()
    one = Player(troupe, "one", WORD_COUNT).beat()
    for name, number in (("9", 0), ("0", 3), ("0", -1)):
        owned = {key_of(Role.ACTIVE, name): frozenset((number,))}
        answer = only(troupe.beat_as("one", one.epoch, owned=owned))
        assert answer.error is ErrorCode.INVALID_REQUEST, (name, number)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ErrorCode.INVALID_REQUEST, {"instance_id": "static"}),
        (ErrorCode.INVALID_REQUEST, {"rack_id": ""}),
        (ErrorCode.INVALID_REQUEST, {"rebalance_timeout_ms": -1}),
        (ErrorCode.INVALID_REQUEST, {"owned": None}),
        (ErrorCode.INVALID_REQUEST, {"process_id": "p" * 250}),
        (ErrorCode.INVALID_REQUEST, {"tags": (("k", "v" * 250),)}),
    ],
)
def test_what_a_join_must_say(error: ErrorCode, said: dict[str, object]) -> None:
    troupe = world()
    assert troupe.entered("one", WORD_COUNT, **said).error is error
    assert GROUP not in troupe.coordinator._table.groups


@pytest.mark.parametrize(
    "topology",
    [
        Topology(TopologyEpoch(1), (part("0"),)),
        Topology(TopologyEpoch(1), (part("0", "a"), part("0", "b"))),
        Topology(TopologyEpoch(1), (part("0", "a", regexes=("(",)),)),
        Topology(TopologyEpoch(1), (part("0", "a", together=(CopartitionGroup((1,), (), ()),)),)),
        Topology(TopologyEpoch(1), (part("0", "a")._replace(changelogs=(internal("c", 2),)),)),
        Topology(TopologyEpoch(1), (part("0", "a", repartitions=(internal("r", -1),)),)),
    ],
)
def test_a_topology_that_can_not_be_is_refused(topology: Topology) -> None:
    troupe = world()
    assert troupe.entered("one", topology).error is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert GROUP not in troupe.coordinator._table.groups


def test_a_group_is_the_same_after_a_restart() -> None:
    troupe = world()
    one, two = Player(troupe, "one", WORD_COUNT), Player(troupe, "two", WORD_COUNT)
    settle(one, two)
    before = troupe.group()
    troupe.restart()
    after = troupe.group()
    assert (after.facts, after.targets, after.currents) == (
        before.facts,
        before.targets,
        before.currents,
    )
    assert (after.tables.topology, after.tables.streams_said) == (
        before.tables.topology,
        before.tables.streams_said,
    )
    assert after.tables.holders == before.tables.holders
    epochs = one.epoch, two.epoch
    settle(one, two)
    assert epochs == (one.epoch, two.epoch)


def test_records_that_compaction_has_taken_do_not_hinder_a_load() -> None:
    troupe = world()
    one, two = Player(troupe, "one", WORD_COUNT), Player(troupe, "two", WORD_COUNT)
    settle(one, two)
    keep = troupe.group().key(Kind.STREAMS_MEMBER, "one")
    for log in troupe.journal.logs.values():
        log[:] = [record for record in log if record[0] != keep]
    troupe.restart()
    settle(two)
    assert one.beat().answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    settle(one, two)
    assert one.tasks() | two.tasks() == ALL
    assert not one.tasks() & two.tasks()


def test_a_write_that_fails_changes_nothing() -> None:
    troupe = world()
    one = Player(troupe, "one", WORD_COUNT).beat()
    troupe.journal.refuses = Unwritten.OVERTAKEN
    two = Player(troupe, "two", WORD_COUNT).beat()
    assert two.answer.error is ErrorCode.NOT_COORDINATOR
    assert [*troupe.group().facts] == ["one"]
    troupe.journal.refuses = None
    settle(one, two)
    assert len(two.tasks()) == 3


def commit(troupe: Troupe, member_id: str, epoch: int) -> ErrorCode:
    answers: list[object] = []
    key = TopicKey("lines", 0)
    request = CommitOffsets(
        group_id=GROUP,
        generation=epoch,
        member_id=member_id,
        is_by_epoch=True,
        offsets={key: CommittedOffset(7)},
    )
    troupe.coordinator.commit(request, answers.append)
    return answers[0][key]  # type: ignore[index]


def test_commits_are_fenced_by_the_members_epoch() -> None:
    troupe = world()
    one = Player(troupe, "one", WORD_COUNT).beat()
    assert commit(troupe, "one", one.epoch) is ErrorCode.NONE
    assert commit(troupe, "one", one.epoch - 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(troupe, "none", one.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(troupe, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    one.leave()
    assert commit(troupe, "", -1) is ErrorCode.NONE


def test_an_empty_classic_group_becomes_a_streams_group_and_keeps_its_positions() -> None:
    troupe = world()
    assert commit(troupe, "", -1) is ErrorCode.NONE
    one = Player(troupe, "one", WORD_COUNT).beat()
    assert one.tasks() == ALL
    troupe.restart()
    assert troupe.group().offsets.values[TopicKey("lines", 0)].offset == 7


def test_a_group_of_another_kind_is_refused_both_ways() -> None:
    troupe = world()
    troupe.join("", group="classic")
    answer = troupe.entered("one", WORD_COUNT, group_id="classic")
    assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND
    one = Player(troupe, "one", WORD_COUNT).beat()
    assert only(troupe.join("")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    one.leave()
    described = troupe.coordinator.consumers.describe(GROUP)
    assert described.error is ErrorCode.GROUP_ID_NOT_FOUND
    listed = troupe.coordinator.reading.list_groups(types=("streams",)).groups
    assert [(line.group_id, line.state) for line in listed] == [(GROUP, "Empty")]
