# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Usual records as the messages that consumers get, each in one pass.

Usual is a record with a value and few short headers: tag, keys, id, born host and what users gave,
none of them twice, all of them text. Of others it says None: `delivered.py` has the truth, by way
of `remoting/mapping.py`. tests/grpc/test_usual_messages.py compares both.
"""

from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.unicode cimport PyUnicode_CheckExact, PyUnicode_DecodeUTF8
from hashlib import md5
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from penstock.base._varint cimport put_varint
from penstock.protobuf._parts cimport Part, field_bytes, part_of, put_data, put_part

from penstock.grpc.statuses import MessageType
from penstock.grpc.consuming.times import TIME_MS_MAX as _TIME_MS_MAX
from penstock.remoting.mapping import GROUP_BYTES_MAX as _GROUP_BYTES_MAX, SYSTEM as _SYSTEM
from penstock.remoting.system_names import (
    BORN_HOST_HEADER as _BORN_HOST, GROUP as _GROUP, HEADER_OF, KEYS, PREFIX as _PREFIX, TAGS,
    UNIQ_KEY,
)

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef frozenset SYSTEM = frozenset(_SYSTEM)
cdef bytes GROUP = _GROUP.encode()
cdef bytes PREFIX = _PREFIX.encode()
cdef bytes TAG_HEADER = HEADER_OF[TAGS].encode()
cdef bytes KEYS_HEADER = HEADER_OF[KEYS].encode()
cdef bytes ID_HEADER = HEADER_OF[UNIQ_KEY].encode()
cdef bytes HOST_HEADER = _BORN_HOST.encode()
cdef int64_t TIME_MS_MAX = _TIME_MS_MAX
cdef Py_ssize_t GROUP_BYTES_MAX = _GROUP_BYTES_MAX
cdef uint8_t NORMAL = int(MessageType.NORMAL)
cdef uint8_t FIFO = int(MessageType.FIFO)

cdef enum:
    HEADERS_MAX = 16
    TEXT_BYTES_MAX = 1200  # of the key and all headers: far below what a message may have
    HOST_BYTES_MAX = 64
    SCRATCH_BYTES = 4096  # a key of one letter takes four bytes, a blank among them; and the rest
    DIGEST_BYTES = 16
    RECEIPT_BYTES = 17
    RECEIPT_CHARS = 24
    RECEIPT_VERSION = 1
    NOT_TEXT = 0
    PRINTABLE = 1  # and ASCII
    TEXT = 2

cdef const char* HEX = "0123456789ABCDEF"
cdef const char* BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


cdef struct Parts:
    Part tag
    Part keys
    Part id
    Part host
    Part group


def usual_messages(messages, bytes topic, bytes same, place, uint32_t topic_crc, host_text):
    """Return an encoded ReceiveMessageResponse for each (Seen, count); None if it is not usual.

    `same` are the system properties that all have, `place` is the partition and the number of the
    hand-out as clients are told it. `host_text` makes of a header what clients see of a host.
    """
    cdef uint32_t partition = place[0]
    cdef int32_t number = place[1]
    return [
        _usual(seen[0], count, topic, same, partition, number, topic_crc, host_text)
        for seen, count in messages
    ]


cdef object _usual(
    record,
    int64_t count,
    bytes topic,
    bytes same,
    uint32_t partition,
    int32_t number,
    uint32_t topic_crc,
    host_text,
):
    offset_, time_, key, value, headers_ = record
    cdef int64_t offset = offset_
    cdef int64_t time_ms = time_
    cdef tuple headers = headers_
    if not PyBytes_CheckExact(value) or time_ms < 0 or len(headers) > HEADERS_MAX:
        return None
    cdef Parts parts
    parts.tag.data = parts.keys.data = parts.id.data = parts.host.data = parts.group.data = NULL
    cdef uint8_t shown[SCRATCH_BYTES]
    cdef uint8_t* shown_end = _headers(headers, key, &parts, shown)
    if shown_end == NULL:
        return None
    if parts.keys.data == NULL and parts.host.data == NULL and key:
        parts.keys = part_of(<bytes> key)  # of a Kafka producer, and printable
    cdef bytes host = host_text(
        b"" if parts.host.data == NULL
        else PyBytes_FromStringAndSize(<const char*> parts.host.data, parts.host.size)
    )
    cdef uint8_t system[SCRATCH_BYTES]
    cdef uint8_t* at = _keys(system, parts.keys)
    at = put_part(at, 0x0A, parts.tag)
    if parts.id.data != NULL:
        at = put_part(at, 0x1A, parts.id)
    else:
        at = _derived_id(at, topic_crc, partition, <uint64_t> offset)
    at = _digest(at, <bytes> md5(value, usedforsecurity=False).digest())
    at[0], at[1] = 0x30, NORMAL if parts.group.data == NULL else FIFO
    at = _time(at + 2, 0x3A, min(time_ms, TIME_MS_MAX))
    at = put_part(at, 0x42, part_of(host))
    at = _time(at, 0x4A, min(time_ms, TIME_MS_MAX))
    at = _receipt(at, partition, <uint64_t> offset, number)
    at[0] = 0x70
    at = put_varint(at + 1, <uint64_t> offset)
    at[0], at[1] = 0x80, 0x01
    at = put_varint(at + 2, <uint64_t> count)
    if parts.group.data != NULL:
        at[0], at[1] = 0x8A, 0x01
        at = put_data(at + 2, parts.group.data, parts.group.size)
    return _joined(
        topic, shown, shown_end - shown, same, system, at - system, <bytes> value
    )


cdef bytes _joined(
    bytes topic,
    const uint8_t* shown,
    Py_ssize_t shown_size,
    bytes same,
    const uint8_t* system,
    Py_ssize_t system_size,
    bytes body,
):
    """Return the answer with a message of these parts."""
    cdef Py_ssize_t same_size = PyBytes_GET_SIZE(same)
    cdef Py_ssize_t properties = same_size + system_size
    cdef Py_ssize_t size = (
        field_bytes(PyBytes_GET_SIZE(topic))
        + shown_size
        + field_bytes(properties)
        + field_bytes(PyBytes_GET_SIZE(body))
    )
    cdef bytes out = PyBytes_FromStringAndSize(NULL, field_bytes(size))
    cdef uint8_t* at = <uint8_t*> PyBytes_AS_STRING(out)
    at[0] = 0x12
    at = put_varint(at + 1, <uint64_t> size)
    at = put_part(at, 0x0A, part_of(topic))
    memcpy(at, shown, shown_size)
    at += shown_size
    at[0] = 0x1A
    at = put_varint(at + 1, <uint64_t> properties)
    memcpy(at, PyBytes_AS_STRING(same), same_size)
    memcpy(at + same_size, system, system_size)
    at = put_part(at + properties, 0x22, part_of(body))
    return out


cdef uint8_t* _headers(tuple headers, key, Parts* parts, uint8_t* at):
    """Sort the parts of a record, and write what users see; returns its end, or NULL."""
    cdef Py_ssize_t left = TEXT_BYTES_MAX
    cdef Part names[HEADERS_MAX]
    cdef int users = 0
    cdef int place
    cdef Part name, told
    cdef uint8_t* entry
    if key is not None and len(key):
        if not PyBytes_CheckExact(key):
            return NULL
        told = part_of(<bytes> key)
        left -= told.size
        if left < 0 or kind_of(told) != PRINTABLE:
            return NULL
        if told.size <= GROUP_BYTES_MAX:
            parts.group = told
            at = _entry(at, part_of(GROUP), told)
    for header in headers:
        text, value = header
        if not PyBytes_CheckExact(value) or not PyUnicode_CheckExact(text):
            return NULL
        told = part_of(<bytes> value)
        name.data = <const uint8_t*> PyUnicode_AsUTF8AndSize(text, &name.size)
        left -= name.size + told.size
        if left < 0 or not told.size or not name.size:
            return NULL
        if begins_with(name, PREFIX):
            if not _take_own(name, told, parts):
                return NULL
            continue
        if kind_of(name) == NOT_TEXT or kind_of(told) == NOT_TEXT or text in SYSTEM:
            return NULL
        for place in range(users):
            if is_same(names[place], name):
                return NULL
        names[users] = name
        users += 1
        at = _entry(at, name, told)
    return at


cdef bint _take_own(Part name, Part told, Parts* parts):
    """Take a header of the front's own; whether it is a usual one, for the first time."""
    cdef Part* where
    cdef bint is_any_text = False
    if is_same(name, part_of(TAG_HEADER)):
        where, is_any_text = &parts.tag, True
    elif is_same(name, part_of(KEYS_HEADER)):
        where = &parts.keys
    elif is_same(name, part_of(ID_HEADER)):
        where = &parts.id
    elif is_same(name, part_of(HOST_HEADER)) and told.size <= HOST_BYTES_MAX:
        where = &parts.host
    else:
        return False
    cdef int kind = kind_of(told)
    if where.data != NULL or kind == NOT_TEXT or (kind == TEXT and not is_any_text):
        return False
    where[0] = told
    return True


