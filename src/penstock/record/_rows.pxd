# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Where the parts of a record stand in its block: what all compiled twins read by.

Every number is read with an explicit end, and every length is compared with the bytes left.
Source: `varint.py` and `read.read_raw`, of which this is the compiled form.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef enum:
    VARINT_BYTES_MAX = 10


cdef inline Py_ssize_t read_varint(
    const uint8_t* data, Py_ssize_t at, Py_ssize_t end, int64_t* value
) noexcept nogil:
    """Read the number at `at`; return where the next byte stands, or -1 if it does not end."""
    cdef uint64_t raw = 0
    cdef int shift = 0
    cdef uint8_t byte
    if end > at + VARINT_BYTES_MAX:
        end = at + VARINT_BYTES_MAX
    while at < end:
        byte = data[at]
        at += 1
        raw |= (<uint64_t> (byte & 0x7F)) << shift
        if byte < 0x80:
            value[0] = <int64_t> (raw >> 1) ^ -(<int64_t> (raw & 1))
            return at
        shift += 7
    return -1


cdef struct Row:
    int64_t timestamp_delta
    int64_t offset_delta
    Py_ssize_t key_at
    int64_t key_length
    Py_ssize_t value_at
    int64_t value_length
    Py_ssize_t headers_at
    Py_ssize_t end


cdef inline Py_ssize_t read_part(
    const uint8_t* data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t* start, int64_t* length
) noexcept nogil:
    """Read a length and step over that many bytes; return the next byte, or -1 if damaged."""
    at = read_varint(data, at, end, length)
    if at < 0 or length[0] < -1 or length[0] > end - at:
        return -1
    start[0] = at
    return at if length[0] < 0 else at + length[0]


cdef inline bint read_row(
    const uint8_t* data, Py_ssize_t at, Py_ssize_t size, Row* row
) noexcept nogil:
    """Read where the parts of the record at `at` stand; False if damaged."""
    cdef int64_t length = 0
    at = read_varint(data, at, size, &length)
    if at < 0 or length < 1 or length > size - at:
        return False
    row.end = at + length
    at = read_varint(data, at + 1, row.end, &row.timestamp_delta)
    if at < 0:
        return False
    at = read_varint(data, at, row.end, &row.offset_delta)
    if at < 0:
        return False
    at = read_part(data, at, row.end, &row.key_at, &row.key_length)
    if at < 0:
        return False
    at = read_part(data, at, row.end, &row.value_at, &row.value_length)
    row.headers_at = at
    return at >= 0
