"""The tests of some suites, collected once in one process that forks for each slip."""

import json
import os
import select
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, BinaryIO, NamedTuple

from .forking import FORKING, GREEN
from .tree import Tree

COLLECT_SECONDS = 300.0
LONG_SECONDS = 300
TEST_SECONDS = 20
"""For one test, while its calls are noted and with a slip; where it has no limit of its own."""
ANSWER_SECONDS = 30.0
"""Beyond the time of a child: its parent then does not answer at all."""


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

    def tests(self, seconds: float) -> list[Test]:
        """Run all tests in a child without a slip; the quickest first. Raises NoTests."""
        answer = self._asked({"tests": self._names, "noting": True, "each": LONG_SECONDS}, seconds)
        told = answer["told"]
        if answer["end"] != GREEN or not told:
            raise NoTests(
                f"the tests are not green without a slip ({answer['end']}): "
                f"{told.get('test', '')}\n{told.get('why', '')}"
            )
        tests = [Test(name, took, frozenset(called)) for name, (took, called) in told.items()]
        return sorted(tests, key=lambda test: test.seconds)

    def tried(self, file: str, was: str, now: str, tests: Sequence[str], seconds: float) -> Answer:
        """Run tests in a child with a changed text of a file."""
        slip = {"file": file, "was": was, "now": now}
        request = {**slip, "tests": tests, "noting": False, "each": TEST_SECONDS}
        answer = self._asked(request, seconds)
        return Answer(answer["end"], answer["told"].get("test", ""))

    def _asked(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        line = json.dumps({**request, "seconds": seconds}) + "\n"
        self._ends.requests.write(line.encode())
        self._ends.requests.flush()
        return self._heard(seconds + ANSWER_SECONDS)

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
