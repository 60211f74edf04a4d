"""Reads rows that nodes write, each once, in the memory of one batch."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.base.errors import ConfigError, PlatformError
from penstock.cli.connect import CommandFailed, connected
from penstock.cli.output import note
from penstock.cli.records.places import Place, PlaceKind, resolve

if TYPE_CHECKING:
    from penstock.audit.row import Row
R = TypeVar("R")
NO_ROWS = "no node has written rows of the audit: set broker.audit=true on each node"


def since(text: str) -> Place:
    """Return the place that --from names. Raises ConfigError."""
    place = Place.parse(text)
    if place.kind not in {PlaceKind.BEGINNING, PlaceKind.TIME}:
        raise ConfigError("--from takes beginning or a time")
    return place


def rows_since(bootstrap: str, timeout: float, begin: Place) -> "Iterator[Row]":
    """Read the rows from a place to the end, each once; what is no row is counted and told.

    Raises CommandFailed where no node has written any, and what reading any topic raises.
    """
    from penstock.audit.errors import MalformedRow
    from penstock.audit.row import OTHER, decode_row
    from penstock.audit.row import TOPIC as AUDIT_TOPIC

    others = 0
    rows = RowTopic(AUDIT_TOPIC, NO_ROWS, decode_row, MalformedRow)
    for row in rows.since(bootstrap, timeout, begin):
        others += row.key.operation == OTHER
        yield row
    if others:
        note(f"partial: {others} rows are of what found no room for one of its own in its fold")


class RowTopic(Generic[R]):
    """A topic of rows: what reads one of them, and what is said where there are none."""

    def __init__(
        self,
        topic: str,
        missing: str,
        decode: Callable[[bytes], R],
        malformed: type[PlatformError],
    ) -> None:
        self._topic, self._missing, self._decode = topic, missing, decode
        self._malformed = malformed

    def since(self, bootstrap: str, timeout: float, begin: Place) -> "Iterator[R]":
        """Read the rows from a place to the end, each once; what is no row is counted and told.

        Raises CommandFailed where the topic is missing, and what reading any topic raises.
        """
        from penstock.audit.seen import Seen
        from penstock.client.consume import RecordStream
        from penstock.client.errors import TopicNotFound

        seen, topic, malformed = Seen(), self._topic, 0
        with connected(bootstrap, timeout) as cluster:
            try:
                starts = resolve(cluster, topic, begin, None)
            except TopicNotFound as error:
                raise CommandFailed(self._missing) from error
            ends = resolve(cluster, topic, Place(PlaceKind.END), None)
            positions = {(topic, number): at for number, at in starts.items()}
            until = {(topic, number): end for number, end in ends.items()}
            for consumed in RecordStream(cluster, positions, ends=until):
                if not seen.is_new(consumed.record.key):
                    continue
                try:
                    row = self._decode(bytes(consumed.record.value or b""))
                except self._malformed:
                    malformed += 1
                    continue
                yield row
        if malformed:
            note(f"{malformed} records of {topic} are no rows that this version can read")
        if seen.forgot:
            note("rows that were written twice may count twice: there are too many gaps")


def tell_left_out(count: int, what: str) -> None:
    """Say that the output is partial, if it is."""
    if count:
        note(f"partial: {count} rows are left out, as there are too many {what}: give --from")
