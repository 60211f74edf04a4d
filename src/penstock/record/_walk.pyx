# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True
"""The compiled twin of `walk.find_fault`: the same numbers, without an object for any record.

Blocks above 64 KiB are walked without the interpreter's lock: they are walked on a worker.
Source: as in `walk.py`.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from penstock.record._wire cimport bytes_of

cdef enum:
    LENGTH = 1
    ATTRIBUTES = 2
    TIMESTAMP = 3
    OFFSET = 4
    KEY = 5
    VALUE = 6
    HEADER_COUNT = 7
    HEADER_NAME = 8
    HEADER_TEXT = 9
    HEADER_VALUE = 10
    REST_OF_RECORD = 11
    REST_OF_BATCH = 12

    ALONE_BYTES_MAX = 65536


cdef inline const uint8_t* read_int32(
    const uint8_t* at, const uint8_t* end, int32_t* value
) noexcept nogil:
    """Read the number at `at`; return the byte behind it, NULL if it is none of 32 bits."""
    cdef uint32_t raw
    cdef int shift = 7
    cdef uint8_t byte
    if at >= end:
        return NULL
    raw = at[0]
    if raw >= 0x80:
        raw &= 0x7F
        while True:
            at += 1
            if at >= end:
                return NULL
            byte = at[0]
            if shift == 28:
                if byte > 0x0F:
                    return NULL
                raw |= <uint32_t> byte << 28
                break
            raw |= <uint32_t> (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
    value[0] = <int32_t> (raw >> 1) ^ -<int32_t> (raw & 1)
    return at + 1


cdef inline const uint8_t* read_int64(
    const uint8_t* at, const uint8_t* end, int64_t* value
) noexcept nogil:
    """The same for 64 bits."""
    cdef uint64_t raw = 0
    cdef int shift = 0
    cdef uint8_t byte
    while at < end:
        byte = at[0]
        at += 1
        if shift == 63:
            if byte > 1:
                return NULL
            raw |= <uint64_t> byte << 63
            value[0] = <int64_t> (raw >> 1) ^ -<int64_t> (raw & 1)
            return at
        raw |= <uint64_t> (byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = <int64_t> (raw >> 1) ^ -<int64_t> (raw & 1)
            return at
        shift += 7
    return NULL


cdef inline const uint8_t* skip_part(
    const uint8_t* at, const uint8_t* end, int32_t* length
) noexcept nogil:
    """Read a length and step over that many bytes; NULL if it does not fit."""
    at = read_int32(at, end, length)
    if at == NULL or length[0] < -1 or length[0] > end - at:
        return NULL
    return at if length[0] < 0 else at + length[0]


cdef bint is_text(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Whether the bytes are UTF-8: shortest forms only, no surrogates, nothing above U+10FFFF."""
    cdef uint8_t lead
    cdef uint8_t least
    cdef uint8_t most
    cdef int more
    while at < end:
        lead = at[0]
        at += 1
        if lead < 0x80:
            continue
        least, most = 0x80, 0xBF
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            if lead == 0xE0:
                least = 0xA0
            elif lead == 0xED:
                most = 0x9F
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            if lead == 0xF0:
                least = 0x90
            elif lead == 0xF4:
                most = 0x8F
        else:
            return False
        if end - at < more or at[0] < least or at[0] > most:
            return False
        at += 1
        while more > 1:
            if at[0] & 0xC0 != 0x80:
                return False
            at += 1
            more -= 1
    return True


cdef int walk_headers(const uint8_t* at, const uint8_t* end, int32_t count) noexcept nogil:
    cdef int32_t length = 0
    cdef int32_t left
    for left in range(count):
        at = skip_part(at, end, &length)
        if at == NULL or length < 0:
            return HEADER_NAME
        if not is_text(at - length, at):
            return HEADER_TEXT
        at = skip_part(at, end, &length)
        if at == NULL:
            return HEADER_VALUE
    return SOUND if at == end else REST_OF_RECORD


cdef int walk_block(
    const uint8_t* at, const uint8_t* block_end, int64_t count, int64_t base, Walk* walk
) noexcept nogil:
    cdef const uint8_t* end
    cdef int32_t number = 0
    cdef int32_t key_bytes = 0
    cdef int64_t delta = 0
    cdef int64_t time
    cdef int fault
    while walk.index < count:
        at = read_int32(at, block_end, &number)
        if at == NULL or number < 1 or number > block_end - at:
            return LENGTH
        end = at + number
        if at[0] != 0:
            return ATTRIBUTES
        at = read_int64(at + 1, end, &delta)
        if at == NULL:
            return TIMESTAMP
        at = read_int32(at, end, &number)
        if at == NULL or number != walk.index:
            return OFFSET
        at = skip_part(at, end, &key_bytes)
        if at == NULL:
            return KEY
        at = skip_part(at, end, &number)
        if at == NULL:
            return VALUE
        at = read_int32(at, end, &number)
        if at == NULL or number < 0 or number > (end - at) // 2:
            return HEADER_COUNT
        if number > 0:
            fault = walk_headers(at, end, number)
            if fault != SOUND:
                return fault
        elif at != end:
            return REST_OF_RECORD
        at = end
        time = base + delta if not will_overflow(base, delta) else (
            INT64_MAX if delta > 0 else INT64_MIN
        )
        if time > walk.newest:
            walk.newest = time
        if time < walk.oldest and time != NO_TIMESTAMP:
            walk.oldest = time
        if key_bytes < 0:
            if walk.keyless_count < KEYLESS_NAMED_MAX:
                walk.keyless[walk.keyless_count] = walk.index
            walk.keyless_count += 1
        walk.index += 1
    return SOUND if at == block_end else REST_OF_BATCH


cdef inline bint will_overflow(int64_t left, int64_t right) noexcept nogil:
    if right > 0:
        return left > INT64_MAX - right
    return left < INT64_MIN - right


def find_fault(
    object block, int64_t record_count, int64_t base_timestamp, bint needs_keys=False
):
    """Walk through a decompressed block; see `walk.walk_records`."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* data = bytes_of(block, &size)
    if data == NULL:
        from penstock.record.walk import find_fault as interpreted  # it imports this module

        return interpreted(block, record_count, base_timestamp, needs_keys)
    cdef Walk walk
    cdef int fault
    walk.index = 0
    walk.oldest = INT64_MAX
    walk.newest = INT64_MIN
    walk.keyless_count = 0
    if size > ALONE_BYTES_MAX:
        with nogil:
            fault = walk_block(data, data + size, record_count, base_timestamp, &walk)
    else:
        fault = walk_block(data, data + size, record_count, base_timestamp, &walk)
    if walk.oldest > walk.newest:
        walk.oldest = NO_TIMESTAMP
    cdef tuple named = ()
    if needs_keys and walk.keyless_count:
        named = tuple(
            [walk.keyless[at] for at in range(min(walk.keyless_count, KEYLESS_NAMED_MAX))]
        )
    return fault, walk.index, walk.oldest, walk.newest, walk.keyless_count, named
