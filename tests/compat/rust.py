"""Programs in Rust, built with the clients that they use, kept outside the repository."""

import functools
import shutil
import subprocess
from pathlib import Path

from harness.maven import CACHE

PROGRAMS = Path(__file__).resolve().parent / "rust"
BUILD_SECONDS = 1_000
"""Below the time-out of a test; a next try goes on from what was built by then."""


@functools.cache
def program(name: str) -> Path | str:
    """Return the program of tests/compat/rust/<name>, or why there is none."""
    cargo = shutil.which("cargo")
    if cargo is None:
        return "cargo is not installed"
    target, project = CACHE / f"rust-{name}", CACHE / f"rust-{name}-project"
    shutil.copytree(PROGRAMS / name, project, dirs_exist_ok=True)  # Cargo writes its lock there
    command = [cargo, "build", "--quiet", "--target-dir", str(target)]
    try:
        done = subprocess.run(
            command, cwd=project, capture_output=True, text=True, check=False,
            timeout=BUILD_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"cargo did not end in {BUILD_SECONDS} s"
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
        return f"cargo failed: {(errors or ['no message'])[0][:300]}"
    return target / "debug" / f"{name}-against-penstock"
