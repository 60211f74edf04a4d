"""Pass 1: the dirty batches of a partition go into the key map, up to where a pass may clean.

The pass ends before the first batch that reaches the bound, that is younger than the lag allows, or
whose keys do not fit into the map any more. It always ends where a batch ends.

Source: Kafka `Cleaner.buildOffsetMap`: neither control batches nor aborted records enter the map.
Departure: the lag is that of each batch and not of its segment.
"""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.compaction.errors import KeyMapTooSmall
from penstock.compaction.key_map import KeyMap
from penstock.compaction.sifted import INT64_MAX
from penstock.compaction.transactions import PassTransactions
from penstock.record.batch import BatchHeader
from penstock.record.compression import READER_BOUNDS
from penstock.record.marker import read_marker
from penstock.record.read import open_batch


class Dirty(NamedTuple):
    """What of a partition may be cleaned for the first time."""

    start_offset: int
    """Where the last pass ended (inclusive)."""
    bound_offset: int
    """Nothing at or above is touched: the least of last stable offset, high watermark and the end
    of what is closed (exclusive)."""
    newest_ms: int = INT64_MAX
    """No batch with a larger timestamp is touched: now - min.compaction.lag.ms."""


def fill_key_map(
    key_map: KeyMap,
    batches: Iterable[tuple[BatchHeader, memoryview]],
    dirty: Dirty,
    transactions: PassTransactions,
) -> int:
    """Note the keys of the dirty batches; return where the pass ends (exclusive).

    `batches` come with their headers, in offset order, from one that is not above the start on.
    Raises KeyMapTooSmall, UnlistedAbort, RecordError kinds.
    """
    end = dirty.start_offset
    for header, batch in batches:
        if header.last_offset < dirty.start_offset:
            continue
        if header.last_offset >= dirty.bound_offset or header.max_timestamp > dirty.newest_ms:
            break
        if not _take(key_map, header, batch, transactions):
            if end == dirty.start_offset:
                raise KeyMapTooSmall(header.base_offset, key_map.limit)
            break
        end = header.last_offset + 1
    return end


def _take(
    key_map: KeyMap, header: BatchHeader, batch: memoryview, transactions: PassTransactions
) -> bool:
    """Note the keys of a batch; False if the map is full."""
    if not header.is_control:
        if transactions.is_aborted(header):
            return True
        return key_map.put_block(header, open_batch(header, batch, READER_BOUNDS))
    marker = read_marker(batch)
    if marker is not None:
        transactions.check(header, marker)
    return True
