"""What does it cost to ask who may do what, and what does everything but TLS cost together?

    python -m benchmarks access_cost                  # both
    python -m benchmarks.access_cost rules            # 10,000 rules against no authoriser
    python -m benchmarks.access_cost everything       # SASL, rules, quotas, audit against none

Two nodes stand side by side, one open and one closed. The same load goes to one and the other in
short turns, another one first each time; a ratio is of the two of one turn, and the table has the
middle, the smallest and the largest. Requests of one record come from a prepared client in C, large
batches from librdkafka. CPU is the broker's: microseconds a request, or seconds a GB.

With rules both nodes ask who a client is, so that only the authoriser differs: every request is of
a principal with 5,000 rules of its own, of which one permits it, beside 5,000 of others. With
everything on the open node's clients come in by plain text, as everybody's.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import RESULTS
from benchmarks.parts.closed_node import (
    ACCESS,
    AUDIT,
    LoginNode,
    add_quotas,
    add_rules,
    librdkafka_login,
    login_requests,
    temporary_login_node,
)
from benchmarks.parts.native import NOTHING, librdkafka, why_not
from benchmarks.parts.topics import temporary_topic
from benchmarks.peers.ratios import rotated
from benchmarks.small_requests import CASES, Where, storm_at
from harness.results import median, publish, show
from penstock.cli.exit_codes import end_with

GOAL: Final = "rules: at most 2 % more CPU; everything on: MB/s of produce and consume >= 0.95 x"
VALUE_BYTES: Final = 1024
BATCHES: Final = {"16 KiB": 16_384, "256 KiB": 262_144}

Row = dict[str, object]


class Cost(NamedTuple):
    """What one turn on one node showed."""

    speed: float
    cpu: float


class Side(NamedTuple):
    """A node, and how the measured client comes in."""

    node: LoginNode
    address: str
    prelude: bytes
    settings: Mapping[str, object]


class Scale(NamedTuple):
    """How much is done."""

    turns: int
    seconds: int
    total_bytes: int


FULL: Final = Scale(turns=9, seconds=2, total_bytes=400_000_000)
QUICK: Final = Scale(turns=5, seconds=1, total_bytes=200_000_000)
Load = Callable[[Side], Cost]


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    reason = why_not()
    if reason is not None:
        print(f"access_cost left out: {reason}")
        return
    scale = QUICK if quick else FULL
    rows = [*rules_rows(scale), *everything_rows(scale)]
    publish(RESULTS, "access_cost", rows, goal=GOAL)


def main(given: Sequence[str] | None = None) -> int:
    """Measure one of the parts, or both, and record nothing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.access_cost", description=__doc__)
    parts = {"rules": rules_rows, "everything": everything_rows}
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    parser.add_argument("--quick", action="store_true", help="less data, fewer turns")
    options = parser.parse_args(given)
    unknown = [part for part in options.parts if part not in parts]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(parts)}")
    reason = why_not()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 1
    scale = QUICK if options.quick else FULL
    chosen = options.parts or list(parts)
    rows = [row for part in chosen for row in parts[part](scale)]
    show("access_cost", rows, goal=GOAL)
    return 0


def rules_rows(scale: Scale) -> list[Row]:
    """Return what the rules cost requests of one record."""
    with temporary_login_node() as open_node, temporary_login_node(ACCESS) as closed:
        add_rules(closed)
        sides = (_logged_in(open_node), _logged_in(closed))
        return _small_rows("10,000 rules", sides, scale)


def everything_rows(scale: Scale) -> list[Row]:
    """Return what SASL, rules, quotas that do not bind and the audit cost together."""
    with temporary_login_node() as open_node, temporary_login_node(ACCESS, AUDIT) as closed:
        add_rules(closed)
        add_quotas(closed)
        sides = (Side(open_node, open_node.bootstrap, b"", NOTHING), _logged_in(closed))
        rows = []
        for name, batch in BATCHES.items():
            case = f"everything, produce {name}"
            rows.append(row_of(case, "MB/s", _turns(sides, _produce(batch, scale), scale)))
        read = _consume(BATCHES["256 KiB"], scale)
        rows.append(row_of("everything, consume", "MB/s", _turns(sides, read, scale)))
        return [*rows, *_small_rows("everything", sides, scale)]


def _logged_in(node: LoginNode) -> Side:
    return Side(node, node.login_address, login_requests(), librdkafka_login())


def _small_rows(what: str, sides: Sequence[Side], scale: Scale) -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, connections, in_flight in CASES:
            load = _storm(Path(scratch), (connections, in_flight, scale.seconds))
            rows.append(row_of(f"{what}, {name}", "requests/s", _turns(sides, load, scale)))
    return rows


def _storm(scratch: Path, how: tuple[int, int, int]) -> Load:
    def load(side: Side) -> Cost:
        with temporary_topic(side.node.bootstrap) as topic:
            found = storm_at(side.node, Where(side.address, topic, side.prelude), scratch, how)
        return Cost(found["per_second"], found["cpu_us"])

    return load


def _produce(batch: int, scale: Scale) -> Load:
    def load(side: Side) -> Cost:
        with temporary_topic(side.node.bootstrap) as topic:
            return _written(side, topic, batch, scale)

    return load


def _written(side: Side, topic: str, batch: int, scale: Scale) -> Cost:
    how = (1, VALUE_BYTES, batch, "none", "1", scale.total_bytes)
    before = side.node.cpu_seconds()
    done = librdkafka("produce", side.address, topic, *how, settings=side.settings)
    return _cost(done, side.node.cpu_seconds() - before)


def _consume(batch: int, scale: Scale) -> Load:
    """Read what was just written, which is not counted."""

    def load(side: Side) -> Cost:
        with temporary_topic(side.node.bootstrap) as topic:
            _written(side, topic, batch, scale)
            before = side.node.cpu_seconds()
            how = (1, scale.total_bytes // VALUE_BYTES * VALUE_BYTES)
            done = librdkafka("consume", side.address, topic, *how, settings=side.settings)
            return _cost(done, side.node.cpu_seconds() - before)

    return load


def _cost(done: Mapping[str, float], used: float) -> Cost:
    return Cost(done["bytes"] / 1e6 / done["seconds"], used / (done["bytes"] / 1e9))


def _turns(sides: Sequence[Side], load: Load, scale: Scale) -> list[tuple[Cost, Cost]]:
    """Put the load on both sides in turns, after one that does not count: open and closed."""
    pairs = []
    for turn in range(scale.turns + 1):
        found = {at: load(sides[at]) for at in rotated(range(len(sides)), turn)}
        pairs.append((found[0], found[1]))
    return pairs[1:]


def row_of(case: str, unit: str, pairs: Sequence[tuple[Cost, Cost]]) -> Row:
    """Return what turns came to: middles, and ratios of closed to open with their spread."""
    speeds = [closed.speed / before.speed for before, closed in pairs]
    more = [100 * (closed.cpu / before.cpu - 1) for before, closed in pairs]
    return {
        "case": case,
        "unit": unit,
        "open": median([before.speed for before, _ in pairs]),
        "closed": median([closed.speed for _, closed in pairs]),
        "ratio": median(speeds),
        "from": min(speeds),
        "to": max(speeds),
        "open CPU": median([before.cpu for before, _ in pairs]),
        "closed CPU": median([closed.cpu for _, closed in pairs]),
        "more CPU %": median(more),
        "CPU from": min(more),
        "CPU to": max(more),
    }


if __name__ == "__main__":
    end_with(main)
