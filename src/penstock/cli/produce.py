"""`penstock produce`: lines, JSON lines, CSV rows or files into a topic, each once and in order.

The producer is idempotent and waits for durability (acks=all): a node that is restarted on the
way loses nothing and stores nothing twice. Input that comes slowly is sent after a short pause.
"""

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.connect import STREAM_SECONDS, TimeoutOption, connected
from penstock.cli.output import BOOTSTRAP_DEFAULT, BootstrapOption, Output, OutputOption, print_rows
from penstock.cli.records_in import STDIN, Format, InputRecord, KeyChoice, read_records

PAUSE_SECONDS = 0.2
"""Input that is silent for this long is sent as far as it came."""

AHEAD_MAX = 10_000
"""Records read ahead of the sending."""


class Codec(StrEnum):
    """The choices of --compression, in the order of their codes in a batch."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def run_produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to write to.")],
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="Files; - or none is stdin.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="What the input holds.")] = Format.LINES,
    key_field: Annotated[
        str | None, typer.Option(metavar="NAME", help="Field (json) or column (csv) with the key.")
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text between key and value of a line.")
    ] = None,
    key_none: Annotated[
        bool, typer.Option("--key-none", help="No keys; with --format file, not the path either.")
    ] = False,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="All into this partition.")
    ] = None,
    compression: Annotated[Codec, typer.Option(help="Codec of the batches.")] = Codec.NONE,
    no_progress: Annotated[
        bool, typer.Option("--no-progress", help="Show no progress bar.")
    ] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = STREAM_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Write records, each once and in order, acknowledged when they are durable."""
    from penstock.client.produce import ProduceOptions, Producer
    from penstock.record.build import Record

    key = KeyChoice(field=key_field, separator=key_separator, none=key_none)
    key.check(form)
    names = inputs or [STDIN]
    began = time.monotonic()
    value_bytes = 0
    options = ProduceOptions(codec=list(Codec).index(compression))
    with connected(bootstrap, timeout) as cluster, _progress(names, shown=not no_progress) as show:
        cluster.topic(topic, create=True)
        with Producer(cluster, options, may_create_topics=True) as producer:
            for record in _with_pauses(read_records(names, form, key, advance=show)):
                if record is None:
                    producer.flush()
                    continue
                value_bytes += len(record.value)
                now_ms = time.time_ns() // 1_000_000
                whole = Record(record.key, record.value, (), now_ms)
                producer.send(topic, whole, partition=partition)
    seconds = time.monotonic() - began
    row = {
        "topic": topic,
        "records": producer.acknowledged_count,
        "value_bytes": value_bytes,
        "seconds": round(seconds, 3),
        "records_per_second": round(producer.acknowledged_count / seconds),
    }
    print_rows([row], tuple(row), output)


def _with_pauses(records: Iterator[InputRecord]) -> Iterator[InputRecord | None]:
    """Yield the records, and None when no more has come for a while.

    Reading may wait for a pipe, so it has its own thread; that ends with the process.
    """
    ahead: queue.Queue[InputRecord | BaseException | None] = queue.Queue(AHEAD_MAX)

    def read() -> None:
        try:
            for record in records:
                ahead.put(record)
            ahead.put(None)
        except BaseException as error:  # noqa: BLE001  raised again by the reader of the queue
            ahead.put(error)

    threading.Thread(target=read, daemon=True, name="penstock-input").start()
    has_unsent = False
    while True:
        try:
            item = ahead.get(timeout=PAUSE_SECONDS if has_unsent else None)
        except queue.Empty:
            has_unsent = False
            yield None
            continue
        if item is None:
            return
        if isinstance(item, BaseException):
            raise item
        has_unsent = True
        yield item


@contextmanager
def _progress(names: Sequence[str], *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr, if that is a terminal; yield what is to be told of bytes read."""
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
    from rich.progress import TransferSpeedColumn as SpeedColumn

    columns = (BarColumn(), DownloadColumn(), SpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("producing", total=_total_bytes(names))
        yield lambda count: progress.advance(task, count)


def _total_bytes(names: Sequence[str]) -> int | None:
    if STDIN in names or not all(Path(name).is_file() for name in names):
        return None
    return sum(Path(name).stat().st_size for name in names)
