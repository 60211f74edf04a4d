# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of `gather.read_places`."""

from libc.stdint cimport int64_t, uint8_t

from penstock.record._wire cimport bytes_of

cdef extern from "sys/types.h" nogil:
    ctypedef long off_t

cdef extern from "sys/uio.h" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t preadv2(int descriptor, const iovec* parts, int count, off_t offset, int flags)

cdef enum:
    RWF_NOWAIT = 8


def read_places(
    int descriptor, list places, Py_ssize_t first, object take, Py_ssize_t bytes_max
):
    """Read places[first:] while all is usual; see the twin."""
    cdef Py_ssize_t last = first
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t length, size = 0
    cdef int64_t position
    cdef tuple place
    cdef list found = []
    while last < len(places):
        place = places[last]
        length = place[1]
        if length < 0 or total + length > bytes_max:
            break
        total += length
        last += 1
    if last == first:
        return found
    cdef object buffer = take(total)
    cdef uint8_t* data = <uint8_t*> bytes_of(buffer, &size)
    if data == NULL or size < total:
        return found
    cdef iovec part
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t index
    for index in range(first, last):
        place = places[index]
        position, length = place
        part.iov_base = data + at
        part.iov_len = length
        if preadv2(descriptor, &part, 1, position, RWF_NOWAIT) != length:
            break
        found.append(buffer[at : at + length])
        at += length
    return found
