"""A client in Java that takes commands on its standard input and answers each with a line of JSON.

It runs from its first command until it is closed, so that its compiler is warm when it counts.
Lines that do not begin with `@` are the client library's own and are passed over.
"""

import functools
import json
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.parts.native import SOURCES, LoadFailed
from benchmarks.peers.model import CanNotRun

ANSWER_SECONDS = 300.0
COMPILE_SECONDS = 300
_OPTIONS = ("-XX:+UseG1GC", "-Duser.language=en", "-Duser.country=US")


class JavaClient:
    """One process with one of the programs of benchmarks/native."""

    def __init__(
        self, sources: Sequence[str], class_path: str, arguments: Sequence[str], *, heap_mib: int
    ) -> None:
        """`sources` are the program's files; its main class is that of the last one."""
        self._sources = tuple(sources)
        self._class_path, self._arguments, self._heap_mib = class_path, arguments, heap_mib
        self._process: subprocess.Popen[str] | None = None

    def command(self, *words: object) -> dict[str, Any]:
        """Send one command and return its answer. Raises LoadFailed, CanNotRun."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(ANSWER_SECONDS, process.kill)
        timer.start()
        try:
            process.stdin.write(" ".join(str(word) for word in words) + "\n")
            process.stdin.flush()
            answers = (line[1:] for line in process.stdout if line.startswith("@"))
            found: dict[str, Any] = json.loads(next(answers, '{"error": "the client ended"}'))
        except BrokenPipeError as error:
            raise LoadFailed(f"{words}: the client is gone") from error
        finally:
            timer.cancel()
        if "error" in found:
            raise LoadFailed(f"{' '.join(map(str, words))}: {found['error']}")
        return found

    def close(self) -> None:
        """End the client."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _running(self) -> "subprocess.Popen[str]":
        if self._process is None:
            home = compiled(self._sources, self._class_path)
            heap = (f"-Xms{self._heap_mib}m", f"-Xmx{self._heap_mib}m")
            command = ["java", *heap, *_OPTIONS, f"-Duser.home={home}"]
            command += ["-cp", f"{home}:{self._class_path}", Path(self._sources[-1]).stem]
            self._process = subprocess.Popen(
                [*command, *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        return self._process


@functools.cache
def compiled(sources: tuple[str, ...], class_path: str) -> Path:
    """Compile a program; returns the directory of its classes. Raises CanNotRun."""
    holder = tempfile.TemporaryDirectory(prefix="penstock-bench-")
    _KEEP.append(holder)
    command = ["javac", "-proc:none", "-d", holder.name, "-cp", class_path]
    command += [str(SOURCES / source) for source in sources]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False
    )
    if done.returncode != 0:
        raise CanNotRun(f"{sources[-1]} does not compile: {done.stderr[-300:]}")
    return Path(holder.name)


_KEEP: list[tempfile.TemporaryDirectory[str]] = []
