"""Runs: what a topic has stands in its archive once, whatever dies when."""

from pathlib import Path
from typing import Any

import pytest

from penstock.archive import copying
from penstock.archive.copying import RunOptions
from penstock.archive.entries import Added, Began
from penstock.archive.errors import (
    ArchiveLies,
    ArchiveMismatch,
    ArchiveTaken,
    PlaceUnfit,
    RecordsGone,
)
from penstock.archive.files import ArchiveFiles
from penstock.archive.ledger import Ledger
from penstock.archive.sweeping import sweep
from penstock.archive.verifying import verify
from penstock.client.ending import end_transactions
from penstock.client.produce import ProduceOptions, Producer
from penstock.record.build import Record
from penstock.runtime.io.object_store import open_directory
from penstock.spark.errors import CorruptRecords
from tests.archive.world import DAY_MS, Died, DyingStore, Row, copied, copy_into, ledger_at, queried
from tests.live_node import LiveNode
from tests.lying import UNCHECKED, fill_around_a_lie
from tests.spark.topics import NOON_MS, Topics

SMALL = 1
"""Bytes of a chunk: one that ends with the first batch of 1 MiB."""
WIDE = 200_000
"""Bytes of a value of which five fill a batch."""


def rows_of(topics: Topics, topic: str, partitions: int = 1) -> list[Row]:
    return [
        Row(number, one.offset, one.timestamp_ms, one.key, one.value, one.headers)
        for number in range(partitions)
        for one in topics.read(topic, number)
    ]


def fill_over_days(
    topics: Topics, topic: str, count: int, partition: int = 0, size: int = 20
) -> None:
    """Records whose days alternate, with nulls, empty values and headers among them."""
    start = topics.end(topic, partition)
    topics.send(
        topic,
        [
            Record(
                None if n % 5 == 0 else b"k%d" % n,
                None if n % 7 == 0 else b"" if n % 11 == 0 else (b"value %d" % n).ljust(size),
                (("h", b"%d" % n), ("h", None)) if n % 3 == 0 else (),
                NOON_MS + (n % 3) * DAY_MS + n,
            )
            for n in range(start, start + count)
        ],
        partition=partition,
    )


def test_every_record_is_there_as_it_was(topics: Topics, archive: Path) -> None:
    topic = topics.make(2)
    for partition in (0, 1):
        fill_over_days(topics, topic, 60, partition)
    summary = copied(archive, topics.bootstrap, topic)
    assert summary.records == 120
    assert queried(archive) == rows_of(topics, topic, 2)
    days = {path.name for path in archive.glob("record_date=*")}
    assert days == {f"record_date=2026-01-0{day}" for day in (1, 2, 3)}


def test_a_run_goes_on_where_the_last_one_ended(topics: Topics, archive: Path) -> None:
    topic = topics.make()
    for _ in range(3):
        fill_over_days(topics, topic, 20, size=WIDE)
        assert copied(archive, topics.bootstrap, topic, chunk_bytes=SMALL).records == 20
    assert copied(archive, topics.bootstrap, topic).records == 0
    assert queried(archive) == rows_of(topics, topic)
    with ledger_at(archive) as ledger:
        assert verify(ledger) == []
        assert len(ledger.manifest.parts[0].chunks) > 6


def test_a_run_without_news_writes_nothing_down(topics: Topics, archive: Path) -> None:
    topic = topics.make()
    topics.fill(topic, [b"a"])
    for _ in range(3):
        copied(archive, topics.bootstrap, topic, keep_ms=DAY_MS)
    assert len(list((archive / "_penstock" / "entries").iterdir())) == 2
    copied(archive, topics.bootstrap, topic, keep_ms=2 * DAY_MS)
    assert len(list((archive / "_penstock" / "entries").iterdir())) == 3


def test_a_partition_that_comes_later_is_archived_too(topics: Topics, archive: Path) -> None:
    topic = topics.make()
    fill_over_days(topics, topic, 5)
    copied(archive, topics.bootstrap, topic)
    topics.admin.create_partitions(topic, 2)
    fill_over_days(topics, topic, 5, partition=1)
    copied(archive, topics.bootstrap, topic)
    assert queried(archive) == rows_of(topics, topic, 2)


def test_only_committed_records_are_archived(topics: Topics, archive: Path) -> None:
    topic = topics.make()
    for value, is_commit in ((b"no", False), (b"yes", True), (b"open", None)):
        producer = Producer(topics.cluster, ProduceOptions(transactional_id=f"{topic}-{value!r}"))
        producer.send(topic, Record(None, value, (), NOON_MS), partition=0)
        producer.flush()
        assert producer.transaction is not None
        if is_commit is not None:
            end_transactions(topics.cluster, [producer.transaction], is_commit=is_commit)
            topics.until_decided(topic)
    copied(archive, topics.bootstrap, topic)
    assert [row.value for row in queried(archive)] == [b"yes"]
    assert producer.transaction is not None
    end_transactions(topics.cluster, [producer.transaction], is_commit=True)
    topics.until_decided(topic)
    copied(archive, topics.bootstrap, topic)
    assert [row.value for row in queried(archive)] == [b"yes", b"open"]


