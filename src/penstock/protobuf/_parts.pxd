# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Fields of protobuf that have a length and a tag of one byte: what the compiled twins share.

Source: protobuf's encoding, wire type 2.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

from penstock.base._varint cimport put_varint, varint_bytes


cdef struct Part:
    const uint8_t* data  # NULL: there is none
    Py_ssize_t size


cdef inline Part part_of(bytes data) noexcept:
    """Return bytes as a part; they have to outlive it."""
    cdef Part part
    part.data, part.size = <const uint8_t*> PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)
    return part


cdef inline Py_ssize_t field_bytes(Py_ssize_t size) noexcept nogil:
    """Return how many bytes a field of so many has."""
    return 1 + varint_bytes(<uint64_t> size) + size


cdef inline uint8_t* put_data(uint8_t* at, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """Write a length and so many bytes."""
    at = put_varint(at, <uint64_t> size)
    memcpy(at, data, size)
    return at + size


cdef inline uint8_t* put_part(uint8_t* at, uint8_t tag, Part part) noexcept nogil:
    """Write a field of a part, if it is there."""
    if part.data == NULL:
        return at
    at[0] = tag
    return put_data(at + 1, part.data, part.size)
