"""Every byte of an archive is looked at: entries, snapshots, files and the rows in them.

Source: docs/adr/0164.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.archive.chunks import read_lies
from penstock.archive.ledger import Ledger
from penstock.archive.manifest import Part
from penstock.archive.sweeping import unnamed


class PartitionReport(NamedTuple):
    """A partition of an archive. `end` is exclusive; times are None where it has no records."""

    partition: int
    start: int
    end: int
    gaps: list[str]
    files: int
    records: int
    size_bytes: int
    oldest_ms: int | None
    newest_ms: int | None


class Finding(NamedTuple):
    """A file that is not to be believed, or that nobody names."""

    name: str
    reason: str
    is_damage: bool


def reports(ledger: Ledger) -> list[PartitionReport]:
    """Return what the manifest says of each partition."""
    return [_report(number, part) for number, part in sorted(ledger.manifest.parts.items())]


def _report(number: int, part: Part) -> PartitionReport:
    filled = [chunk for chunk in part.chunks if chunk.files]
    return PartitionReport(
        number,
        part.start,
        part.end,
        [f"{start}-{end}" for start, end in part.gaps],
        sum(len(chunk.files) for chunk in filled),
        sum(chunk.rows for chunk in filled),
        sum(chunk.size_bytes for chunk in filled),
        min((chunk.first_ms for chunk in filled), default=None),
        max((chunk.last_ms for chunk in filled), default=None),
    )


def verify(
    ledger: Ledger, on_chunk: Callable[[int, int], None] = lambda _done, _total: None
) -> list[Finding]:
    """Read everything, and return what is wrong. Raises StoreError; ArchiveLies of the ledger."""
    manifest = ledger.existing(with_every_entry=True)
    chunks = manifest.chunks()
    found: list[Finding] = []
    for done, chunk in enumerate(chunks, 1):
        lies = read_lies(ledger.files, chunk, manifest.topic)
        found += [Finding(lie.name, lie.reason, is_damage=True) for lie in lies]
        on_chunk(done, len(chunks))
    left = "no entry names it: the next run or prune deletes it, or refuses it"
    found += [Finding(name, left, is_damage=False) for name in unnamed(ledger.files, manifest)]
    return found
