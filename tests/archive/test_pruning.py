"""Pruning: what is too old goes from the beginning, and nothing else."""

from pathlib import Path

import pytest

from penstock.archive.entries import Pruned, What
from penstock.archive.errors import ArchiveTaken, NoPolicy
from penstock.archive.files import ArchiveFiles
from penstock.archive.ledger import Ledger
from penstock.archive.pruning import prune
from penstock.archive.verifying import reports, verify
from penstock.record.build import Record
from penstock.runtime.io.object_store import open_directory
from tests.archive.world import DAY_MS, Died, DyingStore, copied, ledger_at, queried
from tests.spark.topics import NOON_MS, Topics


def archived(topics: Topics, archive: Path, *days: int) -> str:
    """An archive with a chunk for each of the days; keeps two days."""
    topic = topics.make()
    for day in days:
        records = [Record(None, b"%d" % day, (), NOON_MS + day * DAY_MS + n) for n in range(2)]
        topics.send(topic, records)
        copied(archive, topics.bootstrap, topic, keep_ms=2 * DAY_MS)
    return topic


def values(archive: Path) -> list[int]:
    return [int(row.value or b"") for row in queried(archive)]


def test_what_is_older_than_the_policy_goes_and_a_run_goes_on(
    topics: Topics, archive: Path
) -> None:
    topic = archived(topics, archive, 0, 1, 2, 3)
    with ledger_at(archive) as ledger:
        found = prune(ledger, keep_ms=None, now_ms=NOON_MS + 3 * DAY_MS + 2)
    assert [(one.partition, one.start, one.chunks, one.records) for one in found] == [(0, 4, 2, 4)]
    assert values(archive) == [2, 2, 3, 3]
    topics.send(topic, [Record(None, b"4", (), NOON_MS)])
    copied(archive, topics.bootstrap, topic)
    assert values(archive) == [2, 2, 3, 3, 4]
    with ledger_at(archive) as ledger:
        assert verify(ledger) == []
        (report,) = reports(ledger)
        assert (report.start, report.end, report.records, report.gaps) == (4, 9, 5, [])


def test_a_record_as_old_as_the_policy_says_stays(topics: Topics, archive: Path) -> None:
    archived(topics, archive, 0)
    with ledger_at(archive) as ledger:
        assert prune(ledger, keep_ms=None, now_ms=NOON_MS + 1 + 2 * DAY_MS) == []
        assert len(prune(ledger, keep_ms=None, now_ms=NOON_MS + 2 + 2 * DAY_MS)) == 1
    assert values(archive) == []


def test_a_younger_chunk_holds_what_is_behind_it(topics: Topics, archive: Path) -> None:
    archived(topics, archive, 0, 9, 1)
    with ledger_at(archive) as ledger:
        prune(ledger, keep_ms=None, now_ms=NOON_MS + 9 * DAY_MS)
    assert values(archive) == [9, 9, 1, 1]


def test_a_dry_run_takes_nothing(topics: Topics, archive: Path) -> None:
    archived(topics, archive, 0, 1)
    with ledger_at(archive) as ledger:
        assert prune(ledger, keep_ms=DAY_MS, now_ms=NOON_MS + 9 * DAY_MS, is_dry=True)
    assert values(archive) == [0, 0, 1, 1]
    with ledger_at(archive) as ledger:
        assert ledger.existing().parts[0].start == 0


def test_an_archive_without_a_policy_is_not_pruned_by_itself(topics: Topics, archive: Path) -> None:
    topic = topics.make()
    topics.fill(topic, [b"1"])
    copied(archive, topics.bootstrap, topic)
    with ledger_at(archive) as ledger:
        with pytest.raises(NoPolicy, match="--keep"):
            prune(ledger, keep_ms=None, now_ms=NOON_MS + 9_999 * DAY_MS)
        assert prune(ledger, keep_ms=DAY_MS, now_ms=NOON_MS + 9_999 * DAY_MS)


def test_an_archive_that_is_pruned_empty_goes_on_where_it_was(
    topics: Topics, archive: Path
) -> None:
    topic = archived(topics, archive, 0)
    with ledger_at(archive) as ledger:
        prune(ledger, keep_ms=1, now_ms=NOON_MS + 9 * DAY_MS)
    assert copied(archive, topics.bootstrap, topic).records == 0
    topics.send(topic, [Record(None, b"7", (), NOON_MS)])
    copied(archive, topics.bootstrap, topic)
    assert values(archive) == [7]


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("dies_at", [1, 2])
def test_a_prune_that_dies_leaves_no_file_behind_the_next_one(
    topics: Topics, archive: Path, is_done: bool, dies_at: int
) -> None:
    topic = archived(topics, archive, 0, 1, 5)
    now_ms = NOON_MS + 5 * DAY_MS
    store = DyingStore(open_directory(archive), dies_at, is_done=is_done)
    with ArchiveFiles(store, archive) as files, pytest.raises(Died):
        prune(Ledger(files), keep_ms=None, now_ms=now_ms)
    if is_done:
        copied(archive, topics.bootstrap, topic)  # sweeps as well
    with ledger_at(archive) as ledger:
        prune(ledger, keep_ms=None, now_ms=now_ms)
        assert verify(ledger) == []
    assert values(archive) == [5, 5]


def test_a_prune_that_began_before_a_run_takes_nothing(
    topics: Topics, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = archived(topics, archive, 0, 1)
    commit = Ledger.commit

    def late(self: Ledger, what: What) -> None:
        if isinstance(what, Pruned):
            topics.send(topic, [Record(None, b"2", (), NOON_MS)])
            copied(archive, topics.bootstrap, topic)
        commit(self, what)

    monkeypatch.setattr(Ledger, "commit", late)
    with ledger_at(archive) as ledger, pytest.raises(ArchiveTaken):
        prune(ledger, keep_ms=1, now_ms=NOON_MS + 9 * DAY_MS)
    assert values(archive) == [0, 0, 1, 1, 2]
