"""A plugin of pytest that tells what each test called, how long it took, and why it was red.

    pytest -p tools.mutants.watching --watched FILE [--mark-functions] ...

Functions are marked as the simulator marks them for its own reach (docs/adr/0038), so this must be
there before anything of Penstock is imported. The file is written again after each test: a run that
is ended from outside has told of all tests before.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.reach import marking

TOLD_MAX = 300
PROMISE, SCHEDULE = "promise", "schedule"
"""Why a test is red: a promise is broken, or the schedule does not get where it wants."""


class Watching:
    """See the module."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_setup(self) -> None:
        """Begin with no function called."""
        marking.reached()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the test itself, and whatever fails around it."""
        if report.when != "call" and not report.failed:
            return
        facts = {
            "seconds": round(report.duration, 2),
            "is_red": report.failed,
            "told": "",
            "by": "",
        }
        if report.failed:
            facts["told"], facts["by"] = _reason(report)
        self._tests[report.nodeid] = {**facts, "reached": marking.reached()}
        self._file.write_text(json.dumps(self._tests))


def _reason(report: pytest.TestReport) -> tuple[str, str]:
    """Return what is told of a failure, and which of the two it is: by the assertion that fails."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return str(report.longrepr)[-TOLD_MAX:], SCHEDULE
    told = crash.message.splitlines()[0][:TOLD_MAX]
    lines = Path(crash.path).read_text().splitlines()
    return told, PROMISE if "findings" in lines[crash.lineno - 1] else SCHEDULE


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--watched", type=Path, required=True)
    parser.addoption("--mark-functions", action="store_true")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Mark what is imported from now on: a conftest imports of Penstock, too."""
    if early_config.known_args_namespace.mark_functions:
        marking.install()


def pytest_configure(config: pytest.Config) -> None:
    """Begin to watch."""
    config.pluginmanager.register(Watching(config.getoption("--watched")))
