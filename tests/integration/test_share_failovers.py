"""A share group through kills; `python -m reliability.share_failovers` does many."""

import pytest

from reliability.share_failovers import run_kills

pytestmark = pytest.mark.process


def test_what_a_share_group_settles_stays_so_through_kills() -> None:
    row = run_kills(4)
    assert row["verdict"] == "ok", row
    assert row["kills"] == 4
    assert row["accept"]
    assert row["release"]
    assert row["reject"]
    assert row["renew"]
    assert row["again"]
