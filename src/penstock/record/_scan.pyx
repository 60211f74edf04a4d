# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of `scan.py`: looks at every record of a block and makes an object of none.

Source: as in `scan.py`. It deliberately knows neither batch headers nor compression.
"""

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MIN, int64_t, uint8_t

from penstock.record._rows cimport Row, read_part, read_row, read_varint

from penstock.record.errors import CorruptBatch


cdef int check_headers(const uint8_t* data, Row* row) except -1:
    """Count, names and values must add up, and names be text."""
    cdef int64_t count = 0
    cdef int64_t length = 0
    cdef Py_ssize_t start = 0
    cdef Py_ssize_t at = read_varint(data, row.headers_at, row.end, &count)
    if at < 0 or count < 0 or count > (row.end - at) // 2:
        raise CorruptBatch("header count of a record")
    while count > 0:
        at = read_part(data, at, row.end, &start, &length)
        if at < 0 or length < 0:
            raise CorruptBatch("header name of a record")
        try:
            PyUnicode_DecodeUTF8(<const char*> data + start, length, NULL)
        except UnicodeDecodeError as error:
            raise CorruptBatch("a header name is not UTF-8") from error
        at = read_part(data, at, row.end, &start, &length)
        if at < 0:
            raise CorruptBatch("header value of a record")
        count -= 1
    if at != row.end:
        raise CorruptBatch(f"{row.end - at} bytes follow the headers of a record")
    return 0


def check_records(const uint8_t[::1] block, int64_t record_count):
    """Check records as a producer must send them; return the largest timestamp delta."""
    cdef Py_ssize_t size = block.shape[0]
    cdef const uint8_t* data = &block[0] if size else NULL
    cdef Py_ssize_t at = 0
    cdef int64_t expected
    cdef int64_t latest = INT64_MIN
    cdef Row row
    for expected in range(record_count):
        if not read_row(data, at, size, &row):
            raise CorruptBatch(f"record at byte {at} of its block")
        if row.offset_delta != expected:
            raise CorruptBatch(f"offset delta {row.offset_delta} where {expected} is next")
        check_headers(data, &row)
        if row.timestamp_delta > latest:
            latest = row.timestamp_delta
        at = row.end
    if at != size:
        raise CorruptBatch(f"{size - at} bytes follow the last record")
    return latest


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
    for count in range(record_count):
        if not read_row(data, at, size, &row):
            raise CorruptBatch(f"record at byte {at} of its block")
        if row.offset_delta >= first_offset_delta and row.timestamp_delta >= timestamp_delta:
            return row.offset_delta, row.timestamp_delta
        at = row.end
    return None
