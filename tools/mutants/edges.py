"""Small slips in the source that no test sees: a list to read, not a score.

    python -m tools.mutants.edges tier/read/merge.py finding     files or rooms
    python -m tools.mutants.edges raft --sample 100 --kind bound     a part of them
    python -m tools.mutants.edges broker/finding --tests tests/broker tests/finding

Bugs that people plant (`tools.mutants`) are few and chosen; what they show again and again is that
tests miss the same few sorts: equality at a bound, a count after a refusal, the order of two steps,
state that is not cleared. Those can be made by rule, so this makes all of them (`slips`), one at a
time, in a copy of the last commit, and runs the tests that call the changed function (`called`),
the quickest first. That happens in a child of one process that has collected all tests
(`forking`), so that a slip costs the time of its tests only. Before a slip is called a survivor,
the same children must have shown that a change of its function is in effect in them; where they
have not, a new Python decides.

A slip that is seen only because a test takes too long is told as well: on a loaded machine that may
be a mistake.

A slip that survives is a question: which test would see it? Either somebody writes that test, or
the slip changes nothing (then it often shows a condition that is not needed). That is why there is
no goal for their number, and no file of results.
"""

import argparse
import itertools
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.cli.exit_codes import end_with

from .children import WAITING_SECONDS, Answer, Children, NoTests, Test, children
from .forking import ENTERED, ENTERED_CODE, GREEN, LATE, RED
from .mutant import SOURCE, Edit, Mutant
from .mutant import Kind as MutantKind
from .slips import Kind, Slip, entering, slips_in
from .tree import Tree, copy_of

ROOT = Path(__file__).parents[2]
PROFILE_SECONDS = 2400
NEW_SECONDS = 600.0
"""For all tests without a slip, and for those of one slip in a process of its own."""
TESTS_MAX = 400
CALLING_SECONDS_MAX = 60.0
"""Of those that call a function, so many and so long, for one slip; the quickest of them."""
_PYTEST = (
    "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=no",
    "--hypothesis-seed=0", "-m", "not process and not spark and not compat",
)  # fmt: skip
_FORKING = ("-p", "tools.mutants.forking", "--tb=short")
_ENDING = f"__import__('os')._exit({ENTERED_CODE})"


