"""The tests of some suites, collected once in one process that forks for each slip."""

import json
import os
import select
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, BinaryIO, NamedTuple

from .forking import FORKING, GREEN, LATE
from .tree import Tree

COLLECT_SECONDS = 300.0
BUSY_SECONDS = 20
"""Of the processor, for tests with a slip, beyond what they take without while calls are noted."""
WAITING_SECONDS = 60
LOAD = 10
"""A test may wait so long, and its process for the processor so many times what it needs."""
ANSWER_SECONDS = 30.0
"""Beyond the time of a child: its parent then does not answer at all."""


_TIMED_OUT = "from pytest-timeout"


class Test(NamedTuple):
    """A test without a slip."""

    name: str
    seconds: float
    functions: frozenset[str]


class Answer(NamedTuple):
    """How a child ended, and the first red test."""

    end: str
    test: str


class NoTests(Exception):
    """There are no tests, or they are not green without a slip."""


class Children:
    """Asks the process that forks."""

    def __init__(self, output: IO[str], ends: "Ends") -> None:
        self._output = output
        self._ends = ends
        first = self._heard(COLLECT_SECONDS)
        self.called_before: frozenset[str] = frozenset(first["called"])
        """The functions called before it forks, as "path:first line": no slip of theirs is tried
        here."""
        self._names: list[str] = first["tests"]

    def tests(self, seconds: int) -> list[Test]:
        """Run all tests in a child without a slip; the quickest first. Raises NoTests."""
        if not self._names:
            raise NoTests("these suites have no tests but those with processes: use --tests")
        limits = {"busy": seconds, "each": seconds, "seconds": seconds}
        answer = self._asked({"tests": self._names, "noting": True, **limits})
        told = answer["told"]
        if answer["end"] != GREEN:
            raise NoTests(
                f"the tests are not green without a slip ({answer['end']}): "
                f"{told.get('test', '')}\n{told.get('why', '')}"
            )
        tests = [Test(name, took, frozenset(called)) for name, (took, called) in told.items()]
        return sorted(tests, key=lambda test: test.seconds)

    def tried(self, file: str, was: str, now: str, tests: Sequence[Test]) -> Answer:
        """Run tests in a child with a changed text of a file."""
        took = sum(test.seconds for test in tests)
        answer = self._asked(
            {
                "file": file,
                "was": was,
                "now": now,
                "tests": [test.name for test in tests],
                "noting": False,
                "busy": BUSY_SECONDS + int(took),
                "each": WAITING_SECONDS + LOAD * max(test.seconds for test in tests),
                "seconds": WAITING_SECONDS + LOAD * (BUSY_SECONDS + took),
            }
        )
        told = answer["told"]
        is_late = _TIMED_OUT in told.get("why", "")
        return Answer(LATE if is_late else answer["end"], told.get("test", ""))

    def _asked(self, request: dict[str, Any]) -> dict[str, Any]:
        line = json.dumps(request) + "\n"
        self._ends.requests.write(line.encode())
        self._ends.requests.flush()
        return self._heard(request["seconds"] + ANSWER_SECONDS)

    def _heard(self, seconds: float) -> dict[str, Any]:
        """Return the next answer. Raises NoTests where the process has ended or is stuck."""
        waiting = select.poll()
        waiting.register(self._ends.answers, select.POLLIN)
        line = self._ends.answers.readline() if waiting.poll(seconds * 1000) else b""
        if not line:
            self._output.seek(0)
            raise NoTests(f"the tests can not be run:\n{self._output.read()[-2000:]}")
        heard: dict[str, Any] = json.loads(line)
        return heard


class Ends(NamedTuple):
    """Of the pipes, on this side."""

    requests: BinaryIO
    answers: BinaryIO


@contextmanager
def children(tree: Tree, arguments: Sequence[str]) -> Iterator[Children]:
    """Collect with these arguments to Python, and end the process at last. Raises NoTests."""
    requests, ask = os.pipe()
    hear, answers = os.pipe()
    with (
        os.fdopen(ask, "wb") as asking,
        os.fdopen(hear, "rb") as hearing,
        tempfile.TemporaryFile("w+") as output,
    ):
        try:
            process = tree.begun(
                *arguments,
                environment={FORKING: f"{requests},{answers}"},
                pass_fds=(requests, answers),
                stdout=output,
            )
        finally:
            os.close(requests)
            os.close(answers)
        with process:
            try:
                yield Children(output, Ends(asking, hearing))
            finally:
                process.send_signal(signal.SIGTERM)
