"""Did Penstock become slower? A short run beside the peers against the last recorded ratios.

`python -m benchmarks.guard` (`make bench-guard`) measures some rows anew and fails when a ratio is
more than 15 % below what `benchmarks/results/peers-<date>.json` holds, or when our own server can
not be measured. Ratios within one run are compared and never absolute figures, so a busy machine is
no reason to fail; a short run can be off by chance, so a row that fails is measured once more, and
only one that fails both times counts. Kafka and the stub alone are asked: a loss of ours shows
beside any of them. It is no test, and takes a quarter of an hour and more.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers.__main__ import main as measure_peers
from benchmarks.peers.store import key_of, last_file
from harness.results import show
from penstock.cli.exit_codes import end_with

LOSS_MAX = 0.15
"""The share of a recorded ratio that may be lost."""
ROUNDS = 3
ROWS = (
    "produce-16k",
    "produce-256k",
    "produce-256k-lz4",
    "consume-hot",
    "consume-hot-100",
    "small-pipelined",
    "stub-256k",
)
"""Short ones that repeat well: no percentiles, no restarts."""
PEERS = "kafka,stub"


class Comparison(NamedTuple):
    """One row then and now."""

    name: str
    peer: str
    recorded: float
    fresh: float

    @property
    def loss(self) -> float:
        """The share of the ratio that is gone; below 0 it has grown."""
        return 1 - self.fresh / self.recorded

    def is_lost(self, loss_max: float = LOSS_MAX) -> bool:
        """Whether more is gone than may be."""
        return self.loss > loss_max


def compare(
    recorded: Iterable[Mapping[str, Any]], fresh: Iterable[Mapping[str, Any]]
) -> list[Comparison]:
    """Return the rows that have a ratio in both; the client's own CPU is no merit of ours."""
    before = {key_of(row): row["ratio"] for row in recorded if row["ratio"]}
    return [
        Comparison(*key_of(row), before[key_of(row)], row["ratio"])
        for row in fresh
        if row["ratio"] and key_of(row) in before and not row["name"].endswith(".client_cpu")
    ]


def broken(fresh: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the rows for which our own side showed nothing, with the reason."""
    return [f"{row['name']}: {row.get('reason')}" for row in fresh if row["ours"] is None]


def verdict(found: Sequence[Comparison], again: Sequence[Comparison]) -> list[Comparison]:
    """Return the rows that are lost in both runs, with the better of the two."""
    second = {(one.name, one.peer): one for one in again}
    lost = []
    for one in found:
        other = second.get((one.name, one.peer))
        better = other if other is not None and other.fresh > one.fresh else one
        if better.is_lost():
            lost.append(better)
    return lost


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line; returns 1 when a ratio was lost or nothing could be compared."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__)
    parser.add_argument("--rows", default=",".join(ROWS), help="names or patterns, with commas")
    parser.add_argument("--peers", default=PEERS, help="products, with commas; empty: all")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--recorded", type=Path, help="results other than the last ones")
    parser.add_argument("--fresh", type=Path, help="compare these, measure nothing")
    options = parser.parse_args(arguments)
    file = options.recorded or last_file()
    if file is None:
        print("nothing is recorded yet: make bench-peers", file=sys.stderr)
        return 1
    recorded = _rows(file)
    fresh = _fresh(options, options.rows)
    found = compare(recorded, fresh)
    for text in broken(fresh):
        print(f"not measured: {text}", file=sys.stderr)
    if not found:
        print(f"no row of {options.rows} has a ratio in {file} and now", file=sys.stderr)
        return 1
    suspects = sorted({one.name.partition(".")[0] for one in found if one.is_lost()})
    again = []
    if suspects and not options.fresh:
        print(f"once more: {', '.join(suspects)}")
        again = compare(recorded, _fresh(options, ",".join(suspects)))
    lost = verdict(found, again)
    _print(found, lost, file)
    return 1 if lost or broken(fresh) else 0


def _fresh(options: argparse.Namespace, rows: str) -> list[dict[str, Any]]:
    if options.fresh:
        return _rows(options.fresh)
    with tempfile.TemporaryDirectory(prefix="penstock-guard-") as scratch:
        file = Path(scratch) / "fresh.json"
        how = ["--short", "--rounds", str(options.rounds), "--results", str(file)]
        measure_peers([*how, "--rows", rows, "--peers", options.peers])
        return _rows(file)


def _rows(file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return rows


def _print(found: Sequence[Comparison], lost: Sequence[Comparison], file: Path) -> None:
    gone = {(one.name, one.peer) for one in lost}
    show(
        f"ratios against {file.name}",
        [
            {
                "row": one.name,
                "peer": one.peer,
                "recorded": one.recorded,
                "now": one.fresh,
                "loss": f"{one.loss:+.0%}",
                "verdict": "LOST" if (one.name, one.peer) in gone else "ok",
            }
            for one in found
        ],
        goal=f"no ratio more than {LOSS_MAX:.0%} below the recorded one",
    )


if __name__ == "__main__":
    end_with(main)