cdef int kind_of(Part part):
    """Return what kind of text it is: none is what has a separator of properties."""
    cdef Py_ssize_t at
    cdef uint8_t byte
    cdef bint is_printable = True, is_ascii = True
    for at in range(part.size):
        byte = part.data[at]
        if byte == 1 or byte == 2:
            return NOT_TEXT
        if byte < 0x20 or byte >= 0x7F:
            is_printable = False
            is_ascii &= byte < 0x80
    if is_printable:
        return PRINTABLE
    if not is_ascii:
        try:
            PyUnicode_DecodeUTF8(<const char*> part.data, part.size, NULL)
        except UnicodeDecodeError:
            return NOT_TEXT
    return TEXT


# --- fields -------------------------------------------------------------------------------------


cdef uint8_t* _entry(uint8_t* at, Part name, Part value):
    """Write a property as users see it."""
    at[0] = 0x12
    at = put_varint(at + 1, <uint64_t> (field_bytes(name.size) + field_bytes(value.size)))
    return put_part(put_part(at, 0x0A, name), 0x12, value)


cdef uint8_t* _keys(uint8_t* at, Part keys):
    """Write keys, which are between blanks."""
    cdef Py_ssize_t begin = 0, end = 0
    cdef Part one
    while end < keys.size and keys.data != NULL:
        begin = end
        while end < keys.size and keys.data[end] != 0x20:
            end += 1
        one.data, one.size = keys.data + begin, end - begin
        if one.size:
            at = put_part(at, 0x12, one)
        end += 1
    return at


