"""`penstock replay`: records of an archive into a topic, exactly once."""

from typing import Annotated

import typer

from penstock.cli.archive.bar import QuietOption, bar
from penstock.cli.archive.places import ArchiveArgument, StoreOption, opened
from penstock.cli.connect import STREAM_SECONDS, TimeoutOption, connected
from penstock.cli.output import BOOTSTRAP_DEFAULT, BootstrapOption, Output, OutputOption, print_rows
from penstock.cli.records.places import Place
from penstock.cli.values import named

RATE_MAX = 1e9
COLUMNS = ("id", "topic", "records", "transactions")
PLACE_HELP = "beginning, end, an offset, or a time (ISO or @ms)"


ToTopicOption = Annotated[
    str, typer.Option(metavar="TOPIC", help="Topic to write to.", callback=named)
]
FromOption = Annotated[
    str, typer.Option("--from", metavar="PLACE", help=f"Where to begin: {PLACE_HELP}.")
]
UntilOption = Annotated[
    str, typer.Option("--until", metavar="PLACE", help=f"Where to end, before: {PLACE_HELP}.")
]
RateOption = Annotated[
    float | None,
    typer.Option(metavar="N", min=0.001, max=RATE_MAX, help="Records in a second, at most."),
]
SameOption = Annotated[
    bool, typer.Option("--same-partitions", help="Keep partitions; otherwise they go by key.")
]
IdOption = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="NAME", help="Of this replay: another one writes all again.", callback=named
    ),
]
RetentionOption = Annotated[
    bool,
    typer.Option("--ignore-retention", help="Write records that the topic deletes by their age."),
]


def run_replay(
    place: ArchiveArgument,
    to_topic: ToTopicOption,
    start: FromOption = "beginning",
    until: UntilOption = "end",
    rate: RateOption = None,
    same_partitions: SameOption = False,
    replay_id: IdOption = None,
    ignore_retention: RetentionOption = False,
    store: StoreOption = None,
    no_progress: QuietOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = STREAM_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Write records of an archive into a topic, each once; run again, it goes on where it was."""
    places = Place.parse(start), Place.parse(until)
    with opened(place, store, may_be_new=False) as ledger:
        from penstock.archive.replay.pace import Pace
        from penstock.archive.replay.plan import Kind
        from penstock.archive.replay.plan import Place as ArchivePlace
        from penstock.archive.replay.replaying import Replay, ReplayOptions

        first, last = (ArchivePlace(Kind[one.kind.name], one.value) for one in places)
        options = ReplayOptions(
            topic=to_topic,
            places=(first, last),
            replay_id=replay_id,
            is_same_partitions=same_partitions,
            ignores_retention=ignore_retention,
        )
        manifest = ledger.existing()
        with (
            connected(bootstrap, timeout) as cluster,
            bar("replaying", shown=not no_progress) as show,
        ):
            work = Replay(cluster, ledger.files, manifest, options, Pace(rate))
            summary = work.run(show)
    row = {
        "id": summary.replay_id,
        "topic": to_topic,
        "records": summary.records,
        "transactions": summary.transactions,
    }
    print_rows([row], COLUMNS, output)
