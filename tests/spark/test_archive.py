"""An archive is a table that Spark reads by its directory, with nothing of ours."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.record.build import Record
from tests.archive.world import DAY_MS, copied
from tests.spark.topics import NOON_MS, Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_spark_reads_an_archive_by_its_directory(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(2)
    for partition in (0, 1):
        topics.send(
            topic,
            [
                Record(b"k%d" % n, None if n == 3 else b"v%d" % n, (("h", b"%d" % n),), when(n))
                for n in range(10)
            ],
            partition=partition,
        )
    copied(tmp_path / "archive", topics.bootstrap, topic)
    table = spark.read.parquet(str(tmp_path / "archive"))
    assert table.count() == 20
    one_day = table.where("record_date = '2026-01-02'").orderBy("partition", "offset")
    assert [(row.partition, row.offset) for row in one_day.collect()] == [
        (partition, n) for partition in (0, 1) for n in range(1, 10, 2)
    ]
    (row,) = table.where("partition = 1 AND offset = 2").collect()
    assert (bytes(row.key), bytes(row.value), row.topic) == (b"k2", b"v2", topic)
    assert [(one.key, bytes(one.value)) for one in row.headers] == [("h", b"2")]
    assert row.timestamp.timestamp() * 1000 == when(2)
    assert table.where("value IS NULL").count() == 2


def when(n: int) -> int:
    return NOON_MS + n % 2 * DAY_MS
