"""The demo as a person runs it: exit codes, one clear line for bad input, everything adds up."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def demo(*arguments: str, seconds: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "demo", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
    )


@pytest.mark.process
@pytest.mark.parametrize("make", ["absent", "empty"])
def test_an_input_that_can_not_be_used_is_one_line_and_exit_code_2(
    tmp_path: Path, make: str
) -> None:
    path = tmp_path / "input"
    if make == "empty":
        path.touch()
    done = demo(str(path), seconds=120)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert str(path) in done.stderr


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed")
def test_a_small_input_goes_through_both_kills_and_adds_up(tmp_path: Path) -> None:
    lines = tmp_path / "lines.csv"
    lines.write_text("".join(f"{n},some text,{n * 7}\n" for n in range(4000)))
    done = demo(str(lines), "--seconds", "15", seconds=550)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "everything adds up" in done.stdout
    assert done.stdout.count("kill -9") == 2
