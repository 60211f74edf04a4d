# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of `batch.check_batch`, for batches that pass.

What does not pass is given to the twin, which knows what to say of it.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from crc32c import crc32c

from penstock.record._wire cimport (
    PyType_GenericAlloc,
    bytes_of,
    get_i16,
    get_i32,
    get_i64,
    get_u32,
    put_item,
)

from penstock.record.batch import BatchHeader
from penstock.record.batch import check_batch as check_interpreted

cdef enum:
    LOG_OVERHEAD = 12
    HEADER_BYTES = 61
    CHECKED_AT = 21
    MAGIC = 2
    LAST_CODEC = 4
    RECORD_BYTES_MIN = 7
    CONTROL = 0x20


def check_batch(object buffer, Py_ssize_t at, Py_ssize_t end):
    """Check the batch at `at`, which must lie below `end`; return its header."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* data = bytes_of(buffer, &size)
    if data == NULL or at < 0 or end > size or end - at < HEADER_BYTES:
        return check_interpreted(buffer, at, end)
    data += at
    cdef int32_t length = get_i32(data + 8)
    cdef Py_ssize_t bytes_used = <Py_ssize_t> LOG_OVERHEAD + length
    cdef int16_t attributes = get_i16(data + 21)
    cdef int32_t delta = get_i32(data + 23)
    cdef int64_t producer_id = get_i64(data + 43)
    cdef int16_t epoch = get_i16(data + 51)
    cdef int32_t sequence = get_i32(data + 53)
    cdef int32_t count = get_i32(data + 57)
    cdef int codec = attributes & 7
    if (
        data[16] != MAGIC
        or bytes_used > end - at
        or bytes_used < HEADER_BYTES
        or count < 1
        or delta != count - 1
        or codec > LAST_CODEC
        or (codec == 0 and <int64_t> count * RECORD_BYTES_MIN > bytes_used - HEADER_BYTES)
        or (producer_id >= 0 and (epoch < 0 or sequence < 0) and not attributes & CONTROL)
    ):
        return check_interpreted(buffer, at, end)
    cdef object crc = get_u32(data + 17)
    if crc32c(buffer[at + CHECKED_AT : at + bytes_used]) != crc:
        return check_interpreted(buffer, at, end)
    cdef object header = PyType_GenericAlloc(BatchHeader, 13)
    put_item(header, 0, get_i64(data))
    put_item(header, 1, length)
    put_item(header, 2, get_i32(data + 12))
    put_item(header, 3, MAGIC)
    put_item(header, 4, crc)
    put_item(header, 5, attributes)
    put_item(header, 6, delta)
    put_item(header, 7, get_i64(data + 27))
    put_item(header, 8, get_i64(data + 35))
    put_item(header, 9, producer_id)
    put_item(header, 10, epoch)
    put_item(header, 11, sequence)
    put_item(header, 12, count)
    return header
