# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of `read.record_at`, for records that are as they should be.

Of all others it says None: the twin knows what to say of them.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.tuple cimport PyTuple_GET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t

from penstock.record._wire cimport PyType_GenericAlloc, bytes_of, put_item

cdef enum:
    BASE_OFFSET = 0
    ATTRIBUTES = 5
    LAST_DELTA = 6
    BASE_TIMESTAMP = 7
    MAX_TIMESTAMP = 8
    LOG_APPEND_TIME = 0x08


cdef inline int64_t field(object header, Py_ssize_t place) except? -1:
    """Return a number of a header, which is a tuple of a class."""
    return <object> PyTuple_GET_ITEM(header, place)


cdef inline const uint8_t* read_number(
    const uint8_t* at, const uint8_t* end, int64_t* value
) noexcept:
    """Read the zigzag number at `at`; NULL if it is cut off, or has more than 63 bits."""
    cdef uint64_t raw = 0
    cdef int shift = 0
    cdef uint8_t byte
    while at < end and shift < 63:
        byte = at[0]
        raw |= <uint64_t> (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            value[0] = <int64_t> (raw >> 1) ^ -<int64_t> (raw & 1)
            return at
        shift += 7
    return NULL


cdef inline const uint8_t* read_part(
    const uint8_t* at, const uint8_t* end, int64_t* length
) noexcept:
    """Read a length, -1 for null, and step over so many bytes; NULL if it does not fit."""
    at = read_number(at, end, length)
    if at == NULL or length[0] < -1 or length[0] > end - at:
        return NULL
    return at if length[0] < 0 else at + length[0]


cdef inline object copied(const uint8_t* behind, int64_t length):
    """Return the part that ends there."""
    if length < 0:
        return None
    return PyBytes_FromStringAndSize(<const char*> behind - length, length)


cdef tuple headers_of(const uint8_t* at, const uint8_t* end):
    """Return the headers in [at, end); None if they are not as they should be."""
    cdef int64_t count = 0
    cdef int64_t length = 0
    cdef int64_t left
    at = read_number(at, end, &count)
    if at == NULL or not 0 <= count <= (end - at) // 2:
        return None
    if not count:
        return () if at == end else None
    cdef list found = []
    cdef object name
    for left in range(count):
        at = read_part(at, end, &length)
        if at == NULL or length < 0:
            return None
        name = PyUnicode_DecodeUTF8(<const char*> at - length, length, "replace")
        at = read_part(at, end, &length)
        if at == NULL:
            return None
        found.append((name, copied(at, length)))
    return tuple(found) if at == end else None


def record_at(object kind, object block, Py_ssize_t begin, object header, int64_t previous):
    """Return the record at byte `begin`, a `kind`, its offset delta and its end; or None."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* data = bytes_of(block, &size)
    if data == NULL or not 0 <= begin < size:
        return None
    cdef int64_t length = 0
    cdef int64_t timestamp_delta = 0
    cdef int64_t offset_delta = 0
    cdef const uint8_t* at = read_number(data + begin, data + size, &length)
    if at == NULL or length < 1 or length > data + size - at:
        return None
    cdef const uint8_t* end = at + length
    at = read_number(at + 1, end, &timestamp_delta)
    if at == NULL:
        return None
    at = read_number(at, end, &offset_delta)
    if at == NULL or not previous < offset_delta <= field(header, LAST_DELTA):
        return None
    cdef int64_t base = field(header, BASE_TIMESTAMP)
    cdef object time
    if field(header, ATTRIBUTES) & LOG_APPEND_TIME:
        time = field(header, MAX_TIMESTAMP)
    elif (timestamp_delta > 0 and base > INT64_MAX - timestamp_delta) or (
        timestamp_delta < 0 and base < INT64_MIN - timestamp_delta
    ):
        return None
    else:
        time = base + timestamp_delta
    at = read_part(at, end, &length)
    if at == NULL:
        return None
    cdef object key = copied(at, length)
    at = read_part(at, end, &length)
    if at == NULL:
        return None
    cdef object value = copied(at, length)
    cdef tuple headers = headers_of(at, end)
    if headers is None:
        return None
    cdef object record = PyType_GenericAlloc(kind, 5)
    put_item(record, 0, field(header, BASE_OFFSET) + offset_delta)
    put_item(record, 1, time)
    put_item(record, 2, key)
    put_item(record, 3, value)
    put_item(record, 4, headers)
    return record, offset_delta, end - data
