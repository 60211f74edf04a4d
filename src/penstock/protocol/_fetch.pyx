# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twins of what every Fetch needs of `fetch.py`.

They take usual requests: of at most 16 KiB, without tagged fields, that forget no partitions; and
usual answers: one partition, of which there is neither a diverging epoch nor another leader, nor an
aborted transaction. Everything else is given to the interpreted twin.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from penstock.record._wire cimport (
    PyType_GenericAlloc,
    bytes_of,
    get_i16,
    get_i32,
    get_i64,
    put_i64,
    put_item,
    put_u32,
    read_short_length,
)

from penstock.protocol.fetch import FetchPartition, FetchRequest
from penstock.protocol.fetch import encode_fetch_response as encode_interpreted
from penstock.protocol.fetch import parse_fetch_request as parse_interpreted

cdef enum:
    FIRST_VERSION = 4
    LAST_VERSION = 18
    LOG_START = 5
    SESSION = 7
    LEADER_EPOCH = 9
    RACK = 11
    FLEXIBLE = 12
    TOPIC_ID = 13
    NO_REPLICA_FIELD = 15
    TOPIC_ID_BYTES = 16
    ARRAY = 4  # bytes of a length
    STRING = 2
    FRAME_BYTES_MAX = 16 << 10
    TOPIC_BYTES_MAX = 255
    HEAD_BYTES_MAX = TOPIC_BYTES_MAX + 96

cdef bytes END_OF_TAGS = bytes(3)
"""No tags of the partition, of the topic and of the answer."""


cdef struct Cursor:
    const uint8_t* data
    Py_ssize_t at
    Py_ssize_t size
    int version


cdef inline Py_ssize_t read_length(Cursor* cursor, int width, Py_ssize_t element_bytes) noexcept:
    """Return a length and move behind it; -1 for null, and for more elements than fit.

    `width` is how many bytes a length has in versions that are not flexible.
    """
    cdef Py_ssize_t length
    cdef const uint8_t* at
    if cursor.version >= FLEXIBLE:
        length = read_short_length(cursor.data, &cursor.at, cursor.size)
    elif cursor.size - cursor.at < width:
        return -1
    else:
        at = cursor.data + cursor.at
        length = get_i32(at) if width == ARRAY else get_i16(at)
        cursor.at += width
    return length if length * element_bytes <= cursor.size - cursor.at else -1


cdef bint skip_no_tags(Cursor* cursor) noexcept:
    """Move behind an empty section of tags, where the version has one; False for any other."""
    if cursor.version < FLEXIBLE:
        return True
    if cursor.at >= cursor.size or cursor.data[cursor.at]:
        return False
    cursor.at += 1
    return True


cdef object make_part(Cursor* cursor, bytes topic):
    """Return one partition that is asked for; None where the frame ends in it."""
    cdef int version = cursor.version
    cdef const uint8_t* at = cursor.data + cursor.at
    cdef Py_ssize_t length = 16
    if version >= FLEXIBLE:
        length = 32
    elif version >= LEADER_EPOCH:
        length = 28
    elif version >= LOG_START:
        length = 24
    if cursor.size - cursor.at < length:
        return None
    cursor.at += length
    cdef int32_t epoch = -1, last_epoch = -1
    cdef int64_t log_start = -1
    cdef int64_t offset
    cdef int32_t partition = get_i32(at)
    at += 4
    if version >= LEADER_EPOCH:
        epoch = get_i32(at)
        at += 4
    offset = get_i64(at)
    at += 8
    if version >= FLEXIBLE:
        last_epoch = get_i32(at)
        at += 4
    if version >= LOG_START:
        log_start = get_i64(at)
        at += 8
    cdef object part = PyType_GenericAlloc(FetchPartition, 7)
    put_item(part, 0, topic)
    put_item(part, 1, partition)
    put_item(part, 2, epoch)
    put_item(part, 3, offset)
    put_item(part, 4, last_epoch)
    put_item(part, 5, log_start)
    put_item(part, 6, get_i32(at))
    return part if skip_no_tags(cursor) else None


cdef list make_parts(Cursor* cursor):
    """Return the partitions that are asked for; None for what is not usual."""
    cdef list parts = []
    cdef Py_ssize_t length
    cdef Py_ssize_t topics = read_length(cursor, ARRAY, 1)
    cdef bytes topic
    cdef object part
    if topics < 0:
        return None
    for _ in range(topics):
        length = TOPIC_ID_BYTES if cursor.version >= TOPIC_ID else read_length(cursor, STRING, 1)
        if length < 0 or length > cursor.size - cursor.at:
            return None
        topic = PyBytes_FromStringAndSize(<const char*> cursor.data + cursor.at, length)
        cursor.at += length
        length = read_length(cursor, ARRAY, 16)
        if length < 0:
            return None
        for _ in range(length):
            part = make_part(cursor, topic)
            if part is None:
                return None
            parts.append(part)
        if not skip_no_tags(cursor):
            return None
    return parts


