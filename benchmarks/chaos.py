"""`make chaos`: a cluster of real processes, broken in every way, judged by what its clients saw.

`python -m benchmarks.chaos [--seconds 240 | --faults N] [--kinds kill-broker,stop-most,...]`: three
brokers and three controllers apart, then three nodes with controllers inside; kill -9 and SIGSTOP;
idempotent librdkafka producers with acks=all, a consumer, and a reader that stays with each broker.
A page and the figures go to build/chaos. Exit code 1 for a broken promise; then logs are kept.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.harness.chaos import KINDS, Chaos, ChaosRun, Kind
from benchmarks.harness.chaos_report import as_row, write_page
from benchmarks.harness.cluster import ClusterProcess
from benchmarks.harness.machine import describe
from benchmarks.harness.results import publish
from benchmarks.harness.trials import CLIENT_TIMEOUT_MS, QUICK_SESSIONS, SESSION_TIMEOUT_MS
from benchmarks.harness.workload import Load

GOAL = "0 lost, 0 double, 0 out of order, nothing read that vanishes, no stale read"
REPORT = Path("build/chaos")


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
    faults = 1 if quick else 5
    chaos(directory, list(KINDS.values()), _times(faults), seed=1)
    shutil.rmtree(directory, ignore_errors=True)


def chaos(
    directory: Path,
    kinds: Sequence[Kind],
    until: Callable[[], Callable[[int], bool]],
    *,
    seed: int,
) -> list[ChaosRun]:
    """Run every kind in turn, those with controllers apart first; returns what they did."""
    runs: list[ChaosRun] = []
    chooser = random.Random(seed)
    for is_apart in (True, False):
        wanted = [kind for kind in kinds if kind.are_controllers_apart == is_apart]
        if not wanted:
            continue
        name = "apart" if is_apart else "inside"
        controllers = 3 if is_apart else 0
        with ClusterProcess(
            directory / name, controllers=controllers, settings=QUICK_SESSIONS
        ) as cluster:
            for kind in wanted:
                load = _load(cluster, kind, seed)
                one = Chaos(cluster=cluster, kind=kind, load=load, chooser=chooser)
                runs.append(one.repeat(until()))
                print(_line(runs[-1]), *runs[-1].problems, sep="\n", flush=True)
                if runs[-1].problems:
                    break  # the cluster may be no good for the next kind
    return runs


def _load(cluster: ClusterProcess, kind: Kind, seed: int) -> Load:
    return Load(
        topic=kind.name,
        partitions=3,
        producers=2,
        records_per_second=600,
        seed=seed,
        socket_timeout_ms=CLIENT_TIMEOUT_MS,
        direct_brokers=tuple(node.bootstrap for node in cluster.nodes.values()),
        stale_seconds_max=SESSION_TIMEOUT_MS / 1000,
    )


def _line(one: ChaosRun) -> str:
    row = as_row(one)
    return f"{row['fault']}: {row['faults']} faults, {row['verdict']}, {row['write gap s, max']} s"


def _times(faults: int) -> Callable[[], Callable[[int], bool]]:
    return lambda: lambda done: done < faults


def _seconds(each: float) -> Callable[[], Callable[[int], bool]]:
    """At least one fault, then others while there is time."""

    def begin() -> Callable[[int], bool]:
        deadline = time.monotonic() + each
        return lambda done: not done or time.monotonic() < deadline

    return begin


def main() -> int:
    """Read the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--kinds", default="", help=f"of {', '.join(KINDS)}; all without it")
    parser.add_argument("--faults", type=int, default=0, help="of each kind, instead of a time")
    parser.add_argument("--seconds", type=float, default=200, help="of breaking, over all kinds")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--report", type=Path, default=REPORT, help="directory of the report")
    arguments = parser.parse_args()
    names = [name for name in arguments.kinds.split(",") if name] or list(KINDS)
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        parser.error(f"no such kind: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    kinds = [KINDS[name] for name in names]
    by_time = _seconds(arguments.seconds / len(kinds))
    until = _times(arguments.faults) if arguments.faults else by_time
    directory = Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
    runs = chaos(directory, kinds, until, seed=arguments.seed)
    return _report(runs, arguments.report, directory, seed=arguments.seed)


def _report(runs: list[ChaosRun], target: Path, directory: Path, *, seed: int) -> int:
    rows = [as_row(one) for one in runs]
    publish("chaos", rows, goal=GOAL)
    machine = describe()
    heading = f"seed {seed}; {machine['cpu']}, {machine['cores']} cores. {GOAL}."
    write_page(target / "report.html", runs, heading=heading)
    spans = {one.kind.name: [span._asdict() for span in one.spans] for one in runs}
    document = {"seed": seed, "machine": machine, "goal": GOAL, "rows": rows, "faults": spans}
    (target / "report.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"report: {target / 'report.html'}")
    if any(one.problems for one in runs):
        print(f"settings and logs are kept in {directory}; seed {seed}", file=sys.stderr)
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
