"""`penstock transaction`: transactional ids, what they have open, and how to end it."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import ADMIN_SECONDS, CommandFailed, TimeoutOption, connected
from penstock.cli.output import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    Output,
    OutputOption,
    moment,
    note,
    print_rows,
    print_summary,
)
from penstock.cli.values import AGE_SECONDS_MAX, named

if TYPE_CHECKING:
    from penstock.client.transactions import Transactions

app = typer.Typer(help="List, describe and abort transactions, and end those that hang.")

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Transactional id.", callback=named)]
LIST_COLUMNS = ("id", "state", "producer_id", "coordinator")
PARTITION_COLUMNS = ("topic", "partition")
HANGING_COLUMNS = ("topic", "partition", "start_offset", "producer_id", "epoch")
IDLE_SECONDS = 15 * 60.0
"""The longest time-out of a transaction, by default."""


class StateName(StrEnum):
    """The choices of --state: what Kafka's tools call the states of a transactional id."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


@app.command(name="list")
def list_transactions(
    state: Annotated[
        list[StateName] | None,
        typer.Option(
            metavar="STATE",
            help=f"Only these, of {', '.join(StateName)}; repeatable.",
        ),
    ] = None,
    longer_than: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0, max=AGE_SECONDS_MAX, help="Only those open for longer."
        ),
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
    with _transactions(transactional_id, bootstrap, timeout) as transactions:
        view = transactions.describe(transactional_id)
    summary = {
        "id": view.transactional_id,
        "state": view.state,
        "producer_id": view.producer_id,
        "epoch": view.producer_epoch,
        "timeout_ms": view.timeout_ms,
        **_time("start", view.start_ms, output),
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
    with _transactions(transactional_id, bootstrap, timeout) as transactions:
        transactions.describe(transactional_id)  # an id that is not known is not made
        transactions.abort(transactional_id)
    note(f"{transactional_id}: nothing is open, and its producer is fenced")


@app.command()
def hanging(
    idle: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, max=AGE_SECONDS_MAX, help="Only without a record for so long."
        ),
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
                **_time("last_append", one.last_append_ms, output),
            }
            for one in found
        ]
        last = tuple(_time("last_append", 0, output))
        print_rows(rows, (*HANGING_COLUMNS, *last), output)
        for one in found if is_aborting else ():
            transactions.abort(one)
            note(f"{one.topic}-{one.partition}: aborted what began at offset {one.start_offset}")


def _time(name: str, wall_ms: int, output: Output) -> dict[str, str | int]:
    """Return a time as programs compare it, in milliseconds, or as people read it."""
    return {f"{name}_ms": wall_ms} if output is Output.JSON else {name: moment(wall_ms)}


@contextmanager
def _transactions(
    transactional_id: str, bootstrap: str, timeout: float
) -> Iterator["Transactions"]:
    """Yield a connected client; an id that nobody uses ends the command with a hint."""
    from penstock.client.errors import BrokerError
    from penstock.client.transactions import Transactions
    from penstock.protocol.error_codes import ErrorCode

    with connected(bootstrap, timeout) as cluster:
        try:
            yield Transactions(cluster)
        except BrokerError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            raise CommandFailed(
                f"transactional id {transactional_id} does not exist: see penstock transaction list"
            ) from error
