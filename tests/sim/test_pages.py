"""The reader of metrics pages: what it finds, and what it lets pass."""

import pytest

from simulator.checks.pages import Pages

SUM = "penstock_loop_delay_seconds_sum"


@pytest.mark.parametrize(
    ("starts", "later", "is_wrong"),
    [
        (1, f"{SUM} 2.0", False),
        (1, f"{SUM} 1.0", True),
        (2, f"{SUM} 0.0", False),  # another process
        (1, f"{SUM} 2.0\n{SUM} 2.0", True),
        (1, 'penstock_log_deleted_segments_total{replica_set="2"} 0.0', False),  # another log
    ],
)
def test_a_counter_of_a_process_falls_with_the_process_alone(
    starts: int, later: str, is_wrong: bool
) -> None:
    told: list[str] = []
    pages = Pages(lambda: 0.0, told.append)
    first = f'# HELP x\n{SUM} 1.5\npenstock_log_deleted_segments_total{{replica_set="2"}} 3.0\n'
    pages.read("n1", 1, first)
    pages.read("n1", starts, later)
    assert bool(told) is is_wrong
