"""`penstock archive`: a topic's history for years, in a place that DuckDB and Spark read.

No node takes part: commands ask brokers as any client, and the place as its user.
"""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.archive.ages import age_ms, age_text
from penstock.cli.archive.bar import QuietOption, bar
from penstock.cli.archive.places import ArchiveArgument, StoreOption, opened
from penstock.cli.archive.recover import recover
from penstock.cli.archive.runs import (
    RUN_COLUMNS,
    CorruptOption,
    GapOption,
    KeepOption,
    ToOption,
    run_row,
)
from penstock.cli.connect import (
    STREAM_SECONDS,
    CommandFailed,
    TimeoutOption,
    client_security,
    connected,
)
from penstock.cli.output import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    Output,
    OutputOption,
    Row,
    moment,
    print_rows,
    print_summary,
)
from penstock.cli.values import named

if TYPE_CHECKING:
    from penstock.archive.manifest import Manifest
    from penstock.archive.verifying import PartitionReport

app = typer.Typer(help="Keep topics for years: copy, list, verify and prune archives of them.")
app.command()(recover)

FILE_COLUMNS = ("partition", "start", "end", "rows", "bytes", "sha256", "file")
PRUNE_COLUMNS = ("partition", "start", "chunks", "records", "bytes")
PARTITION_COLUMNS = (
    *("partition", "start", "end", "missing", "records", "files", "bytes"),
    *("oldest", "newest"),
)
FINDING_COLUMNS = ("file", "damaged", "reason")


@app.command()
def run(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to keep.", callback=named)],
    to: ToOption,
    keep: KeepOption = None,
    allow_gap: GapOption = False,
    skip_corrupt: CorruptOption = False,
    store: StoreOption = None,
    no_progress: QuietOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = STREAM_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Copy what the topic has and its archive lacks; make the archive, if there is none."""
    keep_ms = None if keep is None else age_ms(keep)
    with opened(to, store, may_be_new=True) as ledger:
        from penstock.archive.copying import RunOptions, copy_topic
        from penstock.archive.source import BrokerSource
        from penstock.spark.broker_access import BrokerAccess

        options = RunOptions(
            topic=topic, keep_ms=keep_ms, allow_gap=allow_gap, skip_corrupt=skip_corrupt
        )
        with (
            connected(bootstrap, timeout),
            BrokerAccess(
                bootstrap, timeout, is_committed_only=True, security=client_security()
            ) as access,
            bar("archiving", shown=not no_progress) as show,
        ):
            summary = copy_topic(ledger, BrokerSource(access, topic), options, show)
        row = run_row(ledger.manifest, summary)
    print_rows([row], RUN_COLUMNS, output)


@app.command(name="ls")
def show(
    place: ArchiveArgument,
    files: Annotated[
        bool, typer.Option("--files", help="List the files, with the offsets of their chunks.")
    ] = False,
    store: StoreOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List what an archive has of each partition, and what is missing between."""
    with opened(place, store, may_be_new=False) as ledger:
        from penstock.archive.verifying import reports

        manifest = ledger.existing()
        if files:
            print_rows(_file_rows(manifest), FILE_COLUMNS, output)
            return
        summary: Row = {"topic": manifest.topic, "keep": age_text(manifest.keep_ms)}
        rows = [_partition_row(report) for report in reports(ledger)]
    print_summary(summary, "partitions", rows, PARTITION_COLUMNS, output)


@app.command()
def verify(
    place: ArchiveArgument,
    store: StoreOption = None,
    no_progress: QuietOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Read every byte of an archive, and say which files are not to be believed."""
    with opened(place, store, may_be_new=False) as ledger:
        from penstock.archive.verifying import verify as verify_all

        with bar("verifying", shown=not no_progress) as on_chunk:
            found = verify_all(ledger, on_chunk)
    rows: list[Row] = [
        {"file": one.name, "damaged": one.is_damage, "reason": one.reason} for one in found
    ]
    print_rows(rows, FINDING_COLUMNS, output)
    damaged = [one for one in found if one.is_damage]
    if damaged:
        first = damaged[0]
        raise CommandFailed(
            f"{len(damaged)} files of the archive are not to be believed, {first.name} first:"
            f" {first.reason}; bring them back from a copy"
        )


@app.command()
def prune(
    place: ArchiveArgument,
    keep: KeepOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and leave it.")
    ] = False,
    store: StoreOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete what is older than the archive is to keep, or than --keep says this time."""
    asked_ms = None if keep is None else age_ms(keep)
    with opened(place, store, may_be_new=False) as ledger:
        from penstock.archive.pruning import prune as prune_all

        now_ms = time.time_ns() // 1_000_000
        found = prune_all(ledger, keep_ms=asked_ms, now_ms=now_ms, is_dry=dry_run)
    rows: list[Row] = [dict(zip(PRUNE_COLUMNS, one, strict=True)) for one in found]
    print_rows(rows, PRUNE_COLUMNS, output)


def _partition_row(report: "PartitionReport") -> Row:
    times = {
        name: None if at is None else moment(at)
        for name, at in (("oldest", report.oldest_ms), ("newest", report.newest_ms))
    }
    return {
        "partition": report.partition,
        "start": report.start,
        "end": report.end,
        "missing": report.gaps,
        "records": report.records,
        "files": report.files,
        "bytes": report.size_bytes,
        **times,
    }


def _file_rows(manifest: "Manifest") -> list[Row]:
    return [
        {
            "partition": chunk.partition,
            "start": chunk.start,
            "end": chunk.end,
            "rows": file.rows,
            "bytes": file.size_bytes,
            "sha256": file.sha256,
            "file": file.name,
        }
        for chunk in manifest.chunks()
        for file in chunk.files
    ]
