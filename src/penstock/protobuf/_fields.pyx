# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of `fields.encode_fields`, for a list of few fields of exact types.

Everything else is given to the interpreted twin.
"""

from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.long cimport PyLong_CheckExact
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

from penstock.base._varint cimport put_varint, varint_bytes

from penstock.protobuf.fields import encode_fields as encode_interpreted

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum:
    FIELDS_MAX = 64
    NUMBER_MAX = 1 << 28
    VARINT = 0
    LENGTH = 2


cdef struct Part:
    uint64_t tag
    uint64_t number  # the value, or its length in bytes
    const char* data  # NULL: it is a number


def encode_fields(object fields):
    """Return the fields, in their order."""
    if type(fields) is not list or len(<list> fields) > FIELDS_MAX:
        return encode_interpreted(fields)
    cdef Part parts[FIELDS_MAX]
    cdef int count = 0
    cdef int at
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t length = 0
    cdef object field, value
    cdef long long number, told
    for field in <list> fields:
        number, value = field
        if value is None:
            continue
        if not 0 < number < NUMBER_MAX:
            return encode_interpreted(fields)
        if PyBytes_CheckExact(value):
            parts[count].data = PyBytes_AS_STRING(value)
            length = PyBytes_GET_SIZE(value)
        elif PyUnicode_CheckExact(value):
            parts[count].data = PyUnicode_AsUTF8AndSize(value, &length)
        elif PyLong_CheckExact(value) and -(1 << 62) < value < 1 << 62:
            told = value
            parts[count].data = NULL
            parts[count].tag = <uint64_t> number << 3 | VARINT
            parts[count].number = <uint64_t> told
            size += varint_bytes(parts[count].tag) + varint_bytes(parts[count].number)
            count += 1
            continue
        else:
            return encode_interpreted(fields)
        parts[count].tag = <uint64_t> number << 3 | LENGTH
        parts[count].number = <uint64_t> length
        size += varint_bytes(parts[count].tag) + varint_bytes(parts[count].number) + length
        count += 1
    cdef bytes out = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* end = <uint8_t*> PyBytes_AS_STRING(out)
    for at in range(count):
        end = put_varint(put_varint(end, parts[at].tag), parts[at].number)
        if parts[at].data != NULL:
            memcpy(end, parts[at].data, parts[at].number)
            end += parts[at].number
    return out
