# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of `frames.put_batch_frame`."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from crc32c import crc32c

from penstock.record._wire cimport bytes_of, get_u32, put_i64, put_u32

cdef enum:
    FRAME_HEADER_BYTES = 48
    COVERED_END = 69
    KEY_BYTES = 20
    BATCH_WORD = 0x50530101


def put_batch_frame(
    object view,
    Py_ssize_t at,
    object batch,
    bytes key,
    int32_t leader_epoch,
    int64_t position,
    int64_t unflushed,
    int64_t base_offset,
):
    """Write the frame of `batch` to byte `at` of `view`."""
    cdef Py_ssize_t room = 0
    cdef Py_ssize_t size = 0
    cdef uint8_t* data = <uint8_t*> bytes_of(view, &room)
    cdef const uint8_t* source = bytes_of(batch, &size)
    if data == NULL or source == NULL or at < 0 or at + FRAME_HEADER_BYTES + size > room:
        raise ValueError("the frame does not fit")
    if size < COVERED_END - FRAME_HEADER_BYTES or len(key) != KEY_BYTES:
        raise ValueError("not a batch of a partition")
    data += at
    memcpy(data + FRAME_HEADER_BYTES, source, size)
    put_u32(data + 4, BATCH_WORD)
    put_u32(data + 8, <uint32_t> (size + FRAME_HEADER_BYTES))
    put_u32(data + 12, <uint32_t> leader_epoch)
    put_i64(data + 16, position)
    put_u32(data + 24, <uint32_t> unflushed if unflushed < 0xFFFFFFFF else 0xFFFFFFFF)
    memcpy(data + 28, <const uint8_t*> key, KEY_BYTES)
    put_i64(data + 48, base_offset)
    put_u32(data + 56, <uint32_t> (size - 12))
    put_u32(data + 60, <uint32_t> leader_epoch)
    put_u32(data, crc32c(view[at + 4 : at + COVERED_END]))
