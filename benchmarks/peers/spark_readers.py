"""Who is compared in the rows of Spark: ways by which Spark reads and writes the same records."""

from benchmarks.peers.model import Spec

NODE = Spec(product="penstock")
TIER = Spec(product="penstock tier")
CONNECTOR = Spec(product="spark connector")
PARQUET = Spec(product="spark parquet")
