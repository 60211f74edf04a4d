"""What a machine without a compiler, or with a slow network, has of `make setup`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import progress

ROOT = Path(__file__).resolve().parents[2]
PROGRESS = (sys.executable, str(ROOT / "tools/progress.py"))


@pytest.mark.timeout(600)
def test_a_build_without_a_working_compiler_builds_nothing_and_succeeds(tmp_path):
    build = [sys.executable, "setup.py", "-q", "build_ext"]
    build += ["--build-lib", str(tmp_path / "lib"), "--build-temp", str(tmp_path / "temp")]
    environment = {**os.environ, "CC": "/bin/false"}
    done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("**/*.so")) == []


def test_progress_hands_on_the_exit_code_and_the_end_of_what_was_said():
    failing = "import sys; print('first'); print('why', file=sys.stderr); sys.exit(7)"
    done = subprocess.run(
        [*PROGRESS, "setup", sys.executable, "-c", failing],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7
    assert "why\n" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("setup: failed: ")


def test_progress_shows_the_step_and_not_the_warnings_between():
    told = progress.Told(["Collecting  uvloop\n", "WARNING: nothing to do with it\n", "\n"], "")
    told.thread.join()
    assert told.last == "Collecting uvloop"
    assert list(told.lines) == ["Collecting uvloop", "WARNING: nothing to do with it"]


def test_progress_names_the_command_while_it_says_nothing():
    told = progress.Told([], "python3 -m venv .venv")
    told.thread.join()
    assert told.last == "python3 -m venv .venv"


def test_progress_says_nothing_of_what_is_done_at_once():
    done = subprocess.run(
        [*PROGRESS, "setup", "--in", str(ROOT / "tools"), "true"], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_whatever_is_missing_is_told_at_once_where_it_may_not_be_installed(tmp_path):
    """Else who has installed Python's venv hears of Java after the minutes of the next attempt."""
    programs = {
        "id": "echo 1000",
        "sudo": "exit 1",
        "python": f'case "$2" in *ensurepip*) exit 1 ;; esac\nexec {sys.executable} "$@"',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["tools/setup.sh", str(tmp_path / "venv")],
        cwd=ROOT,
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHON": str(tmp_path / "python"),
            "BESIDE": "echo java is missing too",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "setup: missing: sudo apt-get install python3." in done.stderr
    assert done.stdout == "java is missing too\n"
