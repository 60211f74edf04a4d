"""`penstock produce`: lines, JSON lines, CSV rows or files into a topic, each once and in order.

The producer is idempotent and uses acks=all: if a node restarts meanwhile, no record is lost or
stored twice. Slow input is sent after a short pause.

If Ctrl-C or a line that can not be read ends the input early, all records before it are sent and
acknowledged first, and the message says how many these were.
"""

import queue
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.errors import ConfigError, PlatformError
from penstock.cli.connect import STREAM_SECONDS, CommandFailed, TimeoutOption, connected
from penstock.cli.exit_codes import EXIT_INTERRUPTED
from penstock.cli.output import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    Output,
    OutputOption,
    note,
    print_rows,
)
from penstock.cli.records.reading import STDIN, Format, Header, InputRecord, KeyChoice, read_records
from penstock.cli.values import ID_MAX, named, quoted

if TYPE_CHECKING:
    from penstock.client.cluster import Cluster
    from penstock.client.produce import Delivered, ProduceOptions, Producer

PAUSE_SECONDS = 0.2
"""When no input has come for this long, the records read so far are sent."""

AHEAD_MAX = 10_000
"""Largest number of records that are read and not sent yet."""

MAX_MESSAGE_BYTES = "max.message.bytes"
BATCH_BYTES_MAX = 512 << 10
UNSEEN_BATCH_BYTES_MAX = 16 << 10
"""Where the topic's limit is not to be seen: as stock clients send by default."""


