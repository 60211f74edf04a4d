# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twins of `counts.py`: the same sums.

Source: as there.
"""

from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_ITEM
from cpython.ref cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM
from libc.stdint cimport uint8_t

from penstock.record._wire cimport bytes_of, get_i32

from penstock.audit.counts import count_batches as count_interpreted

cdef enum:
    RECORD_COUNT_AT = 57


cdef class Counts:
    """As in `counts.py`."""

    cdef public long long requests
    cdef public long long records
    cdef public long long bytes_in
    cdef public long long bytes_out
    cdef public long long bytes_cold
    cdef public long long errors
    cdef public long long throttle_ms
    cdef public long long timed
    cdef public long long latency_us
    cdef public long long latency_us_max


def count_batches(dict rows, memory, list parts, list answers, missing):
    """As in `counts.py`."""
    cdef Py_ssize_t size = 0, start, end, at, count = min(len(parts), len(answers))
    cdef const uint8_t* data = bytes_of(memory, &size)
    if data == NULL:
        count_interpreted(rows, memory, parts, answers, missing)
        return
    cdef tuple part, answer
    cdef Counts row
    cdef PyObject* found
    cdef PyObject* of_topic = NULL
    cdef object topic, last = None
    for at in range(count):
        part, answer = <tuple> PyList_GET_ITEM(parts, at), <tuple> PyList_GET_ITEM(answers, at)
        topic = <object> PyTuple_GET_ITEM(part, 0)
        if last is None or topic != last:
            of_topic, last = PyDict_GetItem(rows, topic), topic
        found = NULL
        if of_topic != NULL:
            found = PyDict_GetItem(<object> of_topic, <object> PyTuple_GET_ITEM(part, 1))
        if found == NULL:
            row, last = missing(topic, <object> PyTuple_GET_ITEM(part, 1)), None
        else:
            row = <Counts> found
        if <object> PyTuple_GET_ITEM(answer, 2):
            row.errors += 1
            continue
        start, end = <object> PyTuple_GET_ITEM(part, 2), <object> PyTuple_GET_ITEM(part, 3)
        if not 0 <= start <= end - RECORD_COUNT_AT - 4 or end > size:
            raise ValueError(f"a batch of {end - start} bytes at {start}")
        row.requests += 1
        row.records += get_i32(data + start + RECORD_COUNT_AT)
        row.bytes_in += end - start
