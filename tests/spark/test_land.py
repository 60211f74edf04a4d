"""Landing: rows, dead letters, and a job that dies anywhere, on a session that is already there."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow.parquet as pq
import pytest

from penstock.record.build import Record
from penstock.spark.broker_access import BrokerAccess
from penstock.spark.errors import (
    DataLost,
    OptionError,
    SparkRoomError,
    SparkUnavailable,
    TableMismatch,
)
from penstock.spark.land import LandOptions, main, plan
from penstock.spark.land import job as land_job
from penstock.spark.land.job import Landing, StopSignal
from penstock.spark.land.options import TableFormat
from penstock.spark.land.progress import Progress, Summary
from penstock.spark.land.tables import DataFile, FileLayout, Table
from tests.lying import NOT_GZIP, UNCHECKED, fill_around_a_lie
from tests.spark.tables import held_open, read_table
from tests.spark.topics import NOON_MS, Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
FORMATS = ("parquet", "delta", "iceberg")


class Job:
    """One run of a landing after another into the same table."""

    def __init__(self, spark: "SparkSession", topics: Topics, table: Path) -> None:
        self._spark, self._bootstrap, self.table = spark, topics.bootstrap, table

    def options(self, topic: str, **more: Any) -> LandOptions:
        return LandOptions(topic=topic, to=self.table, bootstrap=self._bootstrap, **more)

    def landing(self, options: LandOptions, access: BrokerAccess) -> Landing:
        return Landing(options, self._spark, access, log=self.table / "log")

    def run(self, topic: str, *, die: "Death | None" = None, **more: Any) -> Summary:
        options = self.options(topic, **more)
        summary = Summary(topic=topic, table=str(self.table), format=options.format)
        with (
            BrokerAccess(options.bootstrap, 120, is_committed_only=True) as access,
            closing(self.landing(options, access)) as landing,
        ):
            if die is not None:
                landing._table = die.main(landing._table)
                landing._dead = die.dead(landing._dead)
            landing.run(summary, Progress(summary, show=False), StopSignal())
        return summary

    def rows(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = read_table(kind, self.table).to_pylist()
        return found

    def dead(self, kind: str) -> list[dict[str, Any]]:
        path = self.table.with_name(self.table.name + "_dead_letter")
        found: list[dict[str, Any]] = read_table(kind, path).to_pylist()
        return found


@pytest.fixture
def job(spark: "SparkSession", topics: Topics, tmp_path: Path) -> Job:
    return Job(spark, topics, tmp_path / "table")


def _json(start: int, end: int, *, bad_every: int = 0) -> list[bytes]:
    return [
        b"broken %d" % n if bad_every and n % bad_every == 0 else b'{"id": %d}' % n
        for n in range(start, end)
    ]


@pytest.mark.parametrize("kind", FORMATS)
def test_raw_records_land_as_they_are(job: Job, topics: Topics, kind: str) -> None:
    topic = topics.make(2)
    topics.send(
        topic, [Record(b"k", b"v", (("h", None),), NOON_MS), Record(None, None, (), NOON_MS)]
    )
    topics.fill(topic, [b"other"], partition=1)
    summary = job.run(topic, format=kind)
    assert (summary.rows, summary.dead_letters, summary.lag) == (3, 0, 0)
    first, second, third = sorted(job.rows(kind), key=lambda row: (row["partition"], row["offset"]))
    assert (first["key"], first["value"], first["topic"], first["offset"]) == (b"k", b"v", topic, 0)
    assert first["headers"] == [{"key": "h", "value": None}]
    assert (second["key"], second["value"]) == (None, None)
    assert (third["partition"], third["value"]) == (1, b"other")


@pytest.mark.parametrize("kind", FORMATS)
def test_runs_follow_one_another_and_bad_records_go_to_the_dead_letters(
    job: Job, topics: Topics, kind: str
) -> None:
    topic = topics.make()
    schema = "id long, note string"
    topics.fill(topic, _json(0, 50, bad_every=10))
    assert job.run(topic, format=kind, schema=schema).dead_letters == 5
    assert job.run(topic, format=kind, schema=schema).batches == 0
    topics.fill(topic, _json(50, 70, bad_every=10))
    assert job.run(topic, format=kind, schema=schema).rows == 18
    assert sorted(row["id"] for row in job.rows(kind)) == [n for n in range(70) if n % 10]
    dead = {row["_offset"]: row for row in job.dead(kind)}
    assert sorted(dead) == [0, 10, 20, 30, 40, 50, 60]
    assert (dead[10]["value"], dead[10]["key"]) == (b"broken 10", b"k10")
    assert dead[10]["reason"]


def test_many_batches_land_what_one_would(job: Job, topics: Topics) -> None:
    topic = topics.make(3)
    for partition in range(3):
        topics.fill(topic, _json(0, 40), partition=partition)
    summary = job.run(topic, format="delta", schema="id long", max_records_per_batch=25)
    assert summary.batches >= 5
    places = sorted((row["_partition"], row["_offset"]) for row in job.rows("delta"))
    assert places == [(partition, n) for partition in range(3) for n in range(40)]


def test_cores_that_come_after_the_start_get_work(
    job: Job, topics: Topics, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster's executors register after the job has begun; until then Spark counts two cores."""
    monkeypatch.setattr(plan, "RANGE_RECORDS_MIN", 1)
    monkeypatch.setattr(land_job, "SLICE_RECORDS_MIN", 1)
    cores = itertools.chain([1, 1], itertools.repeat(4))
    monkeypatch.setattr(
        type(spark.sparkContext), "defaultParallelism", property(lambda _: next(cores))
    )
    topic = topics.make()
    topics.fill(topic, [b"v"] * 8)
    summary = job.run(topic, partition_by="none", max_records_per_batch=4)
    assert (summary.rows, summary.batches) == (8, 2)
    files = [len(pq.read_table(file)) for file in job.table.glob("*.parquet")]
    assert sorted(files) == [1, 1, 1, 1, 4]


