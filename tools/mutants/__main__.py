"""python -m tools.mutants: see the package."""

import argparse
import datetime
import signal
import sys
from pathlib import Path

from penstock.cli.exit_codes import end_with

from .catalogue import MUTANTS, chosen
from .excuses import EXCUSES
from .mutant import AnchorLost, Kind, Mutant
from .report import PLACE, write
from .results import Results
from .runner import FOUND, NotGreen, check_clean, look_for
from .search import Search
from .simulator import seeds_of
from .tree import Tree, copy_of

ROOT = Path(__file__).parents[2]


def main(arguments: list[str]) -> int:
    """Return 0 if the score is good, 1 if not, 2 if it can not be had."""
    options = _parser().parse_args(arguments)
    try:
        mutants = chosen(options.only)
    except KeyError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    if options.kind:
        mutants = [mutant for mutant in mutants if mutant.kind in options.kind]
    if options.check:
        return _check(mutants)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # so that the copy is removed
    results = Results(ROOT)
    if not options.report:
        try:
            if options.seeds or options.directed:
                with copy_of(ROOT) as tree:
                    Search(tree, results, options).run(mutants)
            else:
                _plant_all(mutants, results, options)
        except NotGreen as error:
            print(error, file=sys.stderr)
            return 2
    score = write(ROOT, results)
    print(f"{score.found} of {score.total} found, {score.untried} not tried: see {PLACE}")
    return 0 if score.is_good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="names, or how they begin")
    parser.add_argument("--kind", nargs="+", type=Kind, choices=list(Kind), default=[])
    parser.add_argument(
        "--check", action="store_true", help="see that each can be planted, no more"
    )
    parser.add_argument("--report", action="store_true", help="write the page from what is known")
    parser.add_argument("--fresh", action="store_true", help="also what is known already")
    parser.add_argument("--seeds", type=seeds_of, help="look with the simulator: FIRST..LAST")
    parser.add_argument(
        "--directed", action="store_true", help="look with the simulator's directed schedules"
    )
    parser.add_argument(
        "--seconds", type=float, help="try of each bug so many seconds of schedules, no more"
    )
    parser.add_argument(
        "--files", nargs="+", default=[], help="of the schedules, files with this in their names"
    )
    parser.add_argument("--near", action="store_true", help="try the tests of the own room only")
    parser.add_argument(
        "--survivors", action="store_true", help="only what was not found before, by this means"
    )
    parser.add_argument(
        "--no-clean", action="store_true", help="do not run the tests without a bug"
    )
    return parser


def _check(mutants: list[Mutant]) -> int:
    lost = 0
    for mutant in mutants:
        try:
            mutant.mutated(ROOT)
        except (AnchorLost, SyntaxError, OSError) as error:
            lost += 1
            print(f"{mutant.name}: {error}\n", file=sys.stderr)
    print(f"{len(mutants) - lost} of {len(mutants)} bugs can be planted")
    return 1 if lost else 0


def _plant_all(mutants: list[Mutant], results: Results, options: argparse.Namespace) -> None:
    with copy_of(ROOT) as tree:
        if not options.no_clean:
            _note_clean(tree, results)
        for mutant in mutants:
            try:
                fingerprint = mutant.fingerprint(tree.path)
            except (AnchorLost, OSError) as error:
                print(f"{mutant.name}: can not be planted: {error}", file=sys.stderr, flush=True)
                continue
            if _is_done(mutant, fingerprint, results, options):
                continue
            outcome = look_for(tree, mutant, is_near_only=options.near)
            if outcome.status == FOUND or not options.near or mutant.name in EXCUSES:
                results.note(mutant, fingerprint, outcome)
            told = outcome.test or outcome.detail
            print(f"{mutant.name:45} {outcome.status:9} {outcome.seconds:6.1f}  {told}", flush=True)
        results.note_run("tests", commit=tree.commit[:12], date=_today(), bugs=len(MUTANTS))


def _is_done(
    mutant: Mutant, fingerprint: str, results: Results, options: argparse.Namespace
) -> bool:
    if options.survivors:
        return (results.of(mutant) or {}).get("status") == FOUND
    return not options.fresh and results.is_known(mutant, fingerprint)


def _note_clean(tree: Tree, results: Results) -> None:
    seconds = check_clean(tree)
    print(f"green without a bug, {seconds:.0f} s", flush=True)
    results.note_run("without a bug", commit=tree.commit[:12], date=_today(), result="green")


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


if __name__ == "__main__":
    end_with(lambda: main(sys.argv[1:]))
