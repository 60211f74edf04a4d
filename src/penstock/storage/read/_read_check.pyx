# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of `read_check.check_regions`, for what is as it should be.

What is not is given to the twin, which knows what to say of it.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from crc32c import crc32c

from penstock.record._wire cimport bytes_of, get_i32, get_i64, get_u32

from penstock.storage.read.read_check import check_regions as check_interpreted

cdef enum:
    FRAME_HEADER_BYTES = 48
    COVERED_END = 69
    BATCH_CHECKSUM_AT = 65
    KIND_AT = 7
    KIND_BATCH = 1
    POSITION_AT = 16
    PARTITION_AT = 28
    TOPIC_ID_AT = 32
    TOPIC_ID_BYTES = 16


def check_regions(list regions, list found, object wanted):
    """Check every batch in `found`; return them in order, without their frame headers."""
    cdef bytes topic_id = wanted[0]
    cdef int32_t partition = wanted[1]
    cdef uint32_t header_crc, batch_crc
    cdef list batches = []
    cdef object region, view
    cdef tuple piece
    cdef const uint8_t* data
    cdef const uint8_t* head
    cdef Py_ssize_t count = len(regions)
    cdef Py_ssize_t index, at, size
    cdef Py_ssize_t length = 0
    cdef int64_t start
    if len(found) != count or len(topic_id) != TOPIC_ID_BYTES:
        return check_interpreted(regions, found, wanted)
    for index in range(count):
        region = regions[index]
        view = found[index]
        data = bytes_of(view, &length)
        if data == NULL or length != <Py_ssize_t> (<tuple> region)[1]:
            return check_interpreted(regions, found, wanted)
        start = (<tuple> region)[0]
        for piece in <list> (<tuple> region)[2]:
            at = piece[0]
            size = piece[1]
            if (
                at < FRAME_HEADER_BYTES
                or size < COVERED_END - FRAME_HEADER_BYTES
                or at + size > length
            ):
                return check_interpreted(regions, found, wanted)
            at -= FRAME_HEADER_BYTES
            head = data + at
            header_crc = crc32c(head[4:COVERED_END])
            batch_crc = crc32c(view[at + COVERED_END : at + FRAME_HEADER_BYTES + size])
            if (
                head[KIND_AT] != KIND_BATCH
                or get_i64(head + POSITION_AT) != start + at
                or get_i32(head + PARTITION_AT) != partition
                or memcmp(head + TOPIC_ID_AT, <const uint8_t*> topic_id, TOPIC_ID_BYTES)
                or header_crc != get_u32(head)
                or batch_crc != get_u32(head + BATCH_CHECKSUM_AT)
            ):
                return check_interpreted(regions, found, wanted)
            at += FRAME_HEADER_BYTES
            batches.append(view[at : at + size])
    return batches
