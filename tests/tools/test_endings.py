"""How the programs of the repository end when nobody reads on, as in `… --list | head -3`."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.exit_codes import end_with

ROOT = Path(__file__).parents[2]
PLACES = ("benchmarks", "demo", "harness", "reliability", "simulator", "tools")
BEFORE_PACKAGES = {"tools/progress.py"}
"""What shows how the packages are installed can not import them."""
LISTS = (
    ("-m", "benchmarks.peers", "--list"),
    ("-m", "reliability.bad_input", "--help"),
    ("-m", "benchmarks", "--help"),
    ("-m", "simulator", "--help"),
    ("tools/tidy.py",),
)


def programs() -> Iterator[tuple[str, str]]:
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*.py")):
            _, is_program, end = path.read_text("utf-8").partition('if __name__ == "__main__":\n')
            if is_program:
                yield str(path.relative_to(ROOT)), end


def test_every_program_ends_in_the_same_way() -> None:
    found = dict(programs())
    assert len(found) > 40
    others = [name for name, end in found.items() if not re.match(r"    end_with\(", end)]
    assert set(others) == BEFORE_PACKAGES


@pytest.mark.parametrize("called", LISTS, ids=lambda called: called[-2:][0])
def test_a_program_whose_reader_has_gone_ends_in_silence(called: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, *called],
            cwd=ROOT,
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
            timeout=120,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_program_whose_connection_breaks_says_so() -> None:
    def loses_a_connection() -> None:
        raise BrokenPipeError("of a socket")

    with pytest.raises(BrokenPipeError, match="of a socket"):
        end_with(loses_a_connection)


@pytest.mark.parametrize(("told", "code"), [(None, 0), (0, 0), (3, 3)])
def test_the_exit_code_is_the_programs(told: int | None, code: int) -> None:
    with pytest.raises(SystemExit) as ended:
        end_with(lambda: told)
    assert ended.value.code == code
