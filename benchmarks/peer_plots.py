"""Draws how cost grows, from the recorded rows: one PNG for each curve, beside its numbers.

`python -m benchmarks.peer_plots` reads the last `benchmarks/results/peers-<date>.json` and writes
`docs/plots/<curve>.png` and `<curve>.csv` with the same points. It needs matplotlib, which is no
dependency of this project (requirements/plots.lock): without it, it says so and writes the numbers
only.
"""

import argparse
import csv
import importlib.util
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers.store import last_file
from penstock.cli.exit_codes import end_with

PLOTS = Path(__file__).resolve().parent.parent / "docs" / "plots"
AXES = {
    "throughput against partitions": "partitions",
    "throughput against batch size": "bytes a batch",
    "throughput against message size": "bytes a message",
    "throughput against connections": "connections",
    "memory against partitions": "partitions",
    "memory against connections": "idle connections",
    "recovery against log size": "bytes in the log",
}


class Point(NamedTuple):
    """One measured value of a curve."""

    server: str
    at: float
    value: float


class Curve(NamedTuple):
    """What one plot shows."""

    name: str
    unit: str
    points: tuple[Point, ...]

    @property
    def file_stem(self) -> str:
        """The name of its files."""
        return self.name.replace(" ", "-")

    def lines(self) -> dict[str, list[tuple[float, float]]]:
        """Return the points of each server in the order of the axis."""
        found: dict[str, list[tuple[float, float]]] = {}
        for point in sorted(self.points, key=lambda one: (one.server, one.at)):
            found.setdefault(point.server, []).append((point.at, point.value))
        return found


def curves_of(rows: Iterable[Mapping[str, Any]]) -> list[Curve]:
    """Return the curves in these rows; ours is in a row for each peer, and drawn once."""
    points: dict[str, dict[tuple[str, float], float]] = {}
    units: dict[str, str] = {}
    for row in rows:
        if not row.get("curve"):
            continue
        units[row["curve"]] = row["unit"]
        mine = points.setdefault(row["curve"], {})
        for server, value in ((row["ours_is"], row["ours"]), (row["peer_is"], row["peer"])):
            if value is not None:
                mine.setdefault((server, row["at"]), value)
    return [
        Curve(name, units[name], tuple(Point(*key, value) for key, value in found.items()))
        for name, found in points.items()
        if found
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write numbers and plots; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peer_plots", description=__doc__)
    parser.add_argument("--results", type=Path, help="a file other than the last one")
    parser.add_argument("--to", type=Path, default=PLOTS, help="directory")
    options = parser.parse_args(arguments)
    file = options.results or last_file()
    if file is None:
        print("nothing was measured yet: make bench-peers", file=sys.stderr)
        return 1
    curves = curves_of(json.loads(file.read_text(encoding="utf-8"))["rows"])
    options.to.mkdir(parents=True, exist_ok=True)
    for curve in curves:
        _write_numbers(curve, options.to / f"{curve.file_stem}.csv")
    if importlib.util.find_spec("matplotlib") is None:
        print("plots left out: matplotlib is not installed (pip install matplotlib)")
        return 0
    for curve in curves:
        _draw(curve, options.to / f"{curve.file_stem}.png", source=file.name)
    return 0


def _write_numbers(curve: Curve, file: Path) -> None:
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["server", AXES[curve.name], curve.unit])
        for server, line in curve.lines().items():
            writer.writerows([server, f"{at:g}", f"{value:g}"] for at, value in line)
    print(file)


def _draw(curve: Curve, file: Path, *, source: str) -> None:
    import matplotlib as mpl  # noqa: PLC0415  the only place that needs it

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415  after the backend is chosen

    figure, axes = pyplot.subplots(figsize=(7, 4.2), dpi=120)
    for server, line in curve.lines().items():
        axes.plot([at for at, _ in line], [value for _, value in line], marker="o", label=server)
    axes.set_xscale("symlog" if any(point.at == 0 for point in curve.points) else "log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(AXES[curve.name])
    axes.set_ylabel(curve.unit)
    axes.set_title(f"{curve.name} ({source})", fontsize=10)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(file, metadata={"Software": None})
    pyplot.close(figure)
    print(file)


if __name__ == "__main__":
    end_with(main)
