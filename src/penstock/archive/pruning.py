"""What is older than the policy goes, from the beginning of each partition.

A chunk goes when its newest record is too old and every chunk before it goes, so that what is left
of a partition is one range. The entry comes first, then the files are deleted: if that is cut
short, the next prune or run deletes the rest.

Source: docs/adr/0164. As Kafka's retention, by time, of whole segments.
"""

import secrets
from collections.abc import Iterator
from typing import NamedTuple

from penstock.archive.copying import RUN_BYTES
from penstock.archive.entries import Chunk, Pruned
from penstock.archive.errors import NoPolicy
from penstock.archive.ledger import Ledger
from penstock.archive.manifest import Part
from penstock.archive.sweeping import pruned_before, unnamed


class PrunedPartition(NamedTuple):
    """What a prune takes of a partition; `start` is the first offset that stays."""

    partition: int
    start: int
    chunks: int
    records: int
    size_bytes: int


def prune(
    ledger: Ledger, *, keep_ms: int | None, now_ms: int, is_dry: bool = False
) -> list[PrunedPartition]:
    """Let records go that are older than `keep_ms`, None: than the policy says; return what goes.

    With `is_dry` it stays. Raises NoPolicy, NoArchive, ArchiveTaken, ArchiveLies, StoreError.
    """
    manifest = ledger.existing()
    keep_ms = manifest.keep_ms if keep_ms is None else keep_ms
    if not keep_ms:
        raise NoPolicy("this archive keeps its records for ever: say how old they become, --keep")
    found = [
        _pruned(number, old)
        for number, part in sorted(manifest.parts.items())
        if (old := list(_older(part, now_ms - keep_ms)))
    ]
    if is_dry:
        return found
    if found:
        starts = tuple((one.partition, one.start) for one in found)
        ledger.commit(Pruned(run=secrets.token_hex(RUN_BYTES), starts=starts))
    ledger.files.delete(pruned_before(manifest, unnamed(ledger.files, manifest)))
    return found


def _older(part: Part, limit_ms: int) -> Iterator[Chunk]:
    """Yield the first chunks, as long as all of their records are older."""
    for chunk in part.chunks:
        if chunk.last_ms >= limit_ms:
            return
        yield chunk


def _pruned(partition: int, old: list[Chunk]) -> PrunedPartition:
    return PrunedPartition(
        partition,
        old[-1].end,
        len(old),
        sum(chunk.rows for chunk in old),
        sum(chunk.size_bytes for chunk in old),
    )
