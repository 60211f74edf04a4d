# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Big-endian numbers in memory, and tuples of a class: what the compiled twins of parsers share."""

from cpython.buffer cimport Py_buffer
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "Python.h":
    Py_buffer* PyMemoryView_GET_BUFFER(object view)
    bint PyMemoryView_Check(object view)
    object PyType_GenericAlloc(type kind, Py_ssize_t items)
    void PyTuple_SET_ITEM(object made, Py_ssize_t at, object item)


cdef inline uint32_t get_u32(const uint8_t* at) noexcept nogil:
    return <uint32_t> at[0] << 24 | <uint32_t> at[1] << 16 | <uint32_t> at[2] << 8 | at[3]


cdef inline int16_t get_i16(const uint8_t* at) noexcept nogil:
    return <int16_t> (<uint16_t> at[0] << 8 | at[1])


cdef inline int32_t get_i32(const uint8_t* at) noexcept nogil:
    return <int32_t> get_u32(at)


cdef inline int64_t get_i64(const uint8_t* at) noexcept nogil:
    return <int64_t> (<uint64_t> get_u32(at) << 32 | get_u32(at + 4))


cdef inline void put_u32(uint8_t* at, uint32_t value) noexcept nogil:
    at[0], at[1], at[2], at[3] = value >> 24, value >> 16 & 0xFF, value >> 8 & 0xFF, value & 0xFF


cdef inline void put_i64(uint8_t* at, int64_t value) noexcept nogil:
    put_u32(at, <uint32_t> (<uint64_t> value >> 32))
    put_u32(at + 4, <uint32_t> value)


cdef inline const uint8_t* bytes_of(object view, Py_ssize_t* size):
    """Return where a memoryview of plain bytes begins and set `size`; NULL for anything else."""
    if not PyMemoryView_Check(view):
        return NULL
    cdef Py_buffer* buffer = PyMemoryView_GET_BUFFER(view)
    if buffer.itemsize != 1 or buffer.ndim != 1 or buffer.strides[0] != 1:
        return NULL
    size[0] = buffer.len
    return <const uint8_t*> buffer.buf


cdef inline void put_item(object made, Py_ssize_t at, object item):
    """Give a tuple that nobody has seen yet its item."""
    Py_INCREF(item)
    PyTuple_SET_ITEM(made, at, item)


cdef inline int32_t read_short_length(const uint8_t* data, Py_ssize_t* at, Py_ssize_t size) noexcept:
    """Return a compact length of at most three bytes and move behind it; -1 for null and longer."""
    cdef int shift = 0
    cdef int32_t value = 0
    while at[0] < size and shift < 21:
        value |= <int32_t> (data[at[0]] & 0x7F) << shift
        at[0] += 1
        if data[at[0] - 1] < 0x80:
            return value - 1
        shift += 7
    return -1
