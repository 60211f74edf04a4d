"""Programs in Go, built with the clients that they use, kept outside the repository."""

import functools
import shutil
import subprocess
from pathlib import Path

from harness.maven import CACHE

PROGRAMS = Path(__file__).resolve().parent / "go"
BUILD_SECONDS = 270
"""Below the time-out of a test; a next try goes on from what was built by then."""


@functools.cache
def program(name: str) -> Path | str:
    """Return the program of tests/compat/go/<name>, or why there is none."""
    go = shutil.which("go")
    if go is None:
        return "go is not installed"
    target = CACHE / f"go-{name}"
    command = [go, "build", "-mod=readonly", "-o", str(target), "."]
    try:
        done = subprocess.run(
            command, cwd=PROGRAMS / name, capture_output=True, text=True, check=False,
            timeout=BUILD_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"go did not end in {BUILD_SECONDS} s"
    if done.returncode != 0:
        return f"go failed: {(done.stderr.strip().splitlines() or ['no message'])[-1][:300]}"
    return target
