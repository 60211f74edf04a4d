# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""What other twins of this room use of the walk."""

from libc.stdint cimport int64_t, uint8_t

cdef enum:
    SOUND = 0
    KEYLESS_NAMED_MAX = 100
    NO_TIMESTAMP = -1


cdef struct Walk:
    int64_t index
    int64_t oldest
    int64_t newest
    int64_t keyless_count
    int64_t keyless[KEYLESS_NAMED_MAX]


cdef int walk_block(
    const uint8_t* at, const uint8_t* block_end, int64_t count, int64_t base, Walk* walk
) noexcept nogil
