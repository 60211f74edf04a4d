"""Break a simulated cluster on purpose: `python -m simulator --seed 7`.

    --seed 7                       one run, with a full report
    --seeds 1..200 --jobs 2        many runs, a line for each, and their reach by room
    --campaign FILE --seeds 1..N   the same, with results added up in a file; can be resumed
    --like FILE --seeds 1..N       the same: are the traces those of the runs in that file?
    --covering --seeds 1..25       a few of them, which have every kind of fault, cluster and client
    --twice --seeds 1..4           each in two processes with other hash seeds: are traces equal?
    --plan FILE                    a plan that was printed or saved

The exit code is 1 if a check fails, or if 75 seeds or more reach less of a room than its floor. The
shortest plan that still fails a check is searched for, printed and saved.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.base.errors import ConfigError
from penstock.cli.exit_codes import end_with
from simulator.reach import floors
from simulator.reach.table import by_room, lines
from simulator.run.campaign import Campaign
from simulator.run.covering import covering
from simulator.run.equal_traces import RunFailed, differences, digests, traces
from simulator.run.one_run import RunResult, run_plan
from simulator.run.plan import Plan
from simulator.run.planning import make_plan
from simulator.run.report import story
from simulator.run.shrink import RUNS_MAX, shrink

FAULTS_DEFAULT = 12


class _Timed(logging.Formatter):
    """Puts the simulated time in front of what nodes log."""

    def format(self, record: logging.LogRecord) -> str:
        with contextlib.suppress(RuntimeError):  # a callback of no node's loop
            return f"{asyncio.get_running_loop().time():11.6f} {super().format(record)}"
        return super().format(record)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as the command line says; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.covering and (options.twice or not options.seeds):
        parser.error("--covering chooses among --seeds, and does not go with --twice")
    level = logging.INFO if options.log else logging.CRITICAL + 1
    logging.basicConfig(level=level)
    logging.getLogger().handlers[0].setFormatter(_Timed("%(name)s %(message)s"))
    try:
        if options.seeds:
            return _twice(options) if options.twice else _many(options)
        return _one(_plan(options), options)
    except (ConfigError, OSError) as error:
        print(f"simulator: {error}", file=sys.stderr)  # noqa: T201
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulator", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int, help="run one seed")
    what.add_argument("--seeds", type=_seeds, metavar="FIRST..LAST", help="run many seeds")
    what.add_argument("--plan", type=Path, metavar="FILE", help="run a saved plan")
    parser.add_argument(
        "--faults", type=int, default=FAULTS_DEFAULT, help="faults of a seed's plan"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes for --seeds")
    parser.add_argument(
        "--campaign", "--results", type=Path, metavar="FILE", help="add results up here"
    )
    parser.add_argument(
        "--like", type=Path, metavar="FILE", help="compare traces with those of this campaign"
    )
    parser.add_argument(
        "--covering", action="store_true", help="a few of --seeds: every kind of plan is among them"
    )
    parser.add_argument(
        "--twice", action="store_true", help="run --seeds in two processes; compare their traces"
    )
    parser.add_argument("--reach", action="store_true", help="name the functions never called")
    parser.add_argument("--until-broken", action="store_true", help="end with the first finding")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write a failing plan here")
    parser.add_argument("--events", action="store_true", help="print the events of the run")
    parser.add_argument("--log", action="store_true", help="print what the nodes log")
    parser.add_argument("--shrink-runs", type=int, default=RUNS_MAX, help="0: do not shrink")
    return parser


def _seeds(text: str) -> range:
    first, _, last = text.partition("..")
    try:
        return range(int(first), int(last or first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write FIRST..LAST, as in 1..200") from None


def _plan(options: argparse.Namespace) -> Plan:
    if options.plan is not None:
        return Plan.from_json(options.plan.read_text())
    return make_plan(options.seed, faults=options.faults)


def _many(options: argparse.Namespace) -> int:
    campaign = Campaign(options.campaign)
    seeds: Sequence[int] = options.seeds
    if options.covering:
        seeds = covering(seeds, faults=options.faults)
    found = campaign.run(
        seeds,
        faults=options.faults,
        jobs=options.jobs,
        show=_say,
        until_broken=options.until_broken,
    )
    _say(json.dumps(found, indent=1))
    for text in lines(campaign.reached, is_in_full=options.reach):
        _say(text)
    fallen = floors.fallen(by_room(campaign.reached), seed_count=campaign.seed_count)
    for text in fallen:
        _say(text)
    is_like = options.like is None or _is_like(options.like, campaign, seeds)
    return 1 if found.get("broken") or fallen or not is_like else 0


def _is_like(earlier: Path, campaign: Campaign, seeds: Sequence[int]) -> bool:
    """Say how the traces of `seeds` differ from those of earlier runs; return whether none does."""
    known = digests(Campaign(earlier).runs, seeds)
    texts = differences(known, digests(campaign.runs, seeds))
    for text in texts or [f"equal traces of {len(known)} seeds"]:
        _say(text)
    return not texts


def _twice(options: argparse.Namespace) -> int:
    try:
        one, other = traces(options.seeds, faults=options.faults)
    except RunFailed as error:
        _say(f"simulator: {error}; --seeds without --twice shows why")
        return 1
    texts = differences(one, other)
    for text in texts or [f"equal traces of {len(one)} seeds"]:
        _say(text)
    return 1 if texts else 0


def _one(plan: Plan, options: argparse.Namespace) -> int:
    result = run_plan(plan)
    if options.events:
        for event in result.events:
            _say(event)
    for text in story(result):
        _say(text)
    if result.is_clean:
        return 0
    if options.shrink_runs:
        _shrink(result, options)
    return 1


def _shrink(result: RunResult, options: argparse.Namespace) -> None:
    runs = 0

    def fails(plan: Plan) -> bool:
        nonlocal runs
        runs += 1
        return not run_plan(plan).is_clean

    shortest = shrink(result.plan, fails, runs_max=options.shrink_runs)
    path = options.save or Path(f"seed-{result.plan.seed}.json")
    path.write_text(shortest.to_json() + "\n")
    _say(f"\nshortest plan after {runs} runs, in {path}:")
    for text in story(run_plan(shortest)):
        _say(text)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    end_with(main)
