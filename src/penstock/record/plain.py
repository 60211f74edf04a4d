"""Plain batches: small, not compressed, and as they should be in all that a broker looks at.

Nearly every small produce request has one. It goes through in one call, which tells nothing of what
it finds: whatever is not plain, and each mistake, is looked at step by step (`batch.check_batch`,
`walk.walk_records`), which knows what to say of it.

Source: ours, ADR 0177; the rules are those of `batch.py` and `walk.py`.
"""

from penstock.record.batch import BATCH_HEADER_BYTES, TRANSACTIONAL, BatchHeader, check_batch
from penstock.record.errors import RecordError
from penstock.record.walk import NO_TIMESTAMP, SOUND, find_fault

PLAIN_BYTES_MAX = 64 << 10
"""A larger batch is walked without the interpreter's lock, and its checks are not what it costs."""
PLAIN_RECORDS_MAX = 200
"""Without the compiled twin a record costs 10 us, and what is refused is looked at twice."""


def check_plain(
    batch: memoryview, now_ms: int, before_ms: int, after_ms: int
) -> BatchHeader | None:
    """Return the header if `batch` is one plain, valid batch; None: it is to be looked at closely.

    Its times are at most `before_ms` before now and `after_ms` after it, or it has none; the header
    tells the newest of them. `check_batch` and `walk_records` pass it.
    """
    if not BATCH_HEADER_BYTES <= len(batch) <= PLAIN_BYTES_MAX:
        return None
    try:
        header = check_batch(batch, 0, len(batch))
    except RecordError:
        return None
    block, count = batch[BATCH_HEADER_BYTES:], header.record_count
    if header.attributes & ~TRANSACTIONAL or count > PLAIN_RECORDS_MAX:
        return None
    # what follows the batch is found as what follows its last record
    fault, _, oldest, newest, _, _ = find_fault(block, count, header.base_timestamp)
    if fault != SOUND or newest != header.max_timestamp:
        return None
    first_ms, last_ms = now_ms - before_ms, now_ms + after_ms
    are_within = first_ms <= oldest and first_ms <= newest <= last_ms and oldest <= last_ms
    return header if are_within or newest == NO_TIMESTAMP else None
