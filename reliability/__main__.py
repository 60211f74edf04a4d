"""`python -m reliability [NAME ...] [--quick]`: ask all questions, or those named."""

from harness.questions import ask
from penstock.cli.exit_codes import end_with

QUESTIONS = (
    "judge",
    "kills",
    "power_cuts",
    "disk_bound",
    "corruption",
    "bad_input",
    "failovers",
    "failover_partitions",
    "client_failovers",
    "group_failovers",
    "transaction_copies",
    "transaction_failovers",
    "late_requests",
    "share_failovers",
    "remoting_failovers",
    "trials",
    "chaos",
)


if __name__ == "__main__":
    end_with(lambda: ask("reliability", QUESTIONS, __doc__))
