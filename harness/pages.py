"""Tables of recorded results for a page of documentation, below the page's marker line.

They are never typed, so that every figure was printed by a command, with the date and the machine
it was measured on.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.results import shown

DOCS = Path(__file__).resolve().parent.parent / "docs"


def write_below(page: Path, command: str, sections: Iterable[str]) -> int:
    """Replace what is below the marker line of `command`; returns the exit code."""
    marker = f"<!-- below this line: {command} -->"
    head, found, _ = page.read_text(encoding="utf-8").partition(marker)
    if not found:
        print(f"{page} has no marker line: {marker}", file=sys.stderr)
        return 1
    page.write_text(head + marker + "\n\n" + "\n\n".join(sections) + "\n", encoding="utf-8")
    return 0


def section(command: str, file: Path) -> str:
    """Return a result file as a table below a heading: when, where, at which commit."""
    document = json.loads(file.read_text(encoding="utf-8"))
    machine = document["machine"]
    commit = document.get("commit") or f"before {_recorded_in(file)}"
    load = machine["load_average"][0]
    lines = [
        f"## `{command}`",
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
    command = ["git", "log", "-1", "--follow", "--diff-filter=AM", "--format=%h", "--", file.name]
    said = subprocess.run(
        command, cwd=file.parent, capture_output=True, text=True, timeout=30, check=True
    )
    return said.stdout.strip()


def _table(rows: list[dict[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(shown(row.get(name, "")) for name in names) + " |" for row in rows]
    return lines
