"""Tests of Go clients, from their modules: `go mod download` brings a module with its tests.

The module is copied out of Go's cache, which nobody may write to, and its tests run there.
"""

import json
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from reliability.suites.model import (
    FETCH_SECONDS,
    Call,
    Outcomes,
    Said,
    SuiteFailed,
    call,
    fetched,
)

_ENDS = {"pass": Said.PASSED, "fail": Said.FAILED, "skip": Said.LEFT_OUT}
GRACE_SECONDS = 20.0
"""For Go to end a run that took too long, and to print what it was about."""


def fetch_module(work: Path, module: str, version: str) -> Path:
    """Return a copy of a module's source that can be changed. Raises SuiteFailed."""
    work.mkdir(parents=True, exist_ok=True)
    command = ["go", "mod", "download", "-json", f"{module}@{version}"]
    done = call(command, cwd=work, seconds=FETCH_SECONDS)
    where = Path(json.loads(fetched(done, f"{module} can not be fetched"))["Dir"])
    target = work / f"{module.replace('/', '-')}-{version}"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(where, target)
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    return target


def replace_in(files: Iterable[Path], old: str, new: str) -> None:
    """Put `new` for `old` in all files. Raises SuiteFailed when none has it."""
    count = 0
    for path in files:
        text = path.read_text(encoding="utf-8")
        count += text.count(old)
        path.write_text(text.replace(old, new), encoding="utf-8")
    if not count:
        raise SuiteFailed(f"the suite has changed: {old!r} is nowhere in it")


def run_go(
    given: Call,
    packages: Sequence[str],
    *,
    env: Mapping[str, str],
    more: Sequence[str] = (),
) -> Outcomes:
    """Run the tests of some packages and return how each ended."""
    command = ["go", "test", "-json", "-count=1", f"-timeout={given.seconds:.0f}s", *more]
    command += [f"-run={given.only}"] if given.only else []
    whole = {**os.environ, **env}
    seconds = FETCH_SECONDS + given.seconds
    build = ["go", "test", "-count=1", "-run=^$", *more, *packages]
    fetched(call(build, cwd=given.source, seconds=FETCH_SECONDS, env=whole), "does not build")
    command += packages
    done = call(command, cwd=given.source, seconds=seconds + GRACE_SECONDS, env=whole)
    (given.source / "suite.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    return read_events(done.stdout.splitlines())


def read_events(lines: Iterable[str]) -> Outcomes:
    """Return how each test ended, from what `go test -json` prints; parts of tests are not listed.

    A test that was begun and has no end is unfinished: a panic or the time-out ended the run.
    """
    ends: dict[str, Said] = {}
    for line in lines:
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        name = event.get("Test", "")
        if not name or "/" in name:
            continue
        if event["Action"] == "run":
            ends.setdefault(name, Said.UNFINISHED)
        elif event["Action"] in _ENDS:
            ends[name] = _ENDS[event["Action"]]
    return ends
