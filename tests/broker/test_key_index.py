"""The index of messages of each member: through restarts, failovers, cuts, damage and retention."""

import asyncio

import pytest

from penstock.base.ids import Offset
from penstock.broker.finding import key_index
from penstock.broker.finding.indexing import Indexing
from penstock.broker.finding.search import wait_until_indexed
from penstock.controller.commands.command import DeleteTopics, TopicReference
from penstock.remoting.finding.naming import NAMING
from penstock.replication.errors import NotMaster
from tests.broker.indexed_cluster import BYTES_MAX, Indexed, all_found, fill, names


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are tables after a few hundred bytes of log."""
    monkeypatch.setattr(key_index, "SPAN_BYTES", 600)
    monkeypatch.setattr(key_index, "RUN_BYTES", 200)


def test_what_is_confirmed_is_found_on_master_and_slaves() -> None:
    indexed = Indexed()
    indexed.put("a", "b")
    indexed.put("c", partition=1)
    indexed.settle()
    assert indexed.found("a") == [], "not confirmed yet: it might be cut off"
    indexed.cluster.replicate()
    indexed.settle()
    for node in (0, 1):
        assert indexed.found("a", node) == [(0, 0)]
        assert indexed.found("b", node) == [(0, 1)]
        assert indexed.found("c", node) == [(1, 0)]
        assert indexed.index(node).behind_bytes == 0


@pytest.mark.usefixtures("small")
def test_tables_are_made_and_searched_and_read_again_by_a_restart() -> None:
    indexed = Indexed()
    fill(indexed, names(20))
    before = list(indexed.index().tables)
    assert len(before) >= 3
    assert all_found(indexed, 20)
    indexed.restart()
    indexed.cluster.lead(0)
    indexed.cluster.replicate()
    indexed.settle()
    assert indexed.index().tables[: len(before)] == before
    assert indexed.index().entries < 20, "what the tables have is not read again"
    assert all_found(indexed, 20)
    assert indexed.index().behind_bytes == 0


@pytest.mark.usefixtures("small")
def test_tables_are_of_ranges_that_follow_each_other() -> None:
    indexed = Indexed()
    fill(indexed, names(30))
    index = indexed.index()
    ends = [0, *(table.end for table in index.tables)]
    assert [table.first for table in index.tables] == ends[:-1]
    assert index.newest is not None
    assert index.newest.first == ends[-1]


@pytest.mark.usefixtures("small")
def test_a_new_master_finds_what_the_old_one_did() -> None:
    indexed = Indexed()
    fill(indexed, names(12))
    indexed.cluster.lead(1)
    indexed.put("later", node=1)
    indexed.cluster.replicate()
    indexed.settle()
    assert all_found(indexed, 12, node=1)
    assert indexed.found("later", 1) == [(0, 12)]


@pytest.mark.usefixtures("small")
def test_a_member_that_is_cut_indexes_what_the_new_master_wrote_there() -> None:
    """The old master alone had confirmed: an unclean election takes these bytes away."""
    indexed = Indexed()
    fill(indexed, names(4))
    indexed.cluster.lead(0, members=(0,))
    fill_alone = [f"lost-{number}" for number in range(12)]
    for key in fill_alone:
        indexed.put(key, size=60)
    indexed.settle()
    assert indexed.found("lost-3") == [(0, 7)], "it is confirmed by the one in step"
    indexed.cluster.lead(1)
    indexed.cluster.align()
    for number in range(12):
        indexed.put(f"won-{number}", node=1, size=60)
    indexed.cluster.replicate()
    indexed.settle()
    for node in (0, 1):
        assert indexed.found("lost-3", node) == []
        assert [indexed.found(f"won-{one}", node) for one in range(12)] == [
            [(0, 4 + one)] for one in range(12)
        ]
        assert all_found(indexed, 4, node)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_table_that_is_damaged_is_made_anew(at: int) -> None:
    indexed = Indexed()
    fill(indexed, names(20))
    table = indexed.index().tables[at]
    disk = indexed.cluster.nodes[0].disk
    path = f"set-0/keys/{table.name}"
    disk.open(path).write(table.size - 30, [b"\xff" * 20])
    for key in names(20):
        indexed.found(key)
    assert indexed.index().damaged == 1
    assert table not in indexed.index().tables
    assert indexed.index().behind_bytes == table.end - table.first
    indexed.settle()
    assert indexed.index().behind_bytes == 0
    assert all_found(indexed, 20)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("at", [0, 1])
def test_a_table_that_is_missing_at_a_start_is_made_anew(at: int) -> None:
    indexed = Indexed()
    fill(indexed, names(20))
    indexed.cluster.nodes[0].disk.remove(f"set-0/keys/{indexed.index().tables[at].name}")
    indexed.restart()
    indexed.cluster.lead(0)
    indexed.cluster.replicate()
    indexed.settle()
    assert all_found(indexed, 20)


@pytest.mark.usefixtures("small")
def test_a_log_that_was_there_before_is_indexed_behind_what_comes() -> None:
    indexed = Indexed()
    indexing = indexed.indexings.pop(0)
    indexed.cluster.nodes[0].broker.on_expire.remove(indexing._expire)
    fill(indexed, names(20))
    indexed.indexings[0] = Indexing(indexed.cluster.nodes[0].broker, NAMING, BYTES_MAX)
    index = indexed.index()
    log = indexed.cluster.nodes[0].member.log
    assert index.behind_bytes == log.end_position - log.start_position
    indexed.settle()
    assert index.behind_bytes == 0
    assert all_found(indexed, 20)


@pytest.mark.usefixtures("small")
def test_the_oldest_tables_go_where_they_exceed_their_bound_and_stay_away() -> None:
    indexed = Indexed(bytes_max=1_000)
    fill(indexed, names(40))
    index = indexed.index()
    assert index.bytes_now <= 1_000
    assert indexed.found("key-0") == []
    assert indexed.found("key-39") == [(0, 39)]
    kept = list(index.tables)
    listed = indexed.cluster.nodes[0].disk.list("set-0/keys")
    assert {one for one in listed if one.endswith(".keys")} == {table.name for table in kept}
    indexed.restart()
    indexed.cluster.lead(0)
    indexed.cluster.replicate()
    indexed.settle()
    assert indexed.index().tables[: len(kept)] == kept
    assert indexed.index().behind_bytes == 0, "what was let go is not lacking"


@pytest.mark.usefixtures("small")
def test_a_table_goes_once_all_its_messages_are_gone() -> None:
    indexed = Indexed()
    fill(indexed, names(20))
    member = indexed.cluster.nodes[0].member
    index = indexed.index()
    first, second = index.tables[0], index.tables[1]
    topic = indexed.cluster.nodes[0].broker.partitions.by_name[b"events"]
    hosted = topic.find(0)
    assert hosted is not None
    lasts = [
        max(offset for _, offset in [place for key in names(20) for place in indexed.found(key)])
    ]
    assert lasts == [19]
    in_first = max(
        number
        for number, key in enumerate(names(20))
        if index.tables[0].first_ms <= 1_000 + number <= index.tables[0].last_ms
    )
    member.log.delete_records(hosted.log, Offset(in_first))
    indexed.cluster.world.advance(key_index.RETENTION_MS)
    indexed.settle()
    assert first in index.tables, "its last message is there"
    member.log.delete_records(hosted.log, Offset(in_first + 1))
    indexed.cluster.world.advance(key_index.RETENTION_MS)
    indexed.settle()
    assert first not in index.tables
    assert second in index.tables
    assert index.behind_bytes == 0


@pytest.mark.usefixtures("small")
def test_tables_of_a_deleted_topic_go() -> None:
    indexed = Indexed()
    fill(indexed, names(20))
    count = len(indexed.index().tables)
    indexed.cluster.metadata.submit(DeleteTopics(topics=(TopicReference(name="events"),)))
    for _ in range(count + 1):
        indexed.cluster.world.advance(key_index.RETENTION_MS)
        indexed.settle()
    assert not indexed.index().tables


def test_a_disk_that_is_full_stops_the_index_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_index, "SPAN_BYTES", 600)
    indexed = Indexed(1)
    indexed.settle()
    disk = indexed.cluster.nodes[0].disk
    replace = disk.replace
    refusals = []

    def refuse(path: str, data: object) -> None:
        if "/keys/" in path:
            refusals.append(path)
            raise OSError(28, "no space")
        replace(path, data)  # type: ignore[arg-type]

    monkeypatch.setattr(disk, "replace", refuse)
    for key in names(20):
        indexed.put(key, size=60)
        indexed.settle()
    index = indexed.index()
    assert refusals
    assert index.newest is not None
    assert index.newest.end - index.newest.first < 1_400, "no more is read than a piece has"
    assert index.behind_bytes > 0
    monkeypatch.setattr(disk, "replace", replace)
    indexed.cluster.world.advance(key_index.PAUSE_MS)
    indexed.settle()
    assert index.behind_bytes == 0
    assert all_found(indexed, 20)


def test_who_waits_is_told_when_the_index_is_there_or_the_time_is_over() -> None:
    indexed = Indexed(1)
    indexed.put("a")
    index, indexing = indexed.index(), indexed.indexings[0]
    clock = indexed.cluster.world

    async def wait(work: bool) -> int:
        until_ms = clock.now_ms + 100
        task = asyncio.ensure_future(wait_until_indexed(indexing, index, until_ms))
        while not task.done():
            await asyncio.sleep(0)
            if work:
                clock.advance(1)
            else:
                clock.now_ms += 50
                index.expire(clock.now_ms)
        return task.result()

    assert asyncio.run(wait(False)) == index.behind_bytes > 0
    assert asyncio.run(wait(True)) == 0
    assert indexed.found("a") == [(0, 0)]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("what", ["gather", "seal"])
def test_what_a_slow_thread_made_of_a_log_that_was_cut_meanwhile_does_not_count(what: str) -> None:
    indexed = Indexed()
    fill(indexed, names(4))
    indexed.cluster.lead(0, members=(0,))
    world, index = indexed.cluster.world, indexed.index()
    for number in range(12):
        indexed.put(f"lost-{number}", size=60)
    while not _is_under_way(indexed, what):
        if world.work:
            world.work_one()
        else:
            assert index.begin(world.turn)
    slow, world.work = world.work, []
    indexed.cluster.lead(1)
    indexed.cluster.align()
    for number in range(12):
        indexed.put(f"won-{number}", node=1, size=60)
    indexed.cluster.replicate()
    world.work += slow
    indexed.settle()
    assert index.behind_bytes == 0
    assert [indexed.found(f"won-{one}") for one in range(12)] == [
        [(0, 4 + one)] for one in range(12)
    ]


def _is_under_way(indexed: Indexed, what: str) -> bool:
    """Whether a thread of node 0 is about to do the one or the other, of what is cut off later."""
    newest = indexed.index().newest
    assert newest is not None
    is_full = newest.end - newest.first >= key_index.SPAN_BYTES
    is_lost = newest.end > indexed.cluster.nodes[1].member.log.end_position
    return bool(indexed.cluster.world.work) and is_lost and is_full is (what == "seal")


def test_only_a_master_that_knows_all_that_is_confirmed_says_that_there_is_none() -> None:
    indexed = Indexed()
    indexed.put("a")
    indexed.cluster.replicate()
    old, new = indexed.index(0), indexed.index(1)
    old.check_led()
    with pytest.raises(NotMaster):
        new.check_led()
    old.member.may_read = lambda: False
    with pytest.raises(NotMaster):
        old.check_led()  # cut off: another may be master by now
    indexed.put("b")
    indexed.cluster._copy(old.member.log, new.member.log)
    indexed.cluster.lead(1)
    with pytest.raises(NotMaster):
        new.check_led()  # the old one may have confirmed what it does not know to be
    indexed.cluster.replicate()
    new.check_led()


def test_internal_topics_have_no_names() -> None:
    indexed = Indexed(1)
    indexed.put("a")
    member = indexed.cluster.nodes[0].member
    topic = indexed.cluster.nodes[0].broker.partitions.by_name[b"events"]
    hosted = topic.find(0)
    assert hosted is not None
    topic.internal = True
    indexed.put("b")
    indexed.settle()
    assert member.confirm_position == member.log.end_position
    assert indexed.found("b") == []
