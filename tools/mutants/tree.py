"""A throwaway copy of the last commit, into which bugs are planted one at a time.

Nothing outside the copy is touched, and it holds committed text only: a half-finished edit in the
working tree decides nothing. Compiled extensions are taken from the working tree; those of a room
in which a bug is planted are put away for that time, as one may stand in for the planted function.

Python knows stale bytecode by a file's time in whole seconds and its size, which two bugs planted
within a second may share; so every planted file gets a time of its own.
"""

import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from .mutant import Mutant

MEMORY_BYTES_MAX = 8 << 30
"""Of address space: a planted bug may loop and append. All directed schedules in one process reach
4.5 GB of it, of which half is in use: the steps of a disk are tried on copies of it."""
_FIRST_TIME = 1_000_000_000


class Finished(NamedTuple):
    """A process that has ended; `code` is None where it took too long."""

    code: int | None
    output: str


class Tree:
    """The copy, at `path`."""

    def __init__(self, root: Path, path: Path) -> None:
        self.path = path
        self._root = root
        self.commit = _git(root, "rev-parse", "HEAD")
        self._times = itertools.count(_FIRST_TIME)
        self._extract(root)

    def state_of(self, *places: str) -> list[str]:
        """Return a name of the text below these directories: the same text, the same name."""
        return [_git(self._root, "rev-parse", f"{self.commit}:{place}") for place in places]

    def _extract(self, root: Path) -> None:
        archive = self.path / "tree.tar"
        _git(root, "archive", "--format=tar", f"--output={archive}", self.commit)
        with tarfile.open(archive) as packed:
            if hasattr(tarfile, "data_filter"):
                packed.extractall(self.path, filter="data")
            else:  # before 3.11.4; the archive is our own
                packed.extractall(self.path)
        archive.unlink()
        for extension in sorted(root.glob("src/**/*.so")):
            shutil.copy2(extension, self.path / extension.relative_to(root))

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """Plant a bug for as long as this lasts. Raises AnchorLost."""
        before: list[tuple[Path, str, float]] = []
        away: list[Path] = []
        try:
            for place, text in mutant.mutated(self.path).items():
                file = self.path / place
                before.append((file, file.read_text(), file.stat().st_mtime))
                _write(file, text, next(self._times))
                away += [one.rename(f"{one}.away") for one in sorted(file.parent.glob("*.so"))]
            yield
        finally:
            for file, text, modified in before:
                _write(file, text, modified)
            for one in away:
                one.rename(one.with_suffix(""))

    @contextmanager
    def without_twins(self, directories: Iterable[str] = ("src/**",)) -> Iterator[None]:
        """Put compiled extensions away for as long as this lasts: no mark is set in them."""
        found = {one for place in directories for one in self.path.glob(f"{place}/*.so")}
        away = [one.rename(f"{one}.away") for one in sorted(found)]
        try:
            yield
        finally:
            for one in away:
                one.rename(one.with_suffix(""))

    def begun(
        self,
        *arguments: str,
        stdout: int | IO[str],
        environment: Mapping[str, str] | None = None,
        pass_fds: Collection[int] = (),
    ) -> "subprocess.Popen[str]":
        """Begin a Python program of the copy, in a session and with a bound of memory of its own.

        Hypothesis knows of no examples then that another bug has left.
        """
        self.forget_examples()
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.path,
            env={
                **os.environ,
                "PYTHONPATH": f"{self.path / 'src'}{os.pathsep}{self.path}",
                "PYTHONHASHSEED": "0",
                "HYPOTHESIS_STORAGE_DIRECTORY": str(self.path / "examples"),
                **(environment or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            pass_fds=pass_fds,
            preexec_fn=_bound_memory,  # noqa: PLW1509  no thread is running here
        )

    def forget_examples(self) -> None:
        """Let Hypothesis begin anew: what it has found belongs to another bug."""
        shutil.rmtree(self.path / "examples", ignore_errors=True)

    def run(self, *arguments: str, seconds_max: float | None) -> Finished:
        """Run a Python program of the copy, e.g. `-m pytest`, to its end or the end of its time."""
        with self.begun(*arguments, stdout=subprocess.PIPE) as process:
            try:
                output, _ = process.communicate(timeout=seconds_max)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
                return Finished(None, output)
            except BaseException:  # told to stop: a session of its own does not hear of it
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return Finished(process.returncode, output)


@contextmanager
def copy_of(root: Path) -> Iterator[Tree]:
    """Make a copy of the last commit of `root`, and remove it in the end."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        yield Tree(root, Path(directory))


def _write(file: Path, text: str, modified: float) -> None:
    file.write_text(text)
    os.utime(file, (modified, modified))


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _bound_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
