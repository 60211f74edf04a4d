# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True
"""The compiled twins of `single_frame.py`: the same answers, without an object for any block.

Source: as in `single_frame.py`.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from penstock.record._wire cimport bytes_of

cdef enum:
    LZ4_BLOCK_CHECKSUMS = 0x10
    LZ4_CONTENT_SIZE = 0x08
    LZ4_CONTENT_CHECKSUM = 0x04
    LZ4_PACKED_BYTES_MIN = 2

    ZSTD_RESERVED = 0x08
    ZSTD_CHECKSUM = 0x04
    ZSTD_WINDOW_CODE_MAX = 17
    ZSTD_REPEATED = 1
    ZSTD_NO_KIND = 3

cdef uint32_t LZ4_MAGIC = 0x184D2204
cdef uint32_t LZ4_PLAIN_BLOCK = 0x80000000
cdef uint32_t ZSTD_MAGIC = 0xFD2FB528


cdef inline uint32_t little_u32(const uint8_t* at) noexcept nogil:
    return at[0] | <uint32_t> at[1] << 8 | <uint32_t> at[2] << 16 | <uint32_t> at[3] << 24


cdef bint walk_lz4(const uint8_t* data, int64_t size) noexcept nogil:
    cdef uint8_t flags
    cdef uint32_t block
    cdef int64_t at
    cdef int64_t length
    cdef int64_t block_bytes_max
    if size < 7 or little_u32(data) != LZ4_MAGIC:
        return False
    flags = data[4]
    if flags & 0xE3 != 0x60 or data[5] not in (0x40, 0x50, 0x60, 0x70):
        return False
    block_bytes_max = <int64_t> 1 << (8 + 2 * (data[5] >> 4))
    at = 15 if flags & LZ4_CONTENT_SIZE else 7
    while at + 4 <= size:
        block = little_u32(data + at)
        at += 4
        if block == 0:
            return at + (4 if flags & LZ4_CONTENT_CHECKSUM else 0) == size
        length = block & ~LZ4_PLAIN_BLOCK
        if length > block_bytes_max:
            return False
        if length < (1 if block & LZ4_PLAIN_BLOCK else LZ4_PACKED_BYTES_MIN):
            return False
        at += length + (4 if flags & LZ4_BLOCK_CHECKSUMS else 0)
    return False


cdef bint walk_zstd(const uint8_t* data, int64_t size) noexcept nogil:
    cdef uint8_t descriptor
    cdef uint8_t is_whole
    cdef uint8_t kind
    cdef uint32_t block = 0
    cdef int64_t at
    if size < 6 or little_u32(data) != ZSTD_MAGIC:
        return False
    descriptor = data[4]
    is_whole = descriptor >> 5 & 1
    if descriptor & ZSTD_RESERVED:
        return False
    if not is_whole and data[5] >> 3 > ZSTD_WINDOW_CODE_MAX:
        return False
    at = 6 - is_whole + (1 << (descriptor & 3) >> 1)
    at += is_whole if descriptor < 0x40 else 1 << (descriptor >> 6)
    while not block & 1:
        if at + 3 > size:
            return False
        block = data[at] | <uint32_t> data[at + 1] << 8 | <uint32_t> data[at + 2] << 16
        kind = block >> 1 & 3
        if kind == ZSTD_NO_KIND:
            return False
        at += 3 + (1 if kind == ZSTD_REPEATED else <int64_t> (block >> 3))
    return at + (4 if descriptor & ZSTD_CHECKSUM else 0) == size


def find_lz4_frame(object block):
    """Whether the bytes are one frame; see `single_frame.find_lz4_frame`."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* data = bytes_of(block, &size)
    if data == NULL:
        from penstock.record.single_frame import find_lz4_frame as interpreted  # it imports this

        return interpreted(block)
    cdef bint found
    with nogil:
        found = walk_lz4(data, size)
    return found


def find_zstd_frame(object block):
    """Whether the bytes are one frame; see `single_frame.find_zstd_frame`."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* data = bytes_of(block, &size)
    if data == NULL:
        from penstock.record.single_frame import find_zstd_frame as interpreted  # it imports this

        return interpreted(block)
    cdef bint found
    with nogil:
        found = walk_zstd(data, size)
    return found
