"""`penstock archive recover`: a topic of a lost cluster, out of its object store."""

from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from penstock.cli.archive.ages import age_ms
from penstock.cli.archive.bar import QuietOption, bar
from penstock.cli.archive.places import StoreOption, opened
from penstock.cli.archive.runs import (
    RUN_COLUMNS,
    CorruptOption,
    GapOption,
    KeepOption,
    ToOption,
    run_row,
)
from penstock.cli.output import Output, OutputOption, print_rows
from penstock.cli.tier.store import settings_of, store_of
from penstock.cli.values import named, quoted

RECOVER_COLUMNS = (*RUN_COLUMNS, "undecided", "refused_objects")


def _id(text: str) -> UUID:
    """Return an id as `penstock topic describe` or `penstock tier partitions` prints it."""
    try:
        return UUID(text)
    except ValueError:
        raise typer.BadParameter(f"{quoted(text)} is no id: 32 hexadecimal digits") from None


def recover(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="Name that the topic had.", callback=named)
    ],
    to: ToOption,
    config: Annotated[
        Path,
        typer.Option("--config", metavar="FILE", help="Settings of a lost node, with tier.url."),
    ],
    topic_id: Annotated[
        UUID,
        typer.Option(
            metavar="ID", help="Of the topic: penstock tier partitions lists them.", parser=_id
        ),
    ],
    cluster: Annotated[
        UUID | None,
        typer.Option(metavar="ID", help="If the store has objects of several.", parser=_id),
    ] = None,
    keep: KeepOption = None,
    allow_gap: GapOption = False,
    skip_corrupt: CorruptOption = False,
    store: StoreOption = None,
    no_progress: QuietOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Copy what the object store has of a topic whose cluster is gone into an archive.

    No node is asked. Then penstock replay writes it into a topic of another cluster.
    """
    keep_ms = None if keep is None else age_ms(keep)
    objects = store_of(settings_of(config))
    with opened(to, store, may_be_new=True) as ledger:
        from penstock.archive.copying import RunOptions, copy_topic
        from penstock.archive.lost_cluster import StoreSource, look_through
        from penstock.spark.tier.store import call

        options = RunOptions(
            topic=topic, keep_ms=keep_ms, allow_gap=allow_gap, skip_corrupt=skip_corrupt
        )
        lost = call(look_through(objects, cluster))
        source = StoreSource(objects, lost, topic_id)
        with bar("recovering", shown=not no_progress) as show:
            summary = copy_topic(ledger, source, options, show)
        row = run_row(ledger.manifest, summary)
        more = {"undecided": source.undecided(), "refused_objects": len(lost.refused)}
    print_rows([{**row, **more}], RECOVER_COLUMNS, output)
