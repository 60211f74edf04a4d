"""Writes the results in `benchmarks/results/` into docs/performance.md, below its marker line.

`python -m benchmarks.report`: the tables of that page are never typed, so that every figure in it
was printed by a command, with the date and the machine it was measured on.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.__main__ import QUESTIONS
from benchmarks.harness.results import RESULTS, shown
from benchmarks.peer_plots import PLOTS
from benchmarks.peers.report import markdown
from benchmarks.peers.store import last_file

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
ELSEWHERE = frozenset(("corruption", "bad_input", "chaos"))
"""What docs/reliability.md tells of: hundreds of rows that say nothing of speed."""
MARKER = "<!-- below this line: python -m benchmarks.report -->"


def main() -> int:
    """Rewrite the page; returns the exit code."""
    argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__).parse_args()
    head, found, _ = PAGE.read_text(encoding="utf-8").partition(MARKER)
    if not found:
        print(f"{PAGE} has no marker line: {MARKER}", file=sys.stderr)
        return 1
    sections = [*_peers(), *_plots()]
    names = [name for name in QUESTIONS if name not in ELSEWHERE]
    sections += [_section(name) for name in names if (RESULTS / f"{name}.json").exists()]
    PAGE.write_text(head + MARKER + "\n\n" + "\n\n".join(sections) + "\n", encoding="utf-8")
    return 0


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


def _section(name: str) -> str:
    file = RESULTS / f"{name}.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    machine = document["machine"]
    commit = document.get("commit") or f"before {_recorded_in(file)}"
    load = machine["load_average"][0]
    lines = [
        f"## `python -m benchmarks {name}`",
        "",
        f"{document['measured_at'][:16].replace('T', ' ')} UTC, {machine['cpu']}, "
        f"{machine['cores']} cores, load {load} at the end, Python {machine['python']}, "
        f"commit {commit}.",
    ]
    if document["goal"]:
        lines.append(f"Goal: {document['goal']}.")
    return "\n".join([*lines, "", *_table(document["rows"])])


def _recorded_in(file: Path) -> str:
    """Return the commit that brought a result; results say themselves what they measured since."""
    command = ["git", "log", "-1", "--format=%h", "--", file.name]
    said = subprocess.run(
        command, cwd=file.parent, capture_output=True, text=True, timeout=30, check=True
    )
    return said.stdout.strip()


def _table(rows: list[dict[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(shown(row.get(name, "")) for name in names) + " |" for row in rows]
    return lines


if __name__ == "__main__":
    sys.exit(main())
