"""A plugin of pytest that collects once, and then runs tests in a child for each slip.

    collect ─► what was called, what lives ─► request ─► fork ─► slip in effect ─► tests ─► answer
                                                 ▲                                            │
                                                 └────────────────────────────────────────────┘

`python -m pytest -p tools.mutants.forking SUITES`, with EDGES_FORKING naming two open files: that
of the requests and that of the answers, one JSON object a line. The first answer comes before any
request, and says which functions were called so far: a slip in one of these may have had its effect
already, and needs a process of its own. So does one that `in_effect` refuses.

A child ends at the first test that is red, or when its time is up, and with it all that it has
started. What loops is ended by the time of the processor that it takes, what waits by the clock,
which is no judge where others load the machine. Its memory has the bound of its parent's.
"""

import gc
import json
import os
import resource
import select
import signal
import tempfile
import threading
import traceback
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, BinaryIO, NoReturn

import pytest

from .called import Calls
from .in_effect import Living, NotReplaceable, living_functions, put_in_effect

FORKING = "EDGES_FORKING"
GREEN, RED, LATE, REFUSED, ENTERED = "green", "red", "late", "refused", "entered"
ENTERED_CODE = 97
"""With this a child ends in a function that was made to end it, see `edges`."""
_REFUSED_CODE = 98
_ENDS = {
    0: GREEN,
    ENTERED_CODE: ENTERED,
    _REFUSED_CODE: REFUSED,
    -signal.SIGKILL: LATE,
    -signal.SIGXCPU: LATE,
}


class Parent:
    """Collects, and forks."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests = requests
        self._answers = answers
        self._before = Calls()
        self._listening = self._before.listening()
        self._child: int | None = None
        self._listening.__enter__()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Serve requests to their end, in the place of running what was collected."""
        self._listening.__exit__(None, None, None)
        if session.testsfailed:
            raise session.Interrupted("not all tests can be collected")
        if threading.active_count() > 1:
            raise pytest.UsageError("an import has begun a thread: forking is not safe")
        signal.signal(signal.SIGTERM, lambda *_: self._stop())
        gc.unfreeze()  # what is frozen is not found
        living = living_functions(Path.cwd() / "src")
        gc.collect()
        gc.freeze()
        items = {item.nodeid: item for item in session.items}
        self._tell({"called": sorted(self._before.functions()), "tests": list(items)})
        for line in self._requests:
            self._tell(self._tried(items, living, json.loads(line)))
        return True

    def _tell(self, answer: dict[str, Any]) -> None:
        self._answers.write(json.dumps(answer).encode() + b"\n")
        self._answers.flush()

    def _tried(
        self, items: dict[str, pytest.Item], living: Living, request: dict[str, Any]
    ) -> dict[str, Any]:
        with tempfile.TemporaryFile("w+") as told:
            self._child = os.fork()
            if not self._child:
                _run([items[name] for name in request["tests"]], living, request, told)
            end = _awaited(self._child, request["seconds"])
            self._child = None
            told.seek(0)
            text = told.read()
        return {"end": end, "told": json.loads(text) if text and end in {GREEN, RED} else {}}

    def _stop(self) -> NoReturn:
        if self._child:
            _kill(self._child)
        os._exit(2)


def _awaited(child: int, seconds: float) -> str:
    """Return how a child ended; nothing that it has started is left."""
    ending = os.pidfd_open(child)
    try:
        waiting = select.poll()
        waiting.register(ending, select.POLLIN)
        is_in_time = bool(waiting.poll(seconds * 1000))
    finally:
        os.close(ending)
        _kill(child)
    _, status = os.waitpid(child, 0)
    return _ENDS.get(os.waitstatus_to_exitcode(status), RED) if is_in_time else LATE


def _kill(child: int) -> None:
    """End a child and the group of processes that it leads, once it does."""
    os.kill(child, signal.SIGKILL)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:  # it ended before it led one
        return


def _run(
    items: list[pytest.Item], living: Living, request: dict[str, Any], told: IO[str]
) -> NoReturn:
    """Be the child: run the tests, tell what was to be told, and end."""
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        busy = int(request["busy"])
        resource.setrlimit(resource.RLIMIT_CPU, (busy, busy))
        if "now" in request:
            put_in_effect(request["file"], request["was"], request["now"], living)
        for item in items:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(request["each"]))
        _run_all(items, told, is_noting=request["noting"])
        code = 0
    except NotReplaceable:
        code = _REFUSED_CODE
    except BaseException:  # whatever it is, the tests do not go on with the slip
        _tell_red(told, "", traceback.format_exc())
        raise
    finally:
        os._exit(code)


def _run_all(items: list[pytest.Item], told: IO[str], *, is_noting: bool) -> None:
    if not items:
        return
    hook = items[0].config.hook
    manager = items[0].config.pluginmanager
    calls = Calls()
    manager.register(_FirstRed(told))
    if is_noting:
        manager.register(calls)
    for item, following in pairwise([*items, None]):
        hook.pytest_runtest_protocol(item=item, nextitem=following)
    if is_noting:
        noted = {name: [seconds, sorted(called)] for name, (seconds, called) in calls.told.items()}
        json.dump(noted, told)
        told.flush()


class _FirstRed:
    """Ends the child there."""

    def __init__(self, told: IO[str]) -> None:
        self._told = told

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """End at a failure."""
        if report.failed:
            _tell_red(self._told, report.nodeid, report.longreprtext)
            os._exit(1)


def _tell_red(told: IO[str], test: str, why: str) -> None:
    json.dump({"test": test, "why": why[-2000:]}, told)
    told.flush()


def pytest_configure(config: pytest.Config) -> None:
    """Take part where the files are named."""
    files = os.environ.pop(FORKING, "")
    if files:
        requests, answers = (int(one) for one in files.split(","))
        config.pluginmanager.register(Parent(os.fdopen(requests, "rb"), os.fdopen(answers, "wb")))
