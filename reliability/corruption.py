"""Is damage in any byte of any file found, and repaired from a peer, with nothing lost or made up?

`python -m reliability.corruption --positions 10000`: bytes of every class of every file of one of
three members are changed or cut off, stopped or running; see reliability/damage. Then the same
under three real processes and stock clients, `--process-rounds` times. Exit code 1 when a damage
was missed, a record was lost, or a reader got something else than was written.
"""

import argparse
import logging
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from harness.results import publish
from penstock.cli.exit_codes import end_with
from reliability import RESULTS
from reliability.damage.campaign import run_campaign
from reliability.damage.corruption_processes import damage_processes
from reliability.damage.rounds import Tally

GOAL = "corruption on a minority: 100 % found, 0 lost, repaired from a peer"
OUTCOMES = {
    "repaired from a peer": "repaired",
    "made anew": "made anew",
    "refused, nothing changed": "refused",
    "replaced unread": "replaced unread",
    "never looked at": "unused bytes",
    "says the same": "says the same",
    "MISSED": "missed",
}
SEEDS = 1_000
"""Seeds of one run: one for each worker."""
WRONG_SHOWN = 20


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m reliability`."""
    _damage(300 if quick else 3_000, seed=1)
    _damage_processes(2 if quick else 10, seed=1)


def _damage(positions: int, *, seed: int, workers: int = 1) -> bool:
    tally = Tally()
    with ProcessPoolExecutor(workers, initializer=_silence) as pool:
        parts = [
            pool.submit(run_campaign, -(-positions // workers), seed * SEEDS + number)
            for number in range(workers)
        ]
        for part in as_completed(parts):
            tally.add(part.result())
            print(f"{tally.position_count:,} positions, {len(tally.wrong)} wrong", flush=True)
    return _told("corruption", tally)


def _silence() -> None:
    logging.disable(logging.CRITICAL)  # every damage says so several times


def _damage_processes(rounds: int, *, seed: int) -> bool:
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="corruption-") as directory:
        damage_processes(Path(directory), rounds, seed, tally)
    return _told("corruption_processes", tally)


def _told(question: str, tally: Tally) -> bool:
    """Publish what became of all damages; returns whether nothing was wrong."""
    publish(RESULTS, question, _rows(tally), goal=GOAL)
    print(
        f"{tally.position_count:,} positions, {tally.records_read:,} batches or records read,"
        f" {tally.reads_refused:,} reads of damage refused, {len(tally.wrong)} wrong"
    )
    for text in tally.wrong[:WRONG_SHOWN]:
        print(text[:2_000], file=sys.stderr)
    return not tally.wrong


def _rows(tally: Tally) -> list[dict[str, object]]:
    """One row for each class of bytes and mode, and one for all."""
    by_class: dict[tuple[str, str], Counter[str]] = {}
    total: Counter[str] = Counter()
    for verdict, count in sorted(tally.verdicts.items()):
        by_class.setdefault((verdict.name, verdict.mode), Counter())[verdict.outcome] += count
        total[verdict.outcome] += count
    rows = [_row(name, mode, counts) for (name, mode), counts in sorted(by_class.items())]
    return [*rows, _row("all", "", total)]


def _row(name: str, mode: str, counts: Counter[str]) -> dict[str, object]:
    shown = {text: counts[outcome] for outcome, text in OUTCOMES.items()}
    return {"bytes": name, "member": mode, "positions": sum(counts.values()), **shown}


def main() -> int:
    """Read the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m reliability.corruption", description=__doc__)
    parser.add_argument("--positions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--process-rounds", type=int, default=40)
    parser.add_argument("--workers", type=int, default=1, help="processes for the positions")
    arguments = parser.parse_args()
    is_good = True
    if arguments.positions:
        is_good = _damage(arguments.positions, seed=arguments.seed, workers=arguments.workers)
    if arguments.process_rounds:
        is_good &= _damage_processes(arguments.process_rounds, seed=arguments.seed)
    return 0 if is_good else 1


if __name__ == "__main__":
    end_with(main)
