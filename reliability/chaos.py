"""`make chaos`: a cluster of real processes on hosts of their own, broken in every way, and judged.

    python -m reliability.chaos [--faults N] [--kinds a,b] [--layout combined|apart] [--seed S]
                               [--cycle SECONDS] [--secure] [--clean]

Hosts are network namespaces behind a switch of our own, with a disk each; that needs root. Without
it processes are killed and stopped on loopback addresses, and the rest is skipped with the reason.
Rounds alternate between three brokers with three controllers apart and three nodes with controllers
inside; each goes through the scenarios in an order of its own. After every round the report in
build/chaos is written anew, and reliability/results/chaos.json has grown by it. See docs/chaos.md.
Exit code 1 for a broken promise; then the logs are kept.
"""

import argparse
import itertools
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.machine import commit, describe
from harness.results import show
from penstock.cli.exit_codes import end_with
from reliability import RESULTS
from reliability.faults import chaos_totals, chaos_world
from reliability.faults.chaos import Outcome, Plan, run_round
from reliability.faults.chaos_disk import why_no_tampering
from reliability.faults.chaos_process import build_clock, why_no_groups
from reliability.faults.chaos_report import by_scenario, faults_of, judged, write_report
from reliability.faults.chaos_scenarios import SCENARIOS, Layout, Need, Scenario

GOAL = "0 lost, 0 double, 0 out of order, nothing read that vanishes, no stale read"
REPORT = Path("build/chaos")
TOTALS = RESULTS / "chaos.json"
FAULTS = 60
ROUND_FAULTS_MAX = 40
"""A round keeps its whole history in memory, and is judged as a whole."""
CYCLE_SECONDS = 3.5
SECONDS_PER_FAULT_MAX = 60.0
SECONDS_MORE = 400.0


