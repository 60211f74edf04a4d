"""Work on a batch before it is appended: here on the loop where that is little, else on a worker.

    batch ─► prepare_here ─► small: Prepared ─► append
                    └─► None: the rest of the request waits (unprepared_produce.py)
                              worker: prepare ─► Prepared ─► append

What is little is said by `HERE_BYTES_MAX`, of the batch and of what it unpacks to: gzip takes two
milliseconds for so much. Everything that looks into a batch, or changes it, belongs here, so that
there is one place that decides where it runs.

Source: Kafka `LogValidator` (what is done to a batch), which runs on any request thread.
"""

from typing import NamedTuple

from penstock.broker.batch_rules import BatchRules
from penstock.record.batch import BatchHeader, read_header
from penstock.record.compression import Bounds
from penstock.record.errors import BatchTooLarge
from penstock.record.recompress import recompress

HERE_BYTES_MAX = 16 << 10
_HERE = Bounds(HERE_BYTES_MAX, ratio_free_bytes=HERE_BYTES_MAX)


class Prepared(NamedTuple):
    """A batch that is ready for the log; the bytes may be written to."""

    records: memoryview
    header: BatchHeader


def needs_preparation(header: BatchHeader, rules: BatchRules) -> bool:
    """Whether there is anything to be done."""
    return rules.codec is not None and rules.codec != header.codec


def prepare_here(records: memoryview, rules: BatchRules) -> Prepared | None:
    """Prepare a batch on the loop; None where it is more work than the loop may do at once.

    Raises RecordError kinds.
    """
    if len(records) > HERE_BYTES_MAX:
        return None
    try:
        return _prepared(records, rules, _HERE)
    except BatchTooLarge:
        return None  # whether it is too large for the topic, too, a worker will say


def prepare(records: memoryview, rules: BatchRules) -> Prepared:
    """Prepare a batch of any size; called off the loop. Raises RecordError kinds."""
    return _prepared(records, rules, rules.bounds)


def _prepared(records: memoryview, rules: BatchRules, bounds: Bounds) -> Prepared:
    assert rules.codec is not None, "nothing to prepare"
    rewritten = memoryview(bytearray(recompress(records, rules.codec, bounds)))
    return Prepared(rewritten, read_header(rewritten))
