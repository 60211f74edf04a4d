"""What the commands that copy into an archive have in common: options, and what they print."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.archive.ages import age_text
from penstock.cli.archive.places import placed
from penstock.cli.output import Row

if TYPE_CHECKING:
    from penstock.archive.copying import RunSummary
    from penstock.archive.manifest import Manifest

RUN_COLUMNS = ("topic", "records", "chunks", "partitions", "keep", "left_over")

ToOption = Annotated[
    str,
    typer.Option(metavar="ARCHIVE", help="A directory, or s3://BUCKET/PREFIX.", callback=placed),
]
KeepOption = Annotated[
    str | None,
    typer.Option(metavar="AGE", help="How old records become: 5y, 90d, 12h, forever."),
]
GapOption = Annotated[
    bool,
    typer.Option("--allow-gap", help="Go on behind records that are gone from the topic."),
]
CorruptOption = Annotated[
    bool,
    typer.Option("--skip-corrupt", help="Leave out batches that can not be read."),
]


def run_row(manifest: "Manifest", summary: "RunSummary") -> Row:
    """Return what a run has done, under the names of RUN_COLUMNS."""
    return {
        "topic": manifest.topic,
        "records": summary.records,
        "chunks": summary.chunks,
        "partitions": len(summary.ends),
        "keep": age_text(manifest.keep_ms),
        "left_over": summary.swept,
    }
