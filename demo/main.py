"""The command line of the demo: read the input, tell the story, do the arithmetic, show it.

What was started is ended whatever happens. On success the data is removed; when something does
not add up it is kept, and its place is said. Exit codes: 0 everything adds up, 1 something does
not, 2 the input can not be used, 130 interrupted.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from demo.check import Verdict, judge, read_rows
from demo.cluster import Cluster
from demo.errors import DemoError, InputError
from demo.report import Screen, frequent_words, largest_directories
from demo.source import PARTITIONS, Source, open_source
from demo.story import Story

STREAM_SECONDS = 50.0
DEFAULT_INPUT = "/usr"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    options = _parser().parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _terminated)
    given = options.input or options.path or os.environ.get("INPUT") or DEFAULT_INPUT
    directory = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    try:
        source = open_source(Path(given))
        is_clean = _run(source, directory, options.seconds)
    except InputError as error:
        shutil.rmtree(directory, ignore_errors=True)
        _say(str(error))
        return 2
    except DemoError as error:
        _say(f"{error}\ndemo: data and logs are kept in {directory}")
        return 1
    except KeyboardInterrupt:
        _say(f"interrupted; data and logs are kept in {directory}")
        return 130
    if is_clean and not options.keep:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        _say(f"data and logs are kept in {directory}")
    return 0 if is_clean else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description="Streams real records through a cluster into a table; two parts are killed.",
    )
    parser.add_argument("path", nargs="?", help="a file (its lines) or a directory (its files)")
    parser.add_argument("--input", help="the same; also INPUT in the environment")
    parser.add_argument(
        "--seconds", type=float, default=STREAM_SECONDS, help="how long the stream should last"
    )
    parser.add_argument("--keep", action="store_true", help="keep the data and the logs")
    return parser


def _say(text: str) -> None:
    sys.stderr.write(f"demo: {text}\n")


def _terminated(_number: int, _frame: object) -> NoReturn:
    """Begin to clean up; a second signal must not leave anything running."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _run(source: Source, directory: Path, seconds: float) -> bool:
    with Screen() as screen:
        more = ", the first of more" if source.is_cut else ""
        screen.step(f"input: {source.records:,} {source.noun} of {source.path}{more}")
        cluster = Cluster(directory / "cluster", partitions=PARTITIONS)
        try:
            cluster.wait_ready()
            screen.step(f"three nodes up at {cluster.bootstrap}")
            story = Story(source, cluster, directory, screen=screen, seconds=seconds)
            try:
                gaps = _tell(story)
            finally:
                story.close()
        finally:
            cluster.stop()
    return _conclude(story, screen, gaps)


def _tell(story: Story) -> list[tuple[str, str]]:
    """Go through the steps; returns the gaps as rows of the result."""
    story.begin()
    acked_gap, landed_gap = story.kill_node()
    spark_gap = story.kill_spark()
    story.finish()
    return [
        ("leading node killed: seconds without acknowledgement", _gap(acked_gap)),
        ("leading node killed: seconds without new rows", _gap(landed_gap)),
        ("Spark job killed: seconds without new rows", _gap(spark_gap)),
    ]


def _gap(seconds: float) -> str:
    """Show a gap; with an input of a few records there may be none left to end it."""
    return f"{seconds:.1f}" if seconds else "nothing was left to come"


def _conclude(story: Story, screen: Screen, gaps: Sequence[tuple[str, str]]) -> bool:
    table, ledger = story.landing.table, story.stream.ledger
    verdict = judge(read_rows(table), ledger)
    is_clean = verdict.is_clean and ledger.acked == story.stream.sent == story.source.records
    seconds = max(ledger.last_ack - ledger.first_ack, 0.001)
    rows = [
        ("read", f"{story.source.records:,}"),
        ("sent", f"{story.stream.sent:,}"),
        ("acknowledged", f"{ledger.acked:,}"),
        *_verdict_rows(verdict),
        ("MB", f"{ledger.acked_bytes / 1e6:.1f}"),
        ("MB/s, paced to last for both kills", f"{ledger.acked_bytes / 1e6 / seconds:.2f}"),
        *gaps,
        ("verdict", "[green]everything adds up[/green]" if is_clean else "[red]it does not[/red]"),
    ]
    screen.table("from the input to the table", rows)
    for failure in ledger.failed[:5]:
        screen.step(failure)
    if story.source.is_tree:
        screen.answer("largest directories", ("directory", "bytes"), largest_directories(table))
    else:
        screen.answer("most frequent words", ("word", "times"), frequent_words(table))
    screen.step("done")
    return is_clean


def _verdict_rows(verdict: Verdict) -> list[tuple[str, str]]:
    return [
        ("landed", f"{verdict.landed:,}"),
        ("missing", f"{verdict.missing:,}"),
        ("double", f"{verdict.double:,}"),
        ("order errors", f"{verdict.order_errors:,}"),
        ("at another offset than acknowledged", f"{verdict.misplaced:,}"),
        ("landed without acknowledgement", f"{verdict.unknown:,}"),
    ]
