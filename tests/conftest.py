"""Hypothesis without time limits: a slow machine is not a failure. Timings go into benchmarks.

An assertion that fails shows its values in the helpers and contracts too.
"""

import gc
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# A shell without job control has what it starts with & ignore Ctrl-C, and so what that starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

rooms = [one.name for one in Path(__file__).parent.iterdir() if (one / "__init__.py").exists()]
pytest.register_assert_rewrite(*(f"tests.{room}" for room in rooms))
hypothesis.settings.register_profile(
    "no-deadline", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("no-deadline")

YOUNG_OBJECTS = 20_000
"""So many objects more than before begin a collection, and not 700: tests make and leave much more,
and collections took a seventh of their time."""

ENVIRONMENT = pytest.StashKey[dict[str, str]]()

gc.disable()  # until all tests are collected: modules and tests live to the end

OWN_PROCESSES = re.compile(r"\bmark\.(process|spark)\b")
"""What `make test-process` looks for in files, so as to import no others."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what is long: at the end of a run all workers are to have something to do.

    Raises UsageError for a test that `make test-process` would not find.
    """
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    starting = {
        item.path
        for item in items
        if item.get_closest_marker("process") or item.get_closest_marker("spark")
    }
    for path in sorted(starting):
        if not OWN_PROCESSES.search(path.read_text()):
            raise pytest.UsageError(f"{path}: say pytest.mark.process or spark in the file itself")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let collections of garbage pass over all modules and tests: they live to the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember the environment before the test and its fixtures."""
    item.stash[ENVIRONMENT] = _own_environment()


def _own_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("PENSTOCK_")}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Let a test answer for what it and its fixtures leave behind, not a later one.

    Settings of ours in the environment would be those of all tests behind it.
    """
    yield
    if item.get_closest_marker("process"):
        gc.collect()
    before, after = item.stash[ENVIRONMENT], _own_environment()
    assert after == before, "the test leaves PENSTOCK_… in the environment: use monkeypatch"
