# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True
"""The compiled twin of `build.encode_records`: records in, an uncompressed records block out.

The idea: the length of a record stands before it, so sizes are added up first and the parts are
written once, straight into a bytearray that grows by doubling.

Source: as in `build.py`. It deliberately checks nothing but types: its input is our own.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from penstock.base._varint cimport put_varint, varint_bytes, zigzag

cdef enum:
    VARINT_BYTES_MAX = 10


cdef class Writer:
    """A bytearray that grows by doubling and is written through its pointer."""

    cdef bytearray store
    cdef char* data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity

    def __cinit__(self, Py_ssize_t capacity):
        self.store = bytearray(0)
        self.size = 0
        self.capacity = 0
        self.reserve(capacity)

    cdef int reserve(self, Py_ssize_t more) except -1:
        """Make room for `more` bytes."""
        cdef Py_ssize_t wanted = self.size + more
        if wanted <= self.capacity:
            return 0
        if wanted < self.capacity * 2:
            wanted = self.capacity * 2
        PyByteArray_Resize(self.store, wanted)
        self.data = PyByteArray_AS_STRING(self.store)
        self.capacity = wanted
        return 0

    cdef inline void varint(self, int64_t value) noexcept:
        """Write a number; room for it was made before."""
        cdef uint8_t* at = <uint8_t*> self.data
        self.size = put_varint(at + self.size, zigzag(value)) - at

    cdef inline void part(self, bytes content) noexcept:
        """Write length and bytes, -1 for None; room for it was made before."""
        cdef Py_ssize_t size
        if content is None:
            self.varint(-1)
            return
        size = PyBytes_GET_SIZE(content)
        self.varint(size)
        memcpy(self.data + self.size, PyBytes_AS_STRING(content), size)
        self.size += size

    cdef bytearray take(self):
        cdef bytearray out = self.store
        PyByteArray_Resize(out, self.size)
        self.store = bytearray(0)
        self.data = PyByteArray_AS_STRING(self.store)
        self.size = 0
        self.capacity = 0
        return out


cdef inline Py_ssize_t part_bytes(bytes content) noexcept:
    if content is None:
        return 1
    return varint_bytes(zigzag(PyBytes_GET_SIZE(content))) + PyBytes_GET_SIZE(content)


cdef bytes header_block(object headers):
    """Count, then name and value of each."""
    cdef Writer out = Writer(256)
    cdef bytes name
    cdef bytes value
    out.varint(len(headers))
    for text, content in headers:
        name = text.encode()
        value = content
        out.reserve(part_bytes(name) + part_bytes(value))
        out.part(name)
        out.part(value)
    return bytes(out.take())


def encode_records(records, int64_t base_timestamp):
    """Return the records block of `records`, offset deltas from 0 on."""
    cdef Writer out = Writer(16384)
    cdef bytes key
    cdef bytes value
    cdef bytes headers
    cdef int64_t timestamp_delta
    cdef int64_t delta = 0
    cdef Py_ssize_t size
    for key, value, found, timestamp in records:
        timestamp_delta = timestamp - base_timestamp
        headers = header_block(found) if found else b"\0"
        size = (
            1 + varint_bytes(zigzag(timestamp_delta)) + varint_bytes(zigzag(delta))
            + part_bytes(key) + part_bytes(value) + PyBytes_GET_SIZE(headers)
        )
        out.reserve(VARINT_BYTES_MAX + size)
        out.varint(size)
        out.data[out.size] = 0
        out.size += 1
        out.varint(timestamp_delta)
        out.varint(delta)
        out.part(key)
        out.part(value)
        memcpy(out.data + out.size, PyBytes_AS_STRING(headers), PyBytes_GET_SIZE(headers))
        out.size += PyBytes_GET_SIZE(headers)
        delta += 1
    return out.take()
