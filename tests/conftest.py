"""Hypothesis without time limits: a slow machine is not a failure. Timings go into benchmarks.

An assertion that fails shows its values in the helpers and contracts too.
"""

import gc
import signal
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


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let collections of garbage pass over all modules and tests: they live to the end."""
    gc.collect()
    gc.freeze()
