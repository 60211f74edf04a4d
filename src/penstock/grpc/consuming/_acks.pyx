# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""A usual AckMessageRequest in one pass, with the answer to it where all goes well.

Usual are messages of one hand-out, 64 at most, each with its receipt and nothing else but an id in
ASCII. Of others it says None: `codec.decode` and `receipts.read_receipt` have the truth.
tests/grpc/test_usual_acks.py compares both.
"""

from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from penstock.base._varint cimport put_varint
from penstock.protobuf._parts cimport Part, field_bytes, part_of, put_part

cdef enum:
    ENTRIES_MAX = 64
    RECEIPT_CHARS = 24
    RECEIPT_BYTES = 18  # with one that the last characters have no bits of
    VERSION = 1
    NO_VALUE = 255
    FIRST = 0x0A  # tags of fields with a length
    SECOND = 0x12
    THIRD = 0x1A

cdef const char* LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
cdef uint8_t VALUES[256]


cdef void _set_values() noexcept:
    cdef int value
    memset(VALUES, NO_VALUE, sizeof(VALUES))
    for value in range(64):
        VALUES[<uint8_t> LETTERS[value]] = <uint8_t> value


_set_values()


cdef struct Entry:
    Part id
    Part handle


cdef struct Receipt:
    uint32_t partition
    uint64_t offset
    int32_t number


def read_acks(data, bytes ok):
    """Return group, topic, partition, number, offsets and answer; None if it is not usual.

    `ok` is the status of what went well, encoded.
    """
    if not PyBytes_CheckExact(data):
        return None
    cdef const uint8_t* at = <const uint8_t*> PyBytes_AS_STRING(<bytes> data)
    cdef const uint8_t* end = at + PyBytes_GET_SIZE(<bytes> data)
    cdef Part group, topic, part
    cdef Entry entries[ENTRIES_MAX]
    cdef Receipt first, receipt
    cdef int count = 0
    cdef uint8_t tag
    cdef list offsets = []
    group.data = topic.data = NULL
    group.size = topic.size = 0
    first.partition, first.number = 0, 0
    while at < end:
        tag = at[0]
        at = _take(at + 1, end, &part)
        if at == NULL:
            return None
        if tag == FIRST and group.data == NULL:
            if not _name(part, &group):
                return None
        elif tag == SECOND and topic.data == NULL:
            if not _name(part, &topic):
                return None
        elif tag == THIRD and count < ENTRIES_MAX:
            if not _entry(part, &entries[count], &receipt):
                return None
            if not count:
                first = receipt
            elif receipt.partition != first.partition or receipt.number != first.number:
                return None
            offsets.append(<int64_t> receipt.offset)
            count += 1
        else:
            return None
    if group.data == NULL or topic.data == NULL or not count:
        return None
    try:
        names = _text(group), _text(topic)
    except UnicodeDecodeError:
        return None
    return *names, first.partition, first.number, offsets, _answer(entries, count, ok)


cdef _text(Part part):
    return PyUnicode_DecodeUTF8(<const char*> part.data, part.size, NULL)


cdef const uint8_t* _take(const uint8_t* at, const uint8_t* end, Part* part) noexcept:
    """Read a length and step over so many bytes; NULL if they are not there."""
    cdef uint64_t size = 0
    cdef int shift = 0
    while at < end and shift < 28:
        size |= <uint64_t> (at[0] & 0x7F) << shift
        at += 1
        if (at - 1)[0] < 0x80:
            if size > <uint64_t> (end - at):
                return NULL
            part.data, part.size = at, <Py_ssize_t> size
            return at + size
        shift += 7
    return NULL


cdef bint _name(Part resource, Part* name) noexcept:
    """Read a Resource that has a name alone."""
    cdef const uint8_t* end = resource.data + resource.size
    return (
        resource.size > 0
        and resource.data[0] == SECOND
        and _take(resource.data + 1, end, name) == end
    )


cdef bint _entry(Part told, Entry* entry, Receipt* receipt) noexcept:
    """Read a message that is processed, and its receipt."""
    cdef const uint8_t* at = told.data
    cdef const uint8_t* end = at + told.size
    cdef Part part
    cdef uint8_t tag
    cdef Py_ssize_t place
    entry.id.data = entry.handle.data = NULL
    while at < end:
        tag = at[0]
        at = _take(at + 1, end, &part)
        if at == NULL:
            return False
        if tag == FIRST and entry.id.data == NULL and part.size:
            for place in range(part.size):
                if part.data[place] >= 0x80:
                    return False
            entry.id = part
        elif tag == SECOND and entry.handle.data == NULL:
            entry.handle = part
        else:
            return False
    return entry.handle.data != NULL and _receipt(entry.handle, receipt)


cdef bint _receipt(Part handle, Receipt* receipt) noexcept:
    """Read a receipt as `write_receipt` writes it."""
    cdef uint8_t raw[RECEIPT_BYTES]
    cdef const uint8_t* at = handle.data
    cdef uint8_t* to = raw
    cdef uint8_t a, b, c, d
    cdef int left
    if handle.size != RECEIPT_CHARS or at[RECEIPT_CHARS - 1] != c"=":
        return False
    for left in range(RECEIPT_CHARS, 0, -4):
        a, b, c = VALUES[at[0]], VALUES[at[1]], VALUES[at[2]]
        d = VALUES[at[3]] if left > 4 else 0
        if (a | b | c | d) & 0x80:
            return False
        to[0], to[1], to[2] = a << 2 | b >> 4, (b & 15) << 4 | c >> 2, (c & 3) << 6 | d
        at += 4
        to += 3
    receipt.partition = <uint32_t> _number(raw + 1, 4)
    receipt.offset = _number(raw + 5, 8)
    receipt.number = <int32_t> <uint32_t> _number(raw + 13, 4)
    return raw[0] == VERSION and receipt.offset <= <uint64_t> INT64_MAX


cdef uint64_t _number(const uint8_t* at, int size) noexcept:
    cdef uint64_t value = 0
    cdef int place
    for place in range(size):
        value = value << 8 | at[place]
    return value


cdef bytes _answer(Entry* entries, int count, bytes ok):
    """Return the AckMessageResponse that says of each that all went well."""
    cdef Part status = part_of(ok)
    cdef Py_ssize_t size = part_bytes(status)
    cdef int place
    for place in range(count):
        size += field_bytes(entry_bytes(&entries[place], status))
    cdef bytes out = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* at = put_part(<uint8_t*> PyBytes_AS_STRING(out), FIRST, status)
    for place in range(count):
        at[0] = SECOND
        at = put_varint(at + 1, <uint64_t> entry_bytes(&entries[place], status))
        at = put_part(at, FIRST, entries[place].id)
        at = put_part(at, SECOND, entries[place].handle)
        at = put_part(at, THIRD, status)
    return out


cdef inline Py_ssize_t entry_bytes(Entry* entry, Part status) noexcept:
    return part_bytes(entry.id) + part_bytes(entry.handle) + part_bytes(status)


cdef inline Py_ssize_t part_bytes(Part part) noexcept:
    """Return how many bytes `put_part` writes."""
    return 0 if part.data == NULL else field_bytes(part.size)
