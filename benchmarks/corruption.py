"""Is damage in any byte of any file found, and repaired from a peer, with nothing lost or made up?

`python -m benchmarks.corruption --positions 10000`: bytes of every class of every file of one of
three members are changed or cut off, stopped or running; see tests/corruption. Exit code 1 when a
damage was missed, a record was lost, or a reader got something else than was written.
"""

import argparse
import logging
import sys
from collections import Counter

from tests.corruption.campaign import run_campaign
from tests.corruption.rounds import Tally

from benchmarks.harness.results import publish

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
EVERY = 500
WRONG_SHOWN = 20


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    _damage(300 if quick else 3_000, seed=1)


def _damage(positions: int, *, seed: int) -> bool:
    logging.disable(logging.CRITICAL)  # every damage says so several times
    tally = run_campaign(positions, seed, progress=_Shown())
    publish("corruption", _rows(tally), goal=GOAL)
    print(
        f"{tally.position_count:,} positions, {tally.records_read:,} batches read,"
        f" {tally.reads_refused:,} reads of damage refused, {len(tally.wrong)} wrong"
    )
    for text in tally.wrong[:WRONG_SHOWN]:
        print(text[:2_000], file=sys.stderr)
    return not tally.wrong


class _Shown:
    """Prints how far it is, now and then."""

    def __init__(self) -> None:
        self._next = EVERY

    def __call__(self, tally: Tally) -> None:
        if tally.position_count >= self._next:
            self._next = tally.position_count + EVERY
            print(f"{tally.position_count:,} positions, {len(tally.wrong)} wrong", flush=True)


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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corruption", description=__doc__)
    parser.add_argument("--positions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    return 0 if _damage(arguments.positions, seed=arguments.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
