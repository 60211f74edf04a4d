"""`python -m benchmarks.peers [--rows NAMES] [--rounds N]`: measure beside Kafka and RocketMQ.

Rows that the result file has are kept unless `--again`; a run that was interrupted goes on where
it was. `--list` shows the rows, `--markdown` prints the last results for a page.
"""

import argparse
import contextlib
import fnmatch
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers import report
from benchmarks.peers.model import FULL, SHORT, SMOKE, Group, Question, Scale
from benchmarks.peers.ratios import growth_rows, rows_of
from benchmarks.peers.rounds import ask_group
from benchmarks.peers.rows import all_groups
from benchmarks.peers.servers import settings_of
from benchmarks.peers.store import Store, last_file, todays_file
from penstock.cli.exit_codes import end_with

ROUNDS = 5
FILES = 100_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line; returns the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers and files go away
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.list:
        return _list()
    if options.markdown:
        return _markdown()
    if options.rounds < 1:
        parser.error("--rounds has to be at least 1")
    patterns = [one for one in options.rows.split(",") if one]
    chosen = _chosen(all_groups(), patterns, options.peers.split(",") if options.peers else [])
    if not chosen:
        parser.error(f"no row is called {options.rows}; --list shows all")
    _allow_files()
    is_new_day = not (options.results or options.smoke)
    store = Store(_file(options), last_file() if is_new_day else None)
    for group, questions in chosen:
        _measure(group, questions, store, _scale(options), options)
    names = {question.name for _, questions in chosen for question in questions}
    report.print_table(row for row in store.rows.values() if _base(str(row["name"])) in names)
    print(f"results: {store.file}")
    return 0


def _allow_files() -> None:
    """Raise the limit that servers and clients inherit; Kafka asks for 100,000."""
    with contextlib.suppress(ValueError, OSError):  # without the right to, theirs will say so
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = max(hard, FILES) if os.geteuid() == 0 else hard
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, FILES), most))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--rows", default="", help="names or patterns, with commas; default all")
    parser.add_argument("--peers", default="", help="only these products, with commas")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--again", action="store_true", help="measure rows anew that are there")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--short", action="store_true", help="half the data, a third of the time")
    size.add_argument("--smoke", action="store_true", help="a few MB: does it run? No figures.")
    parser.add_argument("--results", type=Path, help="another file than today's")
    parser.add_argument("--list", action="store_true", help="show the rows and end")
    parser.add_argument("--markdown", action="store_true", help="print the last results and end")
    return parser


def _chosen(
    groups: Sequence[Group], patterns: Sequence[str], products: Sequence[str]
) -> list[tuple[Group, list[Question]]]:
    """Return the groups with the questions that were asked for, peers as wanted."""
    found = []
    for group in groups:
        questions = [
            question.among(products) if products else question
            for question in group.questions
            if not patterns or any(fnmatch.fnmatch(question.name, pattern) for pattern in patterns)
        ]
        questions = [question for question in questions if question.peers]
        if questions:
            found.append((group, questions))
    return found


def _scale(options: argparse.Namespace) -> Scale:
    if options.smoke:
        return SMOKE
    return SHORT if options.short else FULL


def _file(options: argparse.Namespace) -> Path:
    """A smoke run shows nothing worth keeping: its file goes elsewhere."""
    if options.results:
        return Path(options.results)
    if options.smoke:
        return Path(tempfile.mkdtemp(prefix="penstock-peers-")) / "smoke.json"
    return todays_file()


def _measure(
    group: Group,
    questions: list[Question],
    store: Store,
    scale: Scale,
    options: argparse.Namespace,
) -> None:
    if not options.again:
        questions = [question for question in questions if not store.has(question.row_keys())]
    if not questions:
        return
    begun = time.monotonic()
    ask = group.ask or ask_group
    samples = ask(group, questions, scale, rounds=options.rounds, say=_say)
    rows = [row for question in questions for row in rows_of(question, samples[question.name])]
    specs = {spec for question in questions for spec in question.specs}
    store.add(rows, {spec.product: dict(settings_of(spec)) for spec in sorted(specs, key=str)})
    store.add(growth_rows(list(store.rows.values())), {})
    _say(f"{group.name}: {time.monotonic() - begun:.0f} s")


def _base(name: str) -> str:
    return name.partition(".")[0]


def _say(text: str) -> None:
    print(text, flush=True)


def _list() -> int:
    for group in all_groups():
        for question in group.questions:
            peers = "; ".join(spec.label for spec in question.peers)
            _say(f"{question.name:28} {question.ours.label} | {peers}")
    return 0


def _markdown() -> int:
    file = last_file()
    if file is None:
        print("nothing was measured yet: python -m benchmarks.peers", file=sys.stderr)
        return 1
    print(report.markdown(json.loads(file.read_text(encoding="utf-8"))))
    return 0


if __name__ == "__main__":
    end_with(main)
