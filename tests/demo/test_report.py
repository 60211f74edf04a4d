"""What the demo says while it waits, on a terminal and without one."""

import io

import pytest
from rich.console import Console

from demo import report


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("is_quiet_over", [True, False])
def test_a_long_wait_is_said_in_lines_where_no_bars_are_drawn(
    monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, is_quiet_over: bool
) -> None:
    monkeypatch.setattr(report, "QUIET_SECONDS", 0.0 if is_quiet_over else 3600.0)
    said = io.StringIO()
    screen = report.Screen()
    screen.console = Console(file=said, force_terminal=is_terminal, highlight=False)
    screen.show(total=4000, sent=3000, acked=2000, landed=0)
    told = "of 4,000: sent 3,000, acknowledged 2,000, landed 0" in said.getvalue()
    assert told == (is_quiet_over and not is_terminal)
