# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of `scan.py`: looks for a record in a block and makes an object of none.

Source: as in `scan.py`. It deliberately knows neither batch headers nor compression.
"""

from libc.stdint cimport int64_t, uint8_t

from penstock.record._rows cimport Row, read_part, read_row, read_varint

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


cdef inline bint are_headers_sound(const uint8_t* data, const Row* row) noexcept nogil:
    """Whether the headers of a record end where it does."""
    cdef int64_t count = 0
    cdef int64_t length = 0
    cdef Py_ssize_t start = 0
    cdef Py_ssize_t at = read_varint(data, row.headers_at, row.end, &count)
    if at < 0 or count < 0 or count > (row.end - at) // 2:
        return False
    while count:
        count -= 1
        at = read_part(data, at, row.end, &start, &length)
        if at < 0 or length < 0:
            return False
        at = read_part(data, at, row.end, &start, &length)
        if at < 0:
            return False
    return at == row.end


def cut_records(
    const uint8_t[::1] block,
    int64_t record_count,
    int64_t last_delta,
    int64_t first_delta,
    Py_ssize_t bytes_max,
    int64_t records_max,
):
    """Return (start, end, records, delta of the last of them, state); see `scan.cut_records`."""
    cdef Py_ssize_t size = block.shape[0]
    cdef const uint8_t* data = &block[0] if size else NULL
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t start = 0
    cdef Py_ssize_t end = 0
    cdef int64_t previous = -1
    cdef int64_t last = -1
    cdef int64_t taken = 0
    cdef int64_t count
    cdef int state = 0
    cdef Row row
    with nogil:  # as above
        for count in range(record_count):
            if taken and (taken >= records_max or end - start >= bytes_max):
                state = 1
                break
            if (
                not read_row(data, at, size, &row)
                or row.offset_delta <= previous
                or row.offset_delta > last_delta
            ):
                state = 2
                break
            if row.offset_delta >= first_delta:
                if not are_headers_sound(data, &row):
                    state = 2
                    break
                if not taken:
                    start = at
                taken += 1
                end, last = row.end, row.offset_delta
            previous, at = row.offset_delta, row.end
    return start, end, taken, last, state
