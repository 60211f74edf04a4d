# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of `plain.check_plain`: checksum, header, records and times in one call."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t

from crc32c import crc32c

from penstock.record._walk cimport NO_TIMESTAMP, SOUND, Walk, walk_block
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
from penstock.record.plain import check_plain as check_interpreted

cdef enum:
    LOG_OVERHEAD = 12
    HEADER_BYTES = 61
    CHECKED_AT = 21
    MAGIC = 2
    RECORD_BYTES_MIN = 7
    TRANSACTIONAL = 0x10
    PLAIN_BYTES_MAX = 64 << 10
    PLAIN_RECORDS_MAX = 200


cdef inline bint is_within(int64_t time, int64_t now, int64_t before, int64_t after) noexcept:
    """Whether `time` is at most so long before or after; `before` and `after` are not negative."""
    if time <= now:
        return <uint64_t> now - <uint64_t> time <= <uint64_t> before
    return <uint64_t> time - <uint64_t> now <= <uint64_t> after


def check_plain(object batch, int64_t now_ms, int64_t before_ms, int64_t after_ms):
    """Return the header of a plain batch; None: it has to be looked at more closely."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* data = bytes_of(batch, &size)
    if data == NULL:
        return check_interpreted(batch, now_ms, before_ms, after_ms)
    if not HEADER_BYTES <= size <= PLAIN_BYTES_MAX or get_i32(data + 8) != size - LOG_OVERHEAD:
        return None
    cdef int attributes = get_i16(data + 21)
    cdef int32_t delta = get_i32(data + 23)
    cdef int64_t newest = get_i64(data + 35)
    cdef int64_t producer_id = get_i64(data + 43)
    cdef int epoch = get_i16(data + 51)
    cdef int32_t sequence = get_i32(data + 53)
    cdef int32_t count = get_i32(data + 57)
    if (
        data[16] != MAGIC
        or attributes & ~TRANSACTIONAL
        or count < 1
        or count > PLAIN_RECORDS_MAX
        or delta != count - 1
        or <int64_t> count * RECORD_BYTES_MIN > size - HEADER_BYTES
        or (producer_id >= 0 and (epoch < 0 or sequence < 0))
    ):
        return None
    cdef object crc = get_u32(data + 17)
    if crc32c(batch[CHECKED_AT:]) != crc:
        return None
    cdef Walk walk
    walk.index = 0
    walk.oldest = INT64_MAX
    walk.newest = INT64_MIN
    walk.keyless_count = 0
    if walk_block(data + HEADER_BYTES, data + size, count, get_i64(data + 27), &walk) != SOUND:
        return None
    if walk.newest != newest:
        return None
    if newest != NO_TIMESTAMP and not (
        is_within(newest, now_ms, before_ms, after_ms)
        and is_within(walk.oldest, now_ms, before_ms, after_ms)
    ):
        return None
    cdef object header = PyType_GenericAlloc(BatchHeader, 13)
    put_item(header, 0, get_i64(data))
    put_item(header, 1, size - LOG_OVERHEAD)
    put_item(header, 2, get_i32(data + 12))
    put_item(header, 3, MAGIC)
    put_item(header, 4, crc)
    put_item(header, 5, attributes)
    put_item(header, 6, delta)
    put_item(header, 7, get_i64(data + 27))
    put_item(header, 8, newest)
    put_item(header, 9, producer_id)
    put_item(header, 10, epoch)
    put_item(header, 11, sequence)
    put_item(header, 12, count)
    return header
