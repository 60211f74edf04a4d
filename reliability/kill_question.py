"""A question that a cluster answers while its nodes are killed: its command line, and its row."""

import argparse
from collections.abc import Callable
from typing import NamedTuple

from harness.results import publish
from reliability import RESULTS


class KillQuestion(NamedTuple):
    """See the module."""

    name: str
    """Of the module in this package."""
    goal: str
    run_kills: Callable[[int, int], dict[str, object]]
    """Takes the number of kills and a seed, returns the row; its verdict is `ok` or what broke."""
    few: int = 4
    """Kills of a short run."""

    def run(self, *, quick: bool) -> None:
        """Answer the question as part of `python -m reliability`."""
        self._publish(self.run_kills(self.few if quick else 20, 1))

    def main(self, about: str | None) -> int:
        """Read the command line; returns the exit code."""
        parser = argparse.ArgumentParser(
            prog=f"python -m reliability.{self.name}", description=about
        )
        parser.add_argument("--kills", type=int, default=50)
        parser.add_argument("--seed", type=int, default=1)
        arguments = parser.parse_args()
        row = self.run_kills(arguments.kills, arguments.seed)
        self._publish(row)
        return 0 if row["verdict"] == "ok" else 1

    def _publish(self, row: dict[str, object]) -> None:
        publish(RESULTS, self.name, [row], goal=self.goal)
