"""Every way in which a table can differ from the acknowledgements is counted."""

import numpy as np
import pytest

from demo.check import Rows, Verdict, judge
from demo.stream import Ledger

COUNT = 6
COLUMNS = ("id", "seq", "_partition", "_offset")


def ledger() -> Ledger:
    """Six records, alternating over two partitions, acknowledged in order."""
    made = Ledger(COUNT)
    for record_id in range(COUNT):
        made.partition_of[record_id] = record_id % 2
        made.offset_of[record_id] = record_id // 2
    return made


def table(rows: list[tuple[int, int, int, int]]) -> Rows:
    """Rows as (id, seq, partition, offset), ordered as the demo reads them."""
    ordered = sorted(rows, key=lambda row: (row[2], row[3]))
    return {
        name: np.array([row[n] for row in ordered], dtype=np.int64)
        for n, name in enumerate(COLUMNS)
    }


def landed() -> list[tuple[int, int, int, int]]:
    return [(n, n // 2, n % 2, n // 2) for n in range(COUNT)]


def verdict(rows: list[tuple[int, int, int, int]]) -> Verdict:
    return judge(table(rows), ledger())


def test_a_faultless_table_is_clean() -> None:
    assert verdict(landed()).is_clean
    assert verdict(landed()).landed == COUNT


def test_a_row_that_is_not_there_is_missing_and_breaks_the_order() -> None:
    found = verdict(landed()[1:])
    assert (found.missing, found.order_errors) == (1, 1)
    assert not found.is_clean


def test_the_last_row_of_a_partition_that_is_not_there_is_missing() -> None:
    found = verdict(landed()[:-1])
    assert (found.missing, found.order_errors) == (1, 0)
    assert not found.is_clean


def test_a_row_that_is_there_twice_is_double() -> None:
    found = verdict([*landed(), landed()[3]])
    assert found.double == 1
    assert not found.is_clean


def test_one_lost_and_one_doubled_do_not_cancel_out() -> None:
    found = verdict([*landed()[1:], landed()[3]])
    assert (found.landed, found.missing, found.double) == (COUNT, 1, 1)


def test_rows_in_another_order_than_sent_are_order_errors() -> None:
    rows = landed()
    rows[0], rows[2] = (0, 0, 0, 1), (2, 1, 0, 0)
    found = verdict(rows)
    assert found.order_errors > 0
    assert found.misplaced == 2


def test_a_row_nobody_sent_is_unknown() -> None:
    assert verdict([*landed(), (99, 3, 0, 3)]).unknown == 1


def test_a_row_that_was_never_acknowledged_is_unknown() -> None:
    made = ledger()
    made.offset_of[5] = -1
    assert judge(table(landed()), made).unknown == 1


@pytest.mark.parametrize("rows", [[], [(0, 0, 0, 0)]])
def test_an_empty_or_tiny_table_is_judged_too(rows: list[tuple[int, int, int, int]]) -> None:
    assert verdict(rows).missing == COUNT - len(rows)
