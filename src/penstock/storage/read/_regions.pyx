# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of `regions.choose`, for columns as the log keeps them."""

from libc.stdint cimport int32_t, int64_t

from penstock.record._wire cimport PyType_GenericAlloc, put_item

from penstock.storage.read.regions import (
    GAP_BYTES_MAX as GAP,
    PIECES_MAX as PIECES,
    READ_BYTES_MAX as READ,
    REGION_BYTES_MAX as REGION,
    REGIONS_MAX as REGIONS,
    Region,
)

cdef int64_t gap_bytes_max = GAP
cdef Py_ssize_t pieces_max = PIECES
cdef int64_t read_bytes_max = READ
cdef int64_t region_bytes_max = REGION
cdef Py_ssize_t regions_max = REGIONS

cdef enum:
    FRAME_HEADER_BYTES = 48


cdef inline void put_region(list regions, int64_t start, int64_t stop, list pieces):
    cdef object region = PyType_GenericAlloc(Region, 3)
    put_item(region, 0, start)
    put_item(region, 1, stop - start)
    put_item(region, 2, pieces)
    regions.append(region)


def choose(
    const int64_t[::1] positions,
    const int32_t[::1] sizes,
    Py_ssize_t entry,
    int64_t max_bytes,
    int64_t limit,
):
    """Choose batches from `entry` on; see the twin."""
    cdef Py_ssize_t count = positions.shape[0]
    if entry < 0 or entry >= count or sizes.shape[0] != count:
        raise IndexError("no such entry")
    cdef list regions = []
    cdef list pieces = []
    cdef int64_t start = positions[entry]
    cdef int64_t stop = start
    cdef int64_t before
    cdef int64_t total = 0
    cdef int64_t volume = 0
    cdef int64_t position, size
    cdef Py_ssize_t following = -1
    cdef Py_ssize_t at
    limit -= FRAME_HEADER_BYTES
    for at in range(entry, count):
        position = positions[at]
        size = sizes[at]
        if position + size > limit:
            break
        if total and (total + size > max_bytes or at - entry >= pieces_max):
            following = at
            break
        before = stop
        if (
            (pieces and position + FRAME_HEADER_BYTES + size - start > region_bytes_max)
            or position - stop > gap_bytes_max
        ):
            put_region(regions, start, stop, pieces)
            volume += stop - start
            start = before = position
            pieces = []
        stop = position + FRAME_HEADER_BYTES + size
        if total and (
            volume + stop - start > read_bytes_max or len(regions) >= regions_max
        ):
            stop = before
            following = at
            break
        pieces.append((position - start + FRAME_HEADER_BYTES, size))
        total += size
    if pieces:
        put_region(regions, start, stop, pieces)
    return regions, total, following
