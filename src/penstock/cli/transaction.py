"""`penstock transaction`: transactional ids, what they have open, and how to end it."""

from typing import Annotated

import typer

from penstock.cli.connect import ADMIN_SECONDS, TimeoutOption, connected
from penstock.cli.output import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    Output,
    OutputOption,
    note,
    print_rows,
    print_summary,
)
from penstock.cli.values import named

app = typer.Typer(help="List, describe and abort transactions, and end those that hang.")

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Transactional id.", callback=named)]
LIST_COLUMNS = ("id", "state", "producer_id", "coordinator")
PARTITION_COLUMNS = ("topic", "partition")
HANGING_COLUMNS = ("topic", "partition", "start_offset", "producer_id", "epoch", "last_append_ms")
IDLE_SECONDS = 15 * 60.0
"""The longest time-out of a transaction, by default."""


@app.command(name="list")
def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only these, such as Ongoing or CompleteCommit."),
    ] = None,
    longer_than: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Only those open for longer.")
    ] = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """List all transactional ids."""
    from penstock.client.transactions import Transactions

    with connected(bootstrap, timeout) as cluster:
        found = Transactions(cluster).list(
            states=tuple(state or ()),
            longer_than_ms=-1 if longer_than is None else round(longer_than * 1000),
        )
    rows = [
        {
            "id": one.transactional_id,
            "state": one.state,
            "producer_id": one.producer_id,
            "coordinator": one.coordinator,
        }
        for one in found
    ]
    print_rows(rows, LIST_COLUMNS, output)


@app.command()
def describe(
    transactional_id: IdArgument,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show an id's producer, state and partitions."""
    from penstock.client.transactions import Transactions

    with connected(bootstrap, timeout) as cluster:
        view = Transactions(cluster).describe(transactional_id)
    summary = {
        "id": view.transactional_id,
        "state": view.state,
        "producer_id": view.producer_id,
        "epoch": view.producer_epoch,
        "timeout_ms": view.timeout_ms,
        "start_ms": view.start_ms,
    }
    rows = [{"topic": topic, "partition": partition} for topic, partition in view.partitions]
    print_summary(summary, "partitions", rows, PARTITION_COLUMNS, output)


@app.command()
def abort(
    transactional_id: IdArgument,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
) -> None:
    """Abort what an id has open, and fence its producer."""
    from penstock.client.transactions import Transactions

    with connected(bootstrap, timeout) as cluster:
        transactions = Transactions(cluster)
        transactions.describe(transactional_id)  # an id that is not known is not made
        transactions.abort(transactional_id)
    note(f"{transactional_id}: nothing is open, and its producer is fenced")


@app.command()
def hanging(
    idle: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Only without a record for so long.")
    ] = IDLE_SECONDS,
    is_aborting: Annotated[
        bool, typer.Option("--abort", help="Abort those that are found, in their partitions.")
    ] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = ADMIN_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Find transactions that are open in a partition, and that no coordinator knows.

    Readers of committed records wait at them. Below the longest time-out that producers have
    (transactions.timeout_max_ms, 15 minutes), --idle may find one that is only slow.
    """
    from penstock.client.hanging import HangingTransactions

    with connected(bootstrap, timeout) as cluster:
        transactions = HangingTransactions(cluster)
        found = transactions.find(idle_ms=round(idle * 1000))
        rows = [
            {
                "topic": one.topic,
                "partition": one.partition,
                "start_offset": one.start_offset,
                "producer_id": one.producer_id,
                "epoch": one.producer_epoch,
                "last_append_ms": one.last_append_ms,
            }
            for one in found
        ]
        print_rows(rows, HANGING_COLUMNS, output)
        for one in found if is_aborting else ():
            transactions.abort(one)
            note(f"{one.topic}-{one.partition}: aborted what began at offset {one.start_offset}")