class _Can(NamedTuple):
    """What this machine lets a run do."""

    world: str
    clock: Path | None
    missing: dict[Need, str]


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m reliability`."""
    code = main(["--faults", "4" if quick else str(FAULTS)])
    if code:
        raise RuntimeError("a promise was broken: see the report")


def main(given: Sequence[str] | None = None) -> int:
    """Read the command line; returns the exit code."""
    arguments = _arguments(given)
    if arguments.clean:
        print("\n".join(chaos_world.clean()) or "nothing was left behind")
        return 0
    if arguments.world:
        chaos_world.enter()
        try:
            return _run(arguments, arguments.directory)
        except KeyboardInterrupt:  # the outer process has said so
            return chaos_world.INTERRUPTED
    chaos_world.clean(has_files=False)
    name = chaos_world.name_of_run()
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    try:
        code = _start(arguments, name, directory, given)
    except KeyboardInterrupt:
        code = 130
    if code == 1:
        print(f"settings and logs are kept in {directory}", file=sys.stderr)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return code


def _start(
    arguments: argparse.Namespace, name: str, directory: Path, given: Sequence[str] | None
) -> int:
    """Run in a world of its own if there can be one, else here."""
    reason = "it was asked for" if arguments.loopback else chaos_world.why_not()
    if reason is not None:
        print(f"no hosts of their own, only kill and SIGSTOP on loopback addresses: {reason}")
        return _run(arguments, directory)
    own = ["--world", name, "--directory", str(directory), "--seed", str(arguments.seed)]
    words = [sys.executable, "-m", "reliability.chaos", *(given or sys.argv[1:]), *own]
    return chaos_world.run_inside(
        words, seconds=arguments.faults * SECONDS_PER_FAULT_MAX + SECONDS_MORE
    )


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m reliability.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--faults", type=int, default=FAULTS, help="how many, over all scenarios")
    parser.add_argument("--kinds", default="", help=f"of {', '.join(SCENARIOS)}; all without it")
    parser.add_argument("--layout", choices=[one.value for one in Layout], help="only this one")
    parser.add_argument("--seed", default=str(int(time.time())), help="names the faults")
    parser.add_argument(
        "--cycle", type=float, default=CYCLE_SECONDS, help="seconds per fault, at least"
    )
    parser.add_argument("--report", type=Path, default=REPORT, help="directory of the report")
    parser.add_argument("--totals", type=Path, default=TOTALS, help="file that results go into")
    parser.add_argument("--loopback", action="store_true", help="as without root")
    parser.add_argument(
        "--secure", action="store_true", help="clients come in over TLS, by SCRAM-SHA-512"
    )
    parser.add_argument(
        "--plant-async",
        action="store_true",
        help="acknowledge before the disk has a record: power cuts must be found to lose some",
    )
    parser.add_argument("--clean", action="store_true", help="remove what killed runs left behind")
    parser.add_argument("--world", default="", help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args(given)
    unknown = [name for name in _names(arguments) if name not in SCENARIOS]
    if unknown:
        parser.error(f"no such kind: {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    return arguments


def _names(arguments: argparse.Namespace) -> list[str]:
    return [name for name in arguments.kinds.split(",") if name] or list(SCENARIOS)


def _run(arguments: argparse.Namespace, directory: Path) -> int:
    """Run round after round; returns the exit code."""
    for name in ("aiokafka", "kafka"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # each fault is hundreds of lines
    can = _can(arguments.world, directory)
    wanted = [SCENARIOS[name] for name in _names(arguments)]
    for need, reason in can.missing.items():
        skipped = [one.name for one in wanted if need in one.needs]
        if skipped:
            print(f"skipped: {', '.join(skipped)}: {reason}")
    possible = [one for one in wanted if not one.needs & can.missing.keys()]
    outcomes: list[Outcome] = []
    for number, (layout, scenarios) in enumerate(
        rounds_of(possible, arguments.faults, seed=arguments.seed, layout=arguments.layout)
    ):
        plan = Plan(
            layout=layout,
            seed=f"{arguments.seed}-{number}",
            scenarios=scenarios,
            directory=directory / f"round-{number}",
            cycle_seconds=arguments.cycle,
            world=can.world,
            clock=can.clock,
            is_secure=arguments.secure,
            is_async=arguments.plant_async,
        )
        outcomes.append(run_round(plan))
        _say(outcomes, arguments)
        if not outcomes[-1].problems:
            shutil.rmtree(plan.directory, ignore_errors=True)
    return _end(outcomes, arguments)


def _can(world: str, directory: Path) -> _Can:
    """Find out what this machine can do."""
    missing: dict[Need, str] = {}
    if not world:
        missing[Need.WORLD] = "it has no hosts and disks of its own here"
        return _Can("", None, missing)
    clock = build_clock(directory)
    if isinstance(clock, str):
        missing[Need.CLOCK] = clock
    for need, why_not in ((Need.TAMPERING, why_no_tampering), (Need.GROUPS, why_no_groups)):
        reason = why_not()
        if reason is not None:
            missing[need] = reason
    return _Can(world, None if isinstance(clock, str) else clock, missing)


def rounds_of(
    possible: Sequence[Scenario], faults: int, *, seed: str, layout: str | None
) -> Iterator[tuple[Layout, list[Scenario]]]:
    """Yield layouts in turn, each with scenarios in an order of its own.

    Layouts get faults by how many scenarios they have; all of a layout come before any comes again.
    """
    chooser = random.Random(f"{seed}-order")
    layouts = [one for one in Layout if layout in {None, one.value}]
    kinds = {at: [one for one in possible if at in one.layouts] for at in layouts}
    left, total = faults, sum(map(len, kinds.values()))
    series: list[list[tuple[Layout, list[Scenario]]]] = []
    for at, known in kinds.items():
        count = round(left * len(known) / total) if total else 0
        left, total = left - count, total - len(known)
        drawn = list(itertools.islice(_deck(known, chooser), count))
        rounds = -(-count // ROUND_FAULTS_MAX)
        series.append([(at, drawn[number::rounds]) for number in range(rounds)])
    for together in itertools.zip_longest(*series):
        yield from (one for one in together if one is not None)


def _deck(known: Sequence[Scenario], chooser: random.Random) -> Iterator[Scenario]:
    """Yield all in a random order, again and again."""
    while known:
        yield from chooser.sample(known, len(known))


def _say(outcomes: list[Outcome], arguments: argparse.Namespace) -> None:
    """Tell what the last round did, and write it down."""
    last = outcomes[-1]
    row = judged(last)
    print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    print(*last.problems, sep="\n", file=sys.stderr, flush=True)
    chaos_totals.add(arguments.totals, last, goal=GOAL)
    machine = describe()
    head: dict[str, object] = {
        "seed": arguments.seed,
        "commit": commit(),
        "machine": f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}",
        "rounds": len(outcomes),
        "faults": sum(len(outcome.faults) for outcome in outcomes),
    }
    write_report(arguments.report, outcomes, head=head, goal=GOAL)


def _end(outcomes: list[Outcome], arguments: argparse.Namespace) -> int:
    if not outcomes:
        print("nothing could be done", file=sys.stderr)
        return 1
    show("chaos: recovery by scenario", by_scenario(faults_of(outcomes)))
    show("chaos: rounds", [judged(outcome) for outcome in outcomes], goal=GOAL)
    for outcome in outcomes:
        if outcome.problems:
            print(
                f"layout {outcome.layout.value}, seed {outcome.seed}:",
                *outcome.problems,
                sep="\n  ",
            )
    print(f"report: {arguments.report / 'report.html'}; sums: {arguments.totals}")
    return 1 if any(outcome.problems for outcome in outcomes) else 0


if __name__ == "__main__":
    end_with(main)