class Codec(StrEnum):
    """The choices of --compression, in the order of their codes in a batch."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def run_produce(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="Topic to write to.", callback=named)
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Files; - or none is stdin.", callback=named),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="What the input holds.")] = Format.LINES,
    key_field: Annotated[
        str | None, typer.Option(metavar="NAME", help="Field (json) or column (csv) with the key.")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help=r"Text between key and value of a line; \t is a tab."),
    ] = None,
    key_none: Annotated[
        bool, typer.Option("--key-none", help="No keys; with --format file, not the path either.")
    ] = False,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A header of every record; repeatable."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", min=0, max=ID_MAX, help="All into this partition."),
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
    from penstock.client.produce import Producer

    key = KeyChoice(field=key_field, separator=key_separator, none=key_none)
    key.check(form)
    headers = tuple(map(_header, header or ()))
    names = inputs or [STDIN]
    began = time.monotonic()
    with connected(bootstrap, timeout) as cluster, _progress(names, shown=not no_progress) as show:
        cluster.topic(topic, create=True)
        options = _options(cluster, topic, list(Codec).index(compression))
        ledger = _Ledger(topic, options.record_bytes_max)
        producer = Producer(cluster, options, on_delivered=ledger.delivered, may_create_topics=True)
        with _interrupt() as is_interrupted:
            records = _with_pauses(read_records(names, form, key, advance=show), is_interrupted)
            _send_all(producer, records, ledger, headers, partition)
            was_interrupted = is_interrupted()
    _tell(ledger, time.monotonic() - began, output)
    if was_interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


class _Ledger:
    """The records that are not acknowledged yet; after an error the oldest is named."""

    def __init__(self, topic: str, limit: int) -> None:
        self.topic, self.limit = topic, limit
        self.sent = self.acknowledged = self.value_bytes = 0
        self._open: dict[int, deque[tuple[int, str]]] = {}

    def sent_to(self, partition: int, record: InputRecord) -> None:
        self.sent += 1
        self.value_bytes += len(record.value or b"")
        self._open.setdefault(partition, deque()).append((self.sent, record.place))

    def delivered(self, delivered: "Delivered") -> None:
        places = self._open[delivered.partition]
        for _ in range(delivered.record_count):
            places.popleft()
        self.acknowledged += delivered.record_count

    def stopped(self, error: Exception) -> str:
        """Return a message with the error and the number of acknowledged records."""
        count = "1 record is" if self.acknowledged == 1 else f"{self.acknowledged} records are"
        text = f"{error}; {count} acknowledged"
        oldest = min((places[0] for places in self._open.values() if places), default=None)
        return text if oldest is None else f"{text}, the first that is not is {oldest[1]}"


def _tell(ledger: _Ledger, seconds: float, output: Output) -> None:
    """Print the result."""
    row = {
        "topic": ledger.topic,
        "records": ledger.acknowledged,
        "value_bytes": ledger.value_bytes,
        "seconds": round(seconds, 3),
        "records_per_second": round(ledger.acknowledged / seconds),
    }
    print_rows([row], tuple(row), output)


def _send_all(
    producer: "Producer",
    records: Iterator[InputRecord | None],
    ledger: _Ledger,
    headers: tuple[Header, ...],
    partition: int | None,
) -> None:
    """Send all records of the input. Raises ConfigError for invalid input, CommandFailed."""
    from penstock.client.errors import BrokerError, ClientError, TopicNotFound
    from penstock.protocol.error_codes import ErrorCode

    try:
        refused = _send(producer, records, ledger, headers, partition)
        producer.flush()
    except TopicNotFound:
        raise
    except ClientError as error:
        text = ledger.stopped(error)
        if isinstance(error, BrokerError) and error.code is ErrorCode.MESSAGE_TOO_LARGE:
            text += f": see {_raise_limit(ledger.topic, 2 * ledger.limit)}"
        raise CommandFailed(text) from error
    if refused is not None:
        raise type(refused)(ledger.stopped(refused)) from refused


def _send(
    producer: "Producer",
    records: Iterator[InputRecord | None],
    ledger: _Ledger,
    headers: tuple[Header, ...],
    partition: int | None,
) -> PlatformError | None:
    """Give records to the producer until the input ends; return the error that ended it early."""
    from penstock.client.errors import RecordTooLarge
    from penstock.record.build import Record

    try:
        for record in records:
            if record is None:
                producer.flush()
                continue
            now_ms = time.time_ns() // 1_000_000
            whole = Record(record.key, record.value, headers + record.headers, now_ms)
            try:
                number = producer.send(ledger.topic, whole, partition=partition)
            except RecordTooLarge as error:
                return CommandFailed(
                    f"{record.place}: a record of {error.size} bytes is more than the"
                    f" {error.limit} that topic {ledger.topic} takes:"
                    f" {_raise_limit(ledger.topic, error.size)}"
                )
            ledger.sent_to(number, record)
    except ConfigError as error:
        return error
    return None


def _raise_limit(topic: str, size: int) -> str:
    return f"penstock config set topic {topic} {MAX_MESSAGE_BYTES}={size}"


def _options(cluster: "Cluster", topic: str, codec: int) -> "ProduceOptions":
    """Return options with batch sizes that the topic accepts.

    Who may write need not see the configuration. Then batches are as small as any usual topic
    takes, and the broker says which record is too large.
    """
    from penstock.client.admin import Admin
    from penstock.client.errors import BrokerError
    from penstock.client.produce import ProduceOptions
    from penstock.protocol.error_codes import ErrorCode

    try:
        configs = Admin(cluster).describe_configs(topic)
    except BrokerError as error:
        if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        most = ProduceOptions().request_bytes_max
        return ProduceOptions(
            codec=codec, batch_bytes_max=UNSEEN_BATCH_BYTES_MAX, record_bytes_max=most
        )
    found = (one.value for one in configs if one.name == MAX_MESSAGE_BYTES and one.value)
    limit = int(next(found, BATCH_BYTES_MAX))
    return ProduceOptions(
        codec=codec, batch_bytes_max=min(BATCH_BYTES_MAX, limit), record_bytes_max=limit
    )


def _header(text: str) -> Header:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"--header {quoted(text)}: write NAME=VALUE")
    return name, value.encode()


@contextmanager
def _interrupt() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C end the input, a second one the command; yield whether the first has come."""
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield came.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def interrupted(_number: int, _frame: object) -> None:
        came.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield came.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _with_pauses(
    records: Iterator[InputRecord], is_over: Callable[[], bool]
) -> Iterator[InputRecord | None]:
    """Yield the records, and None after each PAUSE_SECONDS without one; stop once `is_over`.

    Reading may block on a pipe, so it has its own thread, which ends with the process.
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
    while not is_over():
        try:
            item = ahead.get(timeout=PAUSE_SECONDS)
        except queue.Empty:
            if has_unsent:
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
    """Show a progress bar on a terminal; yield the function to call with the bytes read."""
    is_typed = STDIN in names and sys.stdin.isatty()
    if is_typed:
        note("one record a line; Ctrl-D ends")
    if not shown or is_typed or not sys.stderr.isatty():
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