def test_a_range_without_any_record_is_complete_as_well(topics: Topics, archive: Path) -> None:
    topic = topics.make()
    producer = Producer(topics.cluster, ProduceOptions(transactional_id=topic))
    producer.send(topic, Record(None, b"no", (), NOON_MS), partition=0)
    producer.flush()
    assert producer.transaction is not None
    end_transactions(topics.cluster, [producer.transaction], is_commit=False)
    topics.until_decided(topic)
    assert copied(archive, topics.bootstrap, topic).ends == {0: topics.end(topic)}
    with ledger_at(archive) as ledger:
        assert verify(ledger) == []
    topics.fill(topic, [b"x"])
    copied(archive, topics.bootstrap, topic)
    assert [row.value for row in queried(archive)] == [b"x"]


@pytest.mark.parametrize("is_done", [False, True])
def test_a_run_that_dies_at_any_change_loses_and_doubles_nothing(
    topics: Topics, tmp_path: Path, is_done: bool
) -> None:
    topic = topics.make(2)
    for partition in (0, 1):
        fill_over_days(topics, topic, 12, partition, size=WIDE)
    expected = rows_of(topics, topic, 2)
    dies_at, has_died = 0, True
    while has_died:
        dies_at += 1
        archive = tmp_path / f"{is_done}-{dies_at}"
        store = DyingStore(open_directory(archive), dies_at, is_done=is_done)
        with ArchiveFiles(store, archive) as files:
            try:
                copy_into(Ledger(files), topics.bootstrap, topic, chunk_bytes=SMALL)
                has_died = False
            except Died:
                shown = queried(archive)
                assert len(shown) == len(set(shown)), "a query in place shows a record twice"
        copied(archive, topics.bootstrap, topic, chunk_bytes=SMALL)
        assert queried(archive) == expected, dies_at
        with ledger_at(archive) as ledger:
            assert verify(ledger) == []
    assert dies_at > 20


def test_a_run_commits_nothing_once_another_one_has_begun(topics: Topics, archive: Path) -> None:
    topic = topics.make()
    fill_over_days(topics, topic, 30)
    with ledger_at(archive) as late:
        late.load()
        began = Began(format=1, run="0" * 12, topic=topic, topic_id="", keep_ms=0)
        late.commit(began)
        copied(archive, topics.bootstrap, topic)
        with pytest.raises(ArchiveTaken, match="run again"):
            late.commit(Added(run="0" * 12, chunks=()))
    assert queried(archive) == rows_of(topics, topic)


