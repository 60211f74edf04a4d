# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of `scan.py`: looks for a record in a block and makes an object of none.

Source: as in `scan.py`. It deliberately knows neither batch headers nor compression.
"""

from libc.stdint cimport int64_t, uint8_t

from penstock.record._rows cimport Row, read_row

from penstock.record.errors import CorruptBatch


def find_record(
    const uint8_t[::1] block,
    int64_t record_count,
    int64_t first_offset_delta,
    int64_t timestamp_delta,
):
    """Return (offset delta, timestamp delta) of the first record not below both; None if none."""
    cdef Py_ssize_t size = block.shape[0]
    cdef const uint8_t* data = &block[0] if size else NULL
    cdef Py_ssize_t at = 0
    cdef int64_t count
    cdef Row row
    cdef bint is_found = False
    cdef bint is_corrupt = False
    with nogil:  # other threads, the event loop first, run during millions of records
        for count in range(record_count):
            if not read_row(data, at, size, &row):
                is_corrupt = True
                break
            if row.offset_delta >= first_offset_delta and row.timestamp_delta >= timestamp_delta:
                is_found = True
                break
            at = row.end
    if is_corrupt:
        raise CorruptBatch(f"record at byte {at} of its block")
    return (row.offset_delta, row.timestamp_delta) if is_found else None
