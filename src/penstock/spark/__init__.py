"""Spark on Penstock: a PySpark source and sink for topics, and `land`, topics into tables.

    import penstock.spark
    penstock.spark.register(spark)
    spark.read.format("penstock").option("bootstrap", "host:9092").option("subscribe", "t").load()

The package is a client like any other: it speaks the Kafka protocol through `penstock.client`. All
its state is in Spark's checkpoints and in the tables.
"""

from typing import TYPE_CHECKING

from penstock.spark.lag import lag_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

__all__ = ["lag_of", "register"]


def register(spark: "SparkSession | ConnectSession") -> None:
    """Register `format("penstock")` with the session, also with one of Spark Connect."""
    from penstock.spark.source import PenstockDataSource  # noqa: PLC0415  needs PySpark

    spark.dataSource.register(PenstockDataSource)
