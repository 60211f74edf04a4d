"""Checks that no room holds more than its share of the lines (ADR 0080).

    python tools/shares.py [ROOT]

prints a line for each room that holds too much, and exits with 1 if there is any. Lines of Python
below `src/penstock` count, docstrings and blank ones too; compiled twins do not.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from penstock.cli.exit_codes import end_with

PERCENT_MAX = 12
"""A room above it has another room hidden in it."""


def lines_by_room(source: Path) -> dict[str, int]:
    """Return the lines of each package directly below `source`."""
    return {
        room.parent.name: sum(
            path.read_text(encoding="utf-8").count("\n") for path in room.parent.rglob("*.py")
        )
        for room in sorted(source.glob("*/__init__.py"))
    }


def above(lines: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each room that holds more than PERCENT_MAX of all lines."""
    total = sum(lines.values())
    for room, count in lines.items():
        if count * 100 > PERCENT_MAX * total:
            percent = f"{100 * count / total:.1f} %"
            yield f"src/penstock/{room}: {percent} of the lines, at most {PERCENT_MAX} %"


def main(arguments: Sequence[str]) -> int:
    """Print which rooms hold too much; return the exit code."""
    root = Path(arguments[0]) if arguments else Path(__file__).parent.parent
    lines = lines_by_room(root / "src" / "penstock")
    found = list(above(lines))
    for sentence in found:
        print(f"{sentence}: move what is another room's")
    largest = max(lines, key=lambda room: lines[room])
    share = 100 * lines[largest] / sum(lines.values())
    print(f"shares: {len(found)} too large; the largest is {largest}, {share:.1f} %")
    return 1 if found else 0


if __name__ == "__main__":
    end_with(lambda: main(sys.argv[1:]))
