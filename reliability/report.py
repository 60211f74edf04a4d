"""Writes the results in `reliability/results/` into docs/reliability.md, below its marker line."""

import argparse

from harness.pages import DOCS, section, write_below
from penstock.cli.exit_codes import end_with
from reliability import RESULTS
from reliability.__main__ import QUESTIONS

COMMAND = "python -m reliability.report"
LONG = frozenset(("corruption", "bad_input", "chaos"))
"""The page tells of them in words: hundreds of rows each."""


def main() -> int:
    """Rewrite the page; returns the exit code."""
    argparse.ArgumentParser(prog=COMMAND, description=__doc__).parse_args()
    files = {name: RESULTS / f"{name}.json" for name in QUESTIONS if name not in LONG}
    sections = [
        section(f"python -m reliability {name}", file)
        for name, file in files.items()
        if file.exists()
    ]
    return write_below(DOCS / "reliability.md", COMMAND, sections)


if __name__ == "__main__":
    end_with(main)
