"""A repository with one module, penstock/base/door.py, and its tests, to make slips in."""

import subprocess
from pathlib import Path

from tools.mutants import edges

TOOL = Path(edges.__file__).parent
PLUGIN = ("called", "forking", "in_effect")
"""What pytest loads in the copy."""


def make_repository(root: Path, code: str, tests: str) -> None:
    for place, text in (
        ("src/penstock/__init__.py", ""),
        ("src/penstock/base/__init__.py", ""),
        ("src/penstock/base/door.py", code),
        ("tests/base/test_door.py", tests),
        ("tools/__init__.py", ""),
        ("tools/mutants/__init__.py", ""),
        *((f"tools/mutants/{one}.py", (TOOL / f"{one}.py").read_text()) for one in PLUGIN),
        (
            "pytest.ini",
            "[pytest]\naddopts = --import-mode=importlib\nmarkers =\n process\n spark\n compat\n",
        ),
    ):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    commit(root)


def commit(root: Path) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("add", "-A"), (*author, "commit", "-qm", "all")):
        subprocess.run(["git", "-C", str(root), *command], check=True)
