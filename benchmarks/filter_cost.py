"""What an SQL-92 expression costs: processor time to compile it, and for each message.

    python -m benchmarks.filter_cost

The message has ten properties. Reading and mapping its record, which comes before, is not in it.
Each number is the best of five.
"""

import gc
import time
from collections.abc import Callable

from penstock.cli.exit_codes import end_with
from penstock.remoting.filters.compiled import CompiledExpressions
from penstock.remoting.filters.parser import parse

EXPRESSIONS = {
    "one equality": "kind = 'order'",
    "equality and number": "kind = 'order' AND amount > 100",
    "tags, range": "(TAGS IS NOT NULL AND TAGS IN ('a', 'b')) AND (amount BETWEEN 0 AND 300)",
    "400 ids": "id IN (" + ", ".join(f"'{n:036}'" for n in range(400)) + ")",
    "500 comparisons": " OR ".join(["amount = 1"] * 500),
    "64 CONTAINS": " OR ".join(["name CONTAINS 'zz'"] * 64),
}
MESSAGE = {
    "kind": "order",
    "amount": "250",
    "TAGS": "b",
    "id": f"{7:036}",
    "name": "x" * 100,
    **{f"other{n}": "value" for n in range(5)},
}
ROUNDS = 5
MESSAGES = 20_000


def main() -> None:
    """Print a row for each expression."""
    print(f"{'':24}{'us to compile':>16}{'us per message':>16}{'bytes':>10}")
    for name, text in EXPRESSIONS.items():
        compiled = CompiledExpressions(1 << 24)
        judge = compiled.get(text).judge
        compiling = best(lambda text=text: parse(text), 100)  # type: ignore[misc]
        judging = best(lambda judge=judge: judge(MESSAGE), MESSAGES)  # type: ignore[misc]
        print(f"{name:24}{compiling:16.1f}{judging:16.2f}{compiled.bytes_now:10}")


def best(work: Callable[[], object], count: int) -> float:
    """Return the microseconds of one call."""
    found = float("inf")
    gc.disable()
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(count):
            work()
        found = min(found, (time.process_time() - begun) / count * 1e6)
    gc.enable()
    return found


if __name__ == "__main__":
    end_with(main)
