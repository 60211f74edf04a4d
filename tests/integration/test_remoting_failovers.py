"""Remoting clients through kills; `python -m reliability.remoting_failovers` does many."""

import pytest

from reliability.remoting_failovers import run_kills

pytestmark = pytest.mark.process


def test_promises_to_remoting_clients_are_kept_through_kills() -> None:
    row = run_kills(3)
    assert row["verdict"] == "ok", row
    assert row["kills"] == 3
    assert row["sent"]
    assert row["delayed"]
    assert row["committed"]
    assert row["rolled back"]
    assert row["acknowledged"]
    assert row["sent back"]
