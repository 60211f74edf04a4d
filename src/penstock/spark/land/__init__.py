"""Landing: a topic into a table, exactly once.

`main(LandOptions(...))` runs one job and returns an exit code. PySpark is imported only inside it,
so that the command line can show help and reject bad options without it.
"""

from penstock.spark.land.options import LandOptions

__all__ = ["LandOptions", "main"]


def main(options: LandOptions) -> int:
    """Run one landing job. Returns 0, 1 (the job failed) or 2 (wrong options or table)."""
    from penstock.spark.land.job import run  # noqa: PLC0415  Spark is loaded only when needed

    return run(options)
