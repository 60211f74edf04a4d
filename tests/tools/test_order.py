"""`tools/order.sh` and ORDER of make: the order of tests and what they draw come again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLAIN = "def test_{name}(): pass\n"
DRAWS = """
from hypothesis import given, settings, strategies

@settings(database=None)
@given(strategies.integers(0, 2**64))
def test_draws(number):
    print("drawn", number)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files as a release has them, and no repository."""
    for name in ("tools/order.sh", "src/some.py", "tests/test_some.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    shutil.copy(ROOT / "tools/order.sh", tmp_path / "tools/order.sh")
    return tmp_path


def order_of(tree: Path) -> int:
    """Return what the script of the tree prints, wherever it is called."""
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent)}
    command = [str(tree / "tools/order.sh")]
    return int(subprocess.check_output(command, cwd="/", env=environment, text=True))


def git(tree: Path, *arguments: str) -> None:
    """Run git as somebody."""
    somebody = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    subprocess.run(["git", *somebody, *arguments], cwd=tree, check=True, capture_output=True)


def commit(tree: Path) -> None:
    """Commit all files."""
    git(tree, "add", "--all")
    git(tree, "commit", "--allow-empty", "--message", "some")


def test_the_same_tree_has_the_same_order_and_another_tree_another(tree: Path) -> None:
    git(tree, "init")
    commit(tree)
    first = order_of(tree)
    commit(tree)  # nothing is different but the commit
    assert order_of(tree) == first < 2**32
    (tree / "src/some.py").write_text("another\n")
    assert order_of(tree) == first  # not committed
    commit(tree)
    assert order_of(tree) != first


@pytest.mark.parametrize("changed", ["src/some.py", "tests/test_some.py"])
def test_without_git_the_order_follows_from_the_files(tree: Path, changed: str) -> None:
    first = order_of(tree)
    assert order_of(tree) == first < 2**32
    (tree / changed).write_text("another\n")
    assert order_of(tree) != first


def options_of(*targets: str) -> list[str]:
    """Return the options of pytest in what make would run."""
    told = ("ORDER", "MAKEFLAGS", "MAKEOVERRIDES")  # of the run that this is a test of
    environment = {name: value for name, value in os.environ.items() if name not in told}
    command = ["make", "-n", *targets]
    printed = subprocess.check_output(command, cwd=ROOT, env=environment, text=True)
    (line,) = [line for line in printed.splitlines() if " -m pytest " in line]
    return [option for option in line.split() if "seed" in option]


def ran(options: list[str], tests: Path) -> list[str]:
    """Return which tests ran, and what was drawn."""
    command = [sys.executable, "-m", "pytest", "-vs", *options, str(tests)]
    command += ["-p", "no:cacheprovider", "--rootdir", str(tests), "-c", os.devnull]
    printed = subprocess.check_output(command, cwd=tests, text=True)
    return [line for line in printed.splitlines() if "::" in line or line.startswith("drawn")]


@pytest.mark.parametrize("target", ["test-unit", "test-process"])
def test_make_runs_tests_in_the_order_that_it_is_told(target: str, tmp_path: Path) -> None:
    plain = "".join(PLAIN.format(name=number) for number in range(20))
    (tmp_path / "test_some.py").write_text(plain + DRAWS)
    assert options_of(target) == []
    told, another = options_of(target, "ORDER=4711"), options_of(target, "ORDER=4712")
    first = ran(told, tmp_path)
    assert ran(told, tmp_path) == first
    assert ran(another, tmp_path) != first
