"""`python -m benchmarks [NAME ...] [--quick]`: ask all questions, or those named."""

from harness.questions import ask
from penstock.cli.exit_codes import end_with

QUESTIONS = (
    "footprint",
    "produce",
    "consume",
    "kernel_bounds",
    "latency",
    "replicated",
    "small_requests",
    "machine_nodes",
    "partitions",
    "restart",
    "session_ends",
    "shares",
    "received",
    "quotas",
    "access_cost",
    "peers",
    "storage_append",
    "compaction",
    "beside_cleaning",
    "amplification",
    "spark_read_land",
)


if __name__ == "__main__":
    end_with(lambda: ask("benchmarks", QUESTIONS, __doc__))
