"""A plugin of pytest that writes down which functions each test calls, and how long it takes.

`python -m pytest -p tools.mutants.called`, with EDGES_CALLS naming the file to write: an object of
test ids, each with `seconds` and `functions` as "path:first line". What a fixture of a module calls
counts for the first test that uses it.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

CALLS = "EDGES_CALLS"
SOURCE = f"{os.sep}src{os.sep}penstock{os.sep}"


class Calls:
    """Notes them."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen: set[CodeType] = set()
        self._told: dict[str, dict[str, Any]] = {}

    def _on_call(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._seen.add(frame.f_code)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Listen while a test runs, in every thread that begins meanwhile."""
        self._seen.clear()
        began = time.perf_counter()
        threading.setprofile(self._on_call)
        sys.setprofile(self._on_call)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            self._told[item.nodeid] = {
                "seconds": time.perf_counter() - began,
                "functions": sorted(_named(code) for code in self._seen if _is_ours(code)),
            }

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        self._file.write_text(json.dumps(self._told))


def _is_ours(code: CodeType) -> bool:
    return SOURCE in code.co_filename


def _named(code: CodeType) -> str:
    return f"{code.co_filename.rpartition(SOURCE)[2]}:{code.co_firstlineno}"


def pytest_configure(config: pytest.Config) -> None:
    """Take part where a file is named."""
    file = os.environ.get(CALLS)
    if file:
        config.pluginmanager.register(Calls(Path(file)))