def test_files_are_swept_once_nobody_else_can_commit_them(
    topics: Topics, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.make()
    copied(archive, topics.bootstrap, topic)
    fill_over_days(topics, topic, 30)
    store = DyingStore(open_directory(archive), 4, is_done=True)  # it has begun, and put two files
    with ArchiveFiles(store, archive) as files:
        late = Ledger(files)
        with pytest.raises(Died):
            copy_into(late, topics.bootstrap, topic)
        swept: list[int] = []

        def beside(*args: Any) -> int:
            with pytest.raises(ArchiveTaken):
                late.commit(Added(run="0" * 12, chunks=()))
            swept.append(sweep(*args))
            return swept[-1]

        monkeypatch.setattr(copying, "sweep", beside)
        copied(archive, topics.bootstrap, topic)
    assert swept[0] > 0
    assert queried(archive) == rows_of(topics, topic)


def test_what_is_gone_from_the_topic_is_told_and_written_down(
    topics: Topics, archive: Path
) -> None:
    topic = topics.make()
    fill_over_days(topics, topic, 10)
    copied(archive, topics.bootstrap, topic)
    fill_over_days(topics, topic, 20)
    topics.admin.delete_records(topic, {0: 17})
    with pytest.raises(RecordsGone, match=r"offsets 10 to 17 of .* --allow-gap"):
        copied(archive, topics.bootstrap, topic)
    copied(archive, topics.bootstrap, topic, allow_gap=True)
    with ledger_at(archive) as ledger:
        assert ledger.existing().parts[0].gaps == [(10, 17)]
        assert verify(ledger) == []
    assert [row.offset for row in queried(archive)] == [*range(10), *range(17, 30)]


def test_an_archive_begins_where_its_topic_does(topics: Topics, archive: Path) -> None:
    topic = topics.make()
    fill_over_days(topics, topic, 10)
    topics.admin.delete_records(topic, {0: 4})
    copied(archive, topics.bootstrap, topic)
    with ledger_at(archive) as ledger:
        part = ledger.existing().parts[0]
        assert (part.start, part.end, part.gaps) == (4, 10, [])


def test_another_topic_or_the_same_made_anew_is_refused(topics: Topics, archive: Path) -> None:
    topic, other = topics.make(), topics.make()
    topics.fill(topic, [b"a"])
    copied(archive, topics.bootstrap, topic)
    with pytest.raises(ArchiveMismatch, match=topic):
        copied(archive, topics.bootstrap, other)
    topics.admin.delete_topic(topic)
    topics.admin.create_topic(topic, partitions=1)
    topics.fill(topic, [b"another"])
    with pytest.raises(ArchiveMismatch, match="created again"):
        copied(archive, topics.bootstrap, topic)
    assert [row.value for row in queried(archive)] == [b"a"]


def test_the_policy_stays_until_another_one_is_said(topics: Topics, archive: Path) -> None:
    topic = topics.make()
    for said, expected in ((5 * DAY_MS, 5 * DAY_MS), (None, 5 * DAY_MS), (0, 0)):
        copied(archive, topics.bootstrap, topic, keep_ms=said)
        with ledger_at(archive) as ledger:
            assert ledger.existing().keep_ms == expected


def test_a_file_that_no_entry_names_and_the_topic_has_not_is_kept_and_named(
    topics: Topics, archive: Path
) -> None:
    topic = topics.make()
    fill_over_days(topics, topic, 10)
    copied(archive, topics.bootstrap, topic)
    fill_over_days(topics, topic, 10)
    copied(archive, topics.bootstrap, topic)
    for entry in sorted((archive / "_penstock" / "entries").iterdir())[2:]:
        entry.unlink()  # the last run, as if it had never been committed
    topics.admin.delete_records(topic, {0: 20})
    with pytest.raises(ArchiveLies, match=r"00000-0{18}10-.*move it elsewhere"):
        copied(archive, topics.bootstrap, topic, allow_gap=True)
    assert [row.offset for row in queried(archive)] == [*range(20)]


def test_a_file_of_somebody_else_is_named_and_stays(topics: Topics, archive: Path) -> None:
    topic = topics.make()
    topics.fill(topic, [b"a"])
    copied(archive, topics.bootstrap, topic)
    foreign = archive / "record_date=2026-01-01" / "mine.parquet"
    foreign.write_bytes(b"PAR1")
    with pytest.raises(ArchiveLies, match=r"mine\.parquet"):
        copied(archive, topics.bootstrap, topic)
    assert foreign.exists()


def test_what_a_put_left_half_written_is_no_part_of_the_table(
    topics: Topics, archive: Path
) -> None:
    topic = topics.make()
    topics.fill(topic, [b"a"])
    copied(archive, topics.bootstrap, topic)
    half = archive / "record_date=2026-01-01" / "x.parquet#1"
    half.write_bytes(b"PA")
    topics.fill(topic, [b"b"])
    copied(archive, topics.bootstrap, topic)
    assert not half.exists()


def test_a_store_that_takes_a_second_object_of_a_name_is_refused(
    topics: Topics, archive: Path
) -> None:
    class Careless(DyingStore):
        async def put(self, name, chunks, condition=None):
            return await self._store.put(name, chunks)

    topic = topics.make()
    with ArchiveFiles(Careless(open_directory(archive), 0, is_done=False)) as files:
        with pytest.raises(PlaceUnfit, match="another place"):
            copy_into(Ledger(files), topics.bootstrap, topic)
        assert Ledger(files).load().archive_id == ""


def test_a_batch_that_can_not_be_read_is_named_or_left_out(
    node: LiveNode, topics: Topics, archive: Path
) -> None:
    topic = topics.make(configs=UNCHECKED)
    fill_around_a_lie(node.port, topic)
    with pytest.raises(CorruptRecords, match="offsets 1 to 2"):
        copied(archive, topics.bootstrap, topic)
    copied(archive, topics.bootstrap, topic, skip_corrupt=True)
    assert [row.offset for row in queried(archive)] == [0, 3]


def test_progress_ends_at_all_of_it(topics: Topics, archive: Path) -> None:
    topic = topics.make(2)
    for partition in (0, 1):
        fill_over_days(topics, topic, 30, partition)
    told: list[tuple[int, int]] = []
    from penstock.archive.copying import copy_topic
    from penstock.archive.source import BrokerSource
    from penstock.spark.broker_access import BrokerAccess

    with (
        ledger_at(archive) as ledger,
        BrokerAccess(topics.bootstrap, 120, is_committed_only=True) as access,
    ):
        source = BrokerSource(access, topic)
        copy_topic(ledger, source, RunOptions(topic=topic), lambda *seen: told.append(seen))
    assert told == sorted(told)
    assert told[-1] == (60, 60)
