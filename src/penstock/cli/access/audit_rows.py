"""Reads the rows of the audit, each once, in the memory of one batch."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.base.errors import ConfigError
from penstock.cli.connect import CommandFailed, connected
from penstock.cli.output import note
from penstock.cli.records.places import Place, PlaceKind, resolve

if TYPE_CHECKING:
    from penstock.audit.row import Row


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
    from penstock.audit.row import OTHERS, decode_row
    from penstock.audit.row import TOPIC as AUDIT_TOPIC
    from penstock.audit.seen import Seen
    from penstock.client.consume import RecordStream
    from penstock.client.errors import TopicNotFound

    seen = Seen()
    malformed = others = 0
    with connected(bootstrap, timeout) as cluster:
        try:
            starts = resolve(cluster, AUDIT_TOPIC, begin, None)
        except TopicNotFound as error:
            raise CommandFailed(NO_ROWS) from error
        ends = resolve(cluster, AUDIT_TOPIC, Place(PlaceKind.END), None)
        topic = {(AUDIT_TOPIC, number): end for number, end in ends.items()}
        positions = {(AUDIT_TOPIC, number): at for number, at in starts.items()}
        for consumed in RecordStream(cluster, positions, ends=topic):
            if not seen.is_new(consumed.record.key):
                continue
            try:
                row = decode_row(bytes(consumed.record.value or b""))
            except MalformedRow:
                malformed += 1
                continue
            others += row.key == OTHERS
            yield row
    if malformed:
        note(f"{malformed} records of {AUDIT_TOPIC} are no rows that this version can read")
    if others:
        note(f"partial: in {others} folds of nodes there was more than fits, which is in no row")
    if seen.forgot:
        note("rows that were written twice may count twice: there are too many gaps")


def tell_left_out(count: int, what: str) -> None:
    """Say that the output is partial, if it is."""
    if count:
        note(f"partial: {count} rows are left out, as there are too many {what}: give --from")
