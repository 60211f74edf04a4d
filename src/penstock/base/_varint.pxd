# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Numbers of seven bits a byte, lowest first: what the compiled twins write them by.

Kafka's unsigned varints and those of protobuf are the same bytes; those of records are of the
number that `zigzag` makes.
Source: `penstock/protocol/varint.py`, `penstock/record/varint.py`.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    """Return a number without a sign that is small where `value` is near to 0."""
    return (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)


cdef inline int varint_bytes(uint64_t value) noexcept nogil:
    """Return how many bytes `put_varint` writes."""
    cdef int size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


cdef inline uint8_t* put_varint(uint8_t* at, uint64_t value) noexcept nogil:
    """Write a number of at most ten bytes; return where the next byte stands."""
    while value >= 0x80:
        at[0] = <uint8_t> (value & 0x7F | 0x80)
        at += 1
        value >>= 7
    at[0] = <uint8_t> value
    return at + 1
