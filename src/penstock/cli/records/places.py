"""Places in a topic as written on a command line: beginning, end, an offset, a time.

beginning   the first record that is kept
end         behind the last one
1234        the record with this offset
@1700000000000, 2026-01-31, 2026-01-31T12:00, 2026-01-31T12:00:00+01:00
            the first record not older than this time; without a zone it is UTC
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import TYPE_CHECKING, Self

from penstock.base.errors import ConfigError

if TYPE_CHECKING:
    from penstock.client.cluster import Cluster

INT64_MAX = 2**63 - 1
INT64_DIGITS = 19


class PlaceKind(Enum):
    """The ways to give a place."""

    BEGINNING = auto()
    END = auto()
    OFFSET = auto()
    TIME = auto()


@dataclass(frozen=True, slots=True)
class Place:
    """A place in every partition; `value` is an offset or ms since 1970."""

    kind: PlaceKind
    value: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the place that the text names. Raises ConfigError."""
        if text == "beginning":
            return cls(PlaceKind.BEGINNING)
        if text == "end":
            return cls(PlaceKind.END)
        digits = text.removeprefix("@")
        is_number = digits.isascii() and digits.isdigit()
        if is_number and len(digits) <= INT64_DIGITS and int(digits) <= INT64_MAX:
            kind = PlaceKind.TIME if text.startswith("@") else PlaceKind.OFFSET
            return cls(kind, int(digits))
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ConfigError(
                f"{text} is not a place: write beginning, end, an offset, @milliseconds, "
                "or a time such as 2026-01-31T12:00"
            ) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return cls(PlaceKind.TIME, max(0, round(moment.timestamp() * 1000)))


def resolve(
    cluster: "Cluster",
    topic: str,
    place: Place,
    partitions: Sequence[int] | None,
    *,
    is_committed_only: bool = False,
) -> dict[int, int]:
    """Return the offset of a place in each of the partitions, limited to the log's range.

    `partitions` None means all. A time after the last record is the end; with `is_committed_only`
    that is before the first transaction that is open.
    """
    from penstock.client.admin import EARLIEST, LATEST, Admin

    admin = Admin(cluster)
    if partitions is not None:
        partitions = list(dict.fromkeys(partitions))
    if place.kind is PlaceKind.TIME:
        found = admin.list_offsets(topic, place.value, partitions)
        ends = admin.list_offsets(topic, LATEST, partitions)
        return {
            number: one.offset if one.offset >= 0 else ends[number].offset
            for number, one in found.items()
        }
    if place.kind is PlaceKind.END:
        ends = admin.list_offsets(topic, LATEST, partitions, is_committed_only=is_committed_only)
        return {number: end.offset for number, end in ends.items()}
    starts = {
        number: offset.offset
        for number, offset in admin.list_offsets(topic, EARLIEST, partitions).items()
    }
    if place.kind is PlaceKind.BEGINNING:
        return starts
    ends = admin.list_offsets(topic, LATEST, partitions)
    return {
        number: min(max(start, place.value), ends[number].offset)
        for number, start in starts.items()
    }