def parse_fetch_request(object frame, Py_ssize_t at, int version):
    """Return the body at `at`, which ends with the frame."""
    cdef Cursor cursor
    cdef Py_ssize_t length
    cursor.data = bytes_of(frame, &cursor.size)
    cursor.at, cursor.version = at, version
    if (
        cursor.data == NULL
        or cursor.size > FRAME_BYTES_MAX
        or not FIRST_VERSION <= version <= LAST_VERSION
        or at < 0
        or cursor.size - at < 25
    ):
        return parse_interpreted(frame, at, version)
    cdef object request = PyType_GenericAlloc(FetchRequest, 11)
    if version < NO_REPLICA_FIELD:
        put_item(request, 9, get_i32(cursor.data + cursor.at))
        cursor.at += 4
    else:
        put_item(request, 9, -1)
    put_item(request, 0, get_i32(cursor.data + cursor.at))
    put_item(request, 1, get_i32(cursor.data + cursor.at + 4))
    put_item(request, 2, get_i32(cursor.data + cursor.at + 8))
    put_item(request, 3, <int> <signed char> cursor.data[cursor.at + 12])
    cursor.at += 13
    if version >= SESSION:
        put_item(request, 4, get_i32(cursor.data + cursor.at))
        put_item(request, 5, get_i32(cursor.data + cursor.at + 4))
        cursor.at += 8
    else:
        put_item(request, 4, 0)
        put_item(request, 5, -1)
    cdef list parts = make_parts(&cursor)
    if parts is None or (version >= SESSION and read_length(&cursor, ARRAY, 1) != 0):
        return parse_interpreted(frame, at, version)
    put_item(request, 6, parts)
    put_item(request, 7, [])
    cdef str rack = ""
    if version >= RACK:
        length = read_length(&cursor, STRING, 1)
        if length < 0:
            return parse_interpreted(frame, at, version)
        if length:
            try:
                rack = cursor.data[cursor.at : cursor.at + length].decode("utf-8")
            except UnicodeDecodeError:
                return parse_interpreted(frame, at, version)
            cursor.at += length
    put_item(request, 8, rack)
    put_item(request, 10, None)
    if not skip_no_tags(&cursor) or cursor.at != cursor.size:
        return parse_interpreted(frame, at, version)
    return request


def encode_fetch_response(
    int version,
    object answers,
    *,
    int32_t session_id=0,
    int error_code=0,
    int32_t throttle_ms=0,
    object endpoints=(),
):
    """Return the body of the answer as buffers; records are not copied."""
    cdef object answer = answers[0] if len(answers) == 1 and not endpoints else None
    if answer is None or not LOG_START <= version <= LAST_VERSION or is_unusual(answer):
        return encode_interpreted(
            version,
            answers,
            session_id=session_id,
            error_code=error_code,
            throttle_ms=throttle_ms,
            endpoints=endpoints,
        )
    cdef bytes topic = answer[0]
    cdef object records = answer[6]
    cdef bint is_flexible = version >= FLEXIBLE
    cdef bint names_aborted = answer[7] is not None
    cdef int topic_bytes = PyBytes_GET_SIZE(topic)
    cdef int64_t size = 0
    for buffer in records:
        size += len(buffer)
    cdef uint8_t made[HEAD_BYTES_MAX]
    cdef uint8_t* at = made
    memset(made, 0, HEAD_BYTES_MAX)
    put_u32(at, <uint32_t> throttle_ms)
    at += 4
    if version >= SESSION:
        at[0], at[1] = error_code >> 8 & 0xFF, error_code & 0xFF
        put_u32(at + 2, <uint32_t> session_id)
        at += 6
    at = put_length(at, 1, 4, is_flexible)  # one topic
    if version < TOPIC_ID:
        at = put_length(at, topic_bytes, 2, is_flexible)
    memcpy(at, PyBytes_AS_STRING(topic), topic_bytes)
    at = put_length(at + topic_bytes, 1, 4, is_flexible)  # one partition
    put_u32(at, <uint32_t> <int32_t> answer[1])
    cdef int code = answer[2]
    at[4], at[5] = code >> 8 & 0xFF, code & 0xFF
    put_i64(at + 6, answer[3])
    put_i64(at + 14, answer[4])
    put_i64(at + 22, answer[5])
    at = put_length(at + 30, 0 if names_aborted else -1, 4, is_flexible)
    if version >= RACK:
        put_u32(at, <uint32_t> <int32_t> answer[8])
        at += 4
    at = put_length(at, size, 4, is_flexible)
    if not size:
        at += 3 if is_flexible else 0
        return [PyBytes_FromStringAndSize(<const char*> made, at - made)]
    cdef list buffers = [PyBytes_FromStringAndSize(<const char*> made, at - made)]
    buffers += records
    if is_flexible:
        buffers.append(END_OF_TAGS)
    return buffers


cdef bint is_unusual(object answer) except -1:
    """Whether an answer has what only the interpreted twin writes."""
    if answer[7] or answer[9] is not None or answer[10] is not None:
        return True
    return PyBytes_GET_SIZE(answer[0]) > TOPIC_BYTES_MAX


cdef uint8_t* put_length(uint8_t* at, int64_t length, int width, bint is_flexible) noexcept:
    """Write a length of so many bytes, or a compact one, and return what is behind it."""
    cdef uint64_t left = length + 1
    cdef int shift
    if is_flexible:
        while left >= 0x80:
            at[0] = left & 0x7F | 0x80
            at += 1
            left >>= 7
        at[0] = left
        return at + 1
    for shift in range(width):
        at[shift] = length >> 8 * (width - 1 - shift) & 0xFF
    return at + width