def main(arguments: list[str]) -> int:
    """Return 0 when all were tried, 2 if that can not be done."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # so that the copy is removed
    try:
        files = sorted(_files(options.places))
        suites = options.tests or sorted(_suites(files))
        rooms = {f"{SOURCE}/{Path(one).parent}" for one in files}
        with (
            copy_of(ROOT) as tree,
            tree.without_twins(rooms),
            children(tree, (*_PYTEST, *_FORKING, f"--basetemp={tree.path / 'tmp'}", *suites)) as at,
        ):
            tests = at.tests(PROFILE_SECONDS)
            chosen = _chosen(tree, files, options)
            print(f"{len(tests)} tests of {', '.join(suites)}; {len(chosen)} slips", flush=True)
            look = _Look(tree, at, tests, options.seconds)
            survivors = [slip.kind for path, slip in chosen if not look.is_seen(path, slip)]
    except (FileNotFoundError, NoTests) as error:
        print(error, file=sys.stderr)
        return 2
    _tell(chosen, survivors)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants.edges",
        description="Which small slips in the source does no test see?",
    )
    parser.add_argument("places", nargs="+", help="files or rooms below src/penstock")
    parser.add_argument("--tests", nargs="+", help="suites to look with; default: of the rooms")
    parser.add_argument("--kind", nargs="+", type=Kind, choices=list(Kind), default=list(Kind))
    parser.add_argument("--sample", type=int, help="so many of them, at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument(
        "--seconds",
        type=float,
        default=CALLING_SECONDS_MAX,
        help="of tests for one slip, as they take while calls are noted; default: %(default)s",
    )
    return parser


def _files(places: list[str]) -> Iterator[str]:
    """Yield paths below src/penstock. Raises FileNotFoundError."""
    for place in places:
        path = ROOT / SOURCE / place
        if not path.exists():
            raise FileNotFoundError(f"{SOURCE}/{place} is not there: name a file or a room of it")
        for one in [path] if path.is_file() else path.rglob("*.py"):
            yield str(one.relative_to(ROOT / SOURCE))


def _suites(files: list[str]) -> set[str]:
    """Return the directories of tests that are called as the rooms. Raises FileNotFoundError."""
    suites = {f"tests/{part}" for one in files for part in Path(one).parts[:-1]}
    there = {one for one in suites if (ROOT / one).is_dir()}
    if not there:
        raise FileNotFoundError(f"no tests stand in {', '.join(sorted(suites))}: use --tests")
    return there


def _chosen(tree: Tree, files: list[str], options: argparse.Namespace) -> list[tuple[str, Slip]]:
    every = [
        (path, slip)
        for path in files
        for slip in slips_in((tree.path / SOURCE / path).read_text())
        if slip.kind in options.kind
    ]
    if options.sample is None or options.sample >= len(every):
        return every
    return sorted(random.Random(options.seed).sample(every, options.sample))


class _Look:
    """Tries one slip after the other."""

    def __init__(self, tree: Tree, at: Children, tests: list[Test], seconds: float) -> None:
        self._seconds = seconds
        self._tree = tree
        self._children = at
        self._tests = tests
        self._red: dict[str, list[str]] = {}
        """Of each function, the tests that have seen a slip in it, the last first."""
        self._entered: dict[str, bool] = {}

    def is_seen(self, path: str, slip: Slip) -> bool:
        """Whether a test is red with it; tells those that survive, and those that took too long."""
        called = f"{path}:{slip.function}"
        calling = _quickest(self._calling(path, slip), self._seconds)
        end, why = GREEN, "   (no test calls it)"
        if calling:
            first = self._red.get(called, [])
            calling.sort(key=lambda one: first.index(one.name) if one.name in first else len(first))
            with self._tree.planted(_planted(self._tree, path, slip)):
                end, why = self._end(path, slip, calling), ""
        if end == LATE:
            why = "   (seen by the time that it takes)"
        if end in {GREEN, LATE}:
            change = f"{_short(slip.was)} -> {_short(slip.now)}"
            print(f"{path}:{slip.line} {slip.kind}: {change}{why}", flush=True)
        return end != GREEN

    def _calling(self, path: str, slip: Slip) -> Iterator[Test]:
        """Yield the tests that may see it; of what is called before any of them, all may."""
        lines = frozenset(f"{path}:{line}" for line in range(slip.function, slip.last + 1))
        is_called_before = f"{path}:{slip.function}" in self._children.called_before
        for test in self._tests:
            if is_called_before or not lines.isdisjoint(test.functions):
                yield test

    def _end(self, path: str, slip: Slip, calling: list[Test]) -> str:
        """Return how the tests end with a slip that certainly is in effect."""
        called = f"{path}:{slip.function}"
        if called not in self._children.called_before:
            answer = self._tried(path, slip, slip.text, calling)
            if answer.end in {RED, LATE}:
                self._note(called, answer.test)
                return answer.end
            if answer.end == GREEN and self._is_entered(path, slip, calling):
                return GREEN
        names = [test.name for test in calling]
        timeout = f"--timeout={WAITING_SECONDS}"
        finished = self._tree.run(*_PYTEST, timeout, *names, seconds_max=NEW_SECONDS)
        return LATE if finished.code is None else RED if finished.code else GREEN

    def _is_entered(self, path: str, slip: Slip, calling: list[Test]) -> bool:
        """Whether a change of this function is in effect in a child: one that ends it at once."""
        called = f"{path}:{slip.function}"
        if called not in self._entered:
            text = entering(slip.source, slip.function, _ENDING)
            self._entered[called] = self._tried(path, slip, text, calling).end == ENTERED
        return self._entered[called]

    def _tried(self, path: str, slip: Slip, now: str, calling: list[Test]) -> Answer:
        self._tree.forget_examples()
        file = str(self._tree.path / SOURCE / path)
        return self._children.tried(file, slip.source, now, calling)

    def _note(self, called: str, test: str) -> None:
        if test:
            red = self._red.setdefault(called, [])
            red[:] = [test, *(one for one in red if one != test)]


def _quickest(calling: Iterable[Test], seconds_max: float) -> list[Test]:
    chosen: list[Test] = []
    seconds = 0.0
    for test in itertools.islice(calling, TESTS_MAX):
        seconds += test.seconds
        if chosen and seconds > seconds_max:
            break
        chosen.append(test)
    return chosen


def _planted(tree: Tree, path: str, slip: Slip) -> Mutant:
    edit = Edit(path, (tree.path / SOURCE / path).read_text(), slip.text)
    about = f"{path}:{slip.line}"
    return Mutant(
        name=about, subject=path, kind=MutantKind.RANGE, breaks=slip.now, edits=(edit,), near=()
    )


def _short(text: str) -> str:
    return " ".join(text.split())[:100]


def _tell(chosen: list[tuple[str, Slip]], survivors: list[Kind]) -> None:
    made, left = Counter(slip.kind for _, slip in chosen), Counter(survivors)
    for kind in Kind:
        if made[kind]:
            print(f"{kind:8} {made[kind] - left[kind]:4} of {made[kind]:4} seen")


if __name__ == "__main__":
    end_with(lambda: main(sys.argv[1:]))
