"""Notes which functions of the product are called: before all tests, and by each of them.

A function is named "path:first line". What a fixture of a module calls counts for the first test
that uses it.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import NamedTuple

import pytest

SOURCE = f"{os.sep}src{os.sep}penstock{os.sep}"


class Told(NamedTuple):
    """What one test did."""

    seconds: float
    """Of the processor: another's load does not count."""
    functions: frozenset[str]


class Calls:
    """A plugin of pytest that notes them for each test."""

    def __init__(self) -> None:
        self.told: dict[str, Told] = {}
        self._seen: set[CodeType] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Listen while a test runs."""
        began = time.process_time()
        self._seen.clear()
        with self.listening():
            result = yield
        self.told[item.nodeid] = Told(time.process_time() - began, self.functions())
        return result

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note what is called meanwhile, in every thread that begins meanwhile."""
        threading.settrace(self._on_call)
        sys.settrace(self._on_call)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)

    def functions(self) -> frozenset[str]:
        """Return those that were called since listening began."""
        return frozenset(_named(code) for code in self._seen if SOURCE in code.co_filename)

    def _on_call(self, frame: FrameType, _event: str, _: object) -> None:
        self._seen.add(frame.f_code)  # and no tracer of its lines is returned


def _named(code: CodeType) -> str:
    return f"{code.co_filename.rpartition(SOURCE)[2]}:{code.co_firstlineno}"