def test_a_stream_ends_when_it_has_caught_up(job: Job, topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, [b"v"] * 5)
    summary = job.run(topic, stream=True, until_caught_up=True, trigger_seconds=0)
    assert summary.rows == 5


def test_starting_at_the_end_lands_what_comes_later(job: Job, topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, [b"old"] * 5)
    assert job.run(topic, starting="latest").rows == 0


def test_schemas_can_be_inferred_and_are_kept(job: Job, topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, [b'{"a": 1, "b": "x"}'])
    job.run(topic, schema="infer", format="delta")
    topics.fill(topic, [b'{"a": "no number", "b": "y"}', b'{"a": 2, "c": 1}'])
    summary = job.run(topic, schema="infer", format="delta")
    assert (summary.rows, summary.dead_letters) == (1, 1)
    assert sorted((row["a"], row["b"]) for row in job.rows("delta")) == [(1, "x"), (2, None)]


def test_text_lands_as_strings(job: Job, topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, ["é".encode(), b"\xff"])
    assert job.run(topic, schema="text").dead_letters == 1
    assert [row["value"] for row in job.rows("parquet")] == ["é"]


class Killed(Exception):
    """Stands for the end of the process: nothing of the job runs after it."""


class Death:
    """Dies at one point of the first commit: before or after, of the main or the dead table."""

    def __init__(self, table: str, when: str) -> None:
        self._table, self._when = table, when

    def main(self, table: Table) -> Table:
        return _Dies(table, self._when) if self._table == "main" else table

    def dead(self, table: Table | None) -> Table | None:
        return _Dies(table, self._when) if table and self._table == "dead" else table


