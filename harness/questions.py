"""The command line of a package of questions: one module each, asked by name.

A question's module has `run(quick=...)`, or it is a program that runs with its defaults.
"""

import argparse
import importlib
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence


def ask(package: str, questions: Sequence[str], description: str | None) -> int:
    """Ask the questions of a package, or those named; returns 1 when one could not be answered."""
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=description)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(questions))
    parser.add_argument("--quick", action="store_true", help="less data, fewer repetitions")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in questions]
    if unknown:
        parser.error(f"no such question: {', '.join(unknown)}; there are {', '.join(questions)}")
    failed = []
    for name in arguments.names or questions:
        begun = time.monotonic()
        if not _answer(f"{package}.{name}", quick=arguments.quick):
            failed.append(name)
        print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
    if failed:
        print(f"not answered: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _answer(name: str, *, quick: bool) -> bool:
    """Ask one question; say whether it was answered."""
    try:
        module = importlib.import_module(name)
        if hasattr(module, "run"):
            module.run(quick=quick)
            return True
        return subprocess.run([sys.executable, "-m", name], check=False).returncode == 0
    except Exception:  # noqa: BLE001  one question that fails must not take the others along
        traceback.print_exc()
        return False
