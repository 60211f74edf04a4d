"""Writes the results in `benchmarks/results/` into docs/performance.md, below its marker line."""

import argparse
import json

from benchmarks import RESULTS
from benchmarks.__main__ import QUESTIONS
from benchmarks.peer_plots import PLOTS
from benchmarks.peers.report import markdown
from benchmarks.peers.store import last_file
from harness.pages import DOCS, section, write_below
from penstock.cli.exit_codes import end_with

COMMAND = "python -m benchmarks.report"


def main() -> int:
    """Rewrite the page; returns the exit code."""
    argparse.ArgumentParser(prog=COMMAND, description=__doc__).parse_args()
    files = {name: RESULTS / f"{name}.json" for name in QUESTIONS}
    sections = [*_peers(), *_plots()]
    sections += [
        section(f"python -m benchmarks {name}", file)
        for name, file in files.items()
        if file.exists()
    ]
    return write_below(DOCS / "performance.md", COMMAND, sections)


def _peers() -> list[str]:
    file = last_file()
    if file is None:
        return []
    document = json.loads(file.read_text(encoding="utf-8"))
    return [f"## `python -m benchmarks.peers`\n\n{markdown(document).rstrip()}"]


def _plots() -> list[str]:
    files = sorted(PLOTS.glob("*.png"))
    if not files:
        return []
    lines = [f"![{file.stem.replace('-', ' ')}](plots/{file.name})" for file in files]
    return ["\n\n".join(["## `python -m benchmarks.peer_plots`", *lines])]


if __name__ == "__main__":
    end_with(main)