class _Dies:
    def __init__(self, table: Table, when: str) -> None:
        self._table, self._when = table, when

    def ends(self, partitions: Sequence[int] = ()) -> dict[int, int]:
        return self._table.ends(partitions)

    def layout(self, attempt: str) -> FileLayout:
        return self._table.layout(attempt)

    def facts(self) -> dict[str, str]:
        return self._table.facts()

    def close(self) -> None:
        self._table.close()

    def commit(self, files: Sequence[DataFile], ends: Mapping[int, int]) -> None:
        if self._when == "after":
            self._table.commit(files, ends)
        raise Killed


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("table", ["main", "dead"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_job_that_dies_around_a_commit_misses_and_doubles_nothing(
    job: Job, topics: Topics, kind: str, table: str, when: str
) -> None:
    topic = topics.make()
    topics.fill(topic, _json(0, 40, bad_every=8))
    how: dict[str, Any] = {"format": kind, "schema": "id long"}
    with pytest.raises(Killed):
        job.run(topic, die=Death(table, when), **how)
    topics.fill(topic, _json(40, 60, bad_every=8))  # the next plan reaches further than the first
    job.run(topic, **how)
    assert sorted(row["id"] for row in job.rows(kind)) == [n for n in range(60) if n % 8]
    assert sorted(row["_offset"] for row in job.dead(kind)) == list(range(0, 60, 8))


class _Rival(_Dies):
    """Lets another job land everything just before the first commit."""

    def __init__(self, table: Table, land: Callable[[], Any]) -> None:
        super().__init__(table, "after")
        self._land = land

    def commit(self, files: Sequence[DataFile], ends: Mapping[int, int]) -> None:
        self._land()
        self._table.commit(files, ends)


@pytest.mark.parametrize("kind", FORMATS)
def test_of_two_jobs_at_once_the_slower_one_plans_again(
    job: Job, topics: Topics, kind: TableFormat
) -> None:
    topic = topics.make()
    topics.fill(topic, _json(0, 30))
    options = job.options(topic, format=kind, schema="id long")
    summary = Summary(topic=topic, table=str(job.table), format=kind)
    with (
        BrokerAccess(topics.bootstrap, 120) as access,
        closing(job.landing(options, access)) as landing,
    ):
        rival = _Rival(landing._table, lambda: job.run(topic, format=kind, schema="id long"))
        landing._table = rival
        landing.run(summary, Progress(summary, show=False), StopSignal())
    assert held_open(job.table) == []
    assert summary.rows == 0
    assert sorted(row["id"] for row in job.rows(kind)) == list(range(30))


def test_records_that_are_gone_stop_the_job_unless_allowed(job: Job, topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, _json(0, 10))
    job.run(topic, schema="id long")
    topics.fill(topic, _json(10, 20))
    topics.admin.delete_records(topic, {0: 15})
    with pytest.raises(DataLost, match="from offset 10 are gone"):
        job.run(topic, schema="id long")
    job.run(topic, schema="id long", fail_on_data_loss=False)
    assert sorted(row["id"] for row in job.rows("parquet")) == [*range(10), *range(15, 20)]


def test_a_topic_made_anew_is_not_landed_in_the_old_ones_table(job: Job, topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, [b"v"] * 5)
    job.run(topic)
    topics.admin.delete_topic(topic)
    topics.admin.create_topic(topic, partitions=1)
    topics.fill(topic, [b"v"] * 9)
    with pytest.raises(TableMismatch, match="another topic"):
        job.run(topic, fail_on_data_loss=False)


def test_a_mistake_is_one_sentence(job: Job, topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, [b"v"])
    with pytest.raises(OptionError, match="write it like"):
        job.run(topic, schema="id lng")
    with pytest.raises(OptionError, match="rename the field"):
        job.run(topic, schema="_offset long")
    with pytest.raises(OptionError, match="no JSON objects"):
        job.run(topic, schema="infer")
    job.run(topic)
    with pytest.raises(TableMismatch, match="other columns"):
        job.run(topic, schema="text")
    with pytest.raises(OptionError, match="--format"):
        job.options(topic, format="csv")


def test_a_wrong_topic_is_told_before_anything_is_made(topics: Topics, tmp_path: Path) -> None:
    table = tmp_path / "table"
    assert main(LandOptions(topic="absent", to=table, bootstrap=topics.bootstrap)) == 1
    assert not table.exists()


def test_who_waits_for_spark_is_told_so(
    topics: Topics,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def none(*_: object) -> NoReturn:
        raise SparkUnavailable("there is none")

    monkeypatch.setattr(land_job, "spark_session", none)
    options = LandOptions(topic=topics.make(), to=tmp_path / "table", bootstrap=topics.bootstrap)
    assert main(options) == 2
    told = "penstock land: starting Spark (local[*])\npenstock land: there is none\n"
    assert capsys.readouterr().err == told
    main(replace(options, progress=False))
    assert capsys.readouterr().err == "penstock land: there is none\n"


def test_an_error_in_a_task_is_told_without_its_stack(job: Job, topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, [b"v"] * 5)
    blocked = job.table / "_penstock" / "staging"
    options: dict[str, Any] = {"format": "parquet"}
    job.run(topic, **options)
    topics.fill(topic, [b"v"] * 5)
    with BrokerAccess(topics.bootstrap, 120) as access:
        landing = job.landing(job.options(topic), access)
        blocked.rmdir()
        blocked.write_text("a file where a directory should be")
        summary = Summary(topic=topic, table=str(job.table), format="parquet")
        with pytest.raises(SparkRoomError) as caught:
            landing.run(summary, Progress(summary, show=False), StopSignal())
    assert "\n" not in str(caught.value)
    assert "staging" in str(caught.value)
    assert (
        json.loads((job.table / "_penstock" / "table.json").read_text())["penstock.topic"] == topic
    )


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("schema", ["raw", "text"])
def test_what_can_not_be_read_is_named_or_becomes_a_dead_letter(
    job: Job, topics: Topics, kind: str, schema: str
) -> None:
    topic = topics.make(configs=UNCHECKED)
    fill_around_a_lie(topics.port, topic)
    with pytest.raises(SparkRoomError, match=f"{topic}-0: offsets 1 to 2 can not be read: .*gzip"):
        job.run(topic, format=kind, schema=schema)
    summary = job.run(topic, format=kind, schema=schema, skip_corrupt=True)
    assert (summary.rows, summary.dead_letters) == (2, 1)
    assert sorted(row["value"] for row in job.rows(kind)) == sorted(
        [b"before", b"behind"] if schema == "raw" else ["before", "behind"]
    )
    (letter,) = job.dead(kind)
    assert (letter["_partition"], letter["_offset"]) == (0, 1)
    assert letter["value"][61:] == NOT_GZIP[61:]
    assert letter["reason"].startswith("offsets 1 to 2: ")