cdef uint8_t* _derived_id(uint8_t* at, uint32_t topic_crc, uint32_t partition, uint64_t offset):
    """Write the id of a record without one, as `ids.derived_id` has it."""
    cdef uint8_t raw[DIGEST_BYTES]
    put_big(raw, topic_crc, 4)
    put_big(raw + 4, partition, 4)
    put_big(raw + 8, offset, 8)
    at[0], at[1] = 0x1A, 2 * DIGEST_BYTES
    return put_hex(at + 2, raw)


cdef uint8_t* _digest(uint8_t* at, bytes digest):
    at[0], at[1] = 0x22, 4 + 2 * DIGEST_BYTES
    at[2], at[3] = 0x08, 0x02  # MD5
    at[4], at[5] = 0x12, 2 * DIGEST_BYTES
    return put_hex(at + 6, <const uint8_t*> PyBytes_AS_STRING(digest))


cdef uint8_t* _time(uint8_t* at, uint8_t tag, int64_t ms):
    cdef uint8_t* size = at + 1
    cdef uint8_t* begin = at + 2
    at[0] = tag
    at = begin
    if ms >= 1000:
        at[0] = 0x08
        at = put_varint(at + 1, <uint64_t> (ms // 1000))
    if ms % 1000:
        at[0] = 0x10
        at = put_varint(at + 1, <uint64_t> (ms % 1000) * 1000000)
    size[0] = <uint8_t> (at - begin)
    return at


cdef uint8_t* _receipt(uint8_t* at, uint32_t partition, uint64_t offset, int32_t number):
    """Write the receipt as `receipts.write_receipt` does."""
    cdef uint8_t raw[RECEIPT_BYTES + 1]
    raw[0] = RECEIPT_VERSION
    put_big(raw + 1, partition, 4)
    put_big(raw + 5, offset, 8)
    put_big(raw + 13, <uint32_t> number, 4)
    raw[RECEIPT_BYTES] = 0
    at[0], at[1] = 0x62, RECEIPT_CHARS
    at += 2
    cdef int place
    cdef uint32_t three
    for place in range(0, RECEIPT_BYTES + 1, 3):
        three = <uint32_t> raw[place] << 16 | <uint32_t> raw[place + 1] << 8 | raw[place + 2]
        at[0], at[1] = BASE64[three >> 18], BASE64[three >> 12 & 63]
        at[2], at[3] = BASE64[three >> 6 & 63], BASE64[three & 63]
        at += 4
    (at - 1)[0] = c"="
    return at


# --- bytes --------------------------------------------------------------------------------------


cdef inline bint is_same(Part one, Part other):
    return one.size == other.size and not memcmp(one.data, other.data, one.size)


cdef inline bint begins_with(Part part, bytes prefix):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(prefix)
    return part.size >= size and not memcmp(part.data, PyBytes_AS_STRING(prefix), size)


cdef inline void put_big(uint8_t* at, uint64_t value, int size):
    while size:
        size -= 1
        at[size] = <uint8_t> (value & 0xFF)
        value >>= 8


cdef inline uint8_t* put_hex(uint8_t* at, const uint8_t* raw):
    cdef int place
    for place in range(DIGEST_BYTES):
        at[2 * place], at[2 * place + 1] = HEX[raw[place] >> 4], HEX[raw[place] & 15]
    return at + 2 * DIGEST_BYTES
