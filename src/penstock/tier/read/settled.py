"""Up to where runs tell by themselves which transactions count, when nobody can be asked.

    notes     every transaction below the highest `decided_end` has its marker within the runs
    batches   from there on: whose transaction has no marker up to the end is open

A run that has only a part of what was split knows no `decided_end`, and a marker may lie in an
object that is lost: so the batches are read, from the last place on that the notes vouch for.
What was aborted stands in the notes of the run with its marker.

Source: docs/adr/0178; Kafka's last stable offset, KIP-98.
"""

from typing import NamedTuple

from penstock.record.batch import BatchHeader, read_header
from penstock.tier.metadata.manifest import Manifest, Run
from penstock.tier.read.reader import TierReader


class AbortedRange(NamedTuple):
    """A transaction that counts for nothing; both offsets are inclusive."""

    first_offset: int
    marker_offset: int
    producer_id: int


class Settled(NamedTuple):
    """What is known of the transactions in runs that follow each other."""

    end_offset: int
    """Every transaction that begins below it (exclusive) is decided within the runs."""
    aborted: list[AbortedRange]
    """Those with their marker in the runs, by first offset."""


async def settle(reader: TierReader, manifest: Manifest) -> Settled:
    """Return what runs without a gap say of their transactions. Raises TierError, StoreError."""
    aborted: set[AbortedRange] = set()
    vouched = manifest.start_offset
    for run in manifest.runs:
        notes = await reader.notes(run)
        for producer_id, first, marker in zip(*notes.aborted[:3], strict=True):
            if run.first_offset <= marker < run.end_offset:
                aborted.add(AbortedRange(first, marker, producer_id))
        if run.end_offset == run.entry.end_offset:  # a part that was cut may lack the marker
            vouched = max(vouched, min(notes.decided_end, run.end_offset))
    end = await _first_open(reader, manifest, vouched)
    return Settled(end, sorted(aborted))


async def _first_open(reader: TierReader, manifest: Manifest, start: int) -> int:
    """Return where the first transaction from `start` on begins that has no marker; or the end."""
    open_from: dict[int, int] = {}
    for run in manifest.runs_from(start):
        await _follow(reader, run, start, open_from)
    return min(open_from.values(), default=manifest.end_offset)


async def _follow(reader: TierReader, run: Run, start: int, open_from: dict[int, int]) -> None:
    offset = max(start, run.first_offset)
    for span in await reader.windows(run, offset, run.end_offset):
        for batch in (await reader.window(run, span, offset)).batches:
            _note(read_header(batch), open_from)


def _note(header: BatchHeader, open_from: dict[int, int]) -> None:
    if header.is_control:
        open_from.pop(header.producer_id, None)
    elif header.is_transactional:
        open_from.setdefault(header.producer_id, header.base_offset)
