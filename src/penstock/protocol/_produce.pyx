# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twins of what every Produce request needs of `header.py` and `produce.py`.

They take usual requests: one topic with one partition, no transaction, parts that end where the
frame does. Everything else is given to the interpreted twin.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from penstock.record._wire cimport (
    PyType_GenericAlloc,
    bytes_of,
    get_i16,
    get_i32,
    put_i64,
    put_item,
    put_u32,
)

from penstock.protocol.api_keys import FLEXIBLE_SINCE
from penstock.protocol.header import RequestHeader
from penstock.protocol.header import parse_request_header as header_interpreted
from penstock.protocol.produce import PartitionAnswer, PartitionData, ProduceRequest
from penstock.protocol.produce import encode_appended as encode_interpreted
from penstock.protocol.produce import parse_produce_request as request_interpreted

cdef enum:
    KEYS = 128
    API_VERSIONS = 18
    HEADER_BYTES = 10
    FLEXIBLE = 9
    TOPIC_ID = 13
    TOPIC_ID_BYTES = 16
    LOG_START = 5
    RECORD_ERRORS = 8
    TOPIC_BYTES_MAX = 126
    ANSWER_BYTES_MAX = TOPIC_BYTES_MAX + 64
    NEVER = 0x8000

cdef int flexible_since[KEYS]
for _key in range(KEYS):
    flexible_since[_key] = min(FLEXIBLE_SINCE.get(_key, NEVER), NEVER)


def parse_request_header(object frame):
    """Return the header of a frame."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* data = bytes_of(frame, &size)
    if data == NULL or size < HEADER_BYTES:
        return header_interpreted(frame)
    cdef int key = get_i16(data)
    cdef int version = get_i16(data + 2)
    cdef int client_id_bytes = get_i16(data + 8)
    cdef Py_ssize_t at = HEADER_BYTES
    if key < 0 or key >= KEYS or key == API_VERSIONS or client_id_bytes < -1:
        return header_interpreted(frame)
    cdef object client_id = None
    if client_id_bytes >= 0:
        if at + client_id_bytes > size:
            return header_interpreted(frame)
        try:
            client_id = data[at : at + client_id_bytes].decode("utf-8")
        except UnicodeDecodeError:
            return header_interpreted(frame)
        at += client_id_bytes
    if version >= flexible_since[key]:
        if at >= size or data[at]:
            return header_interpreted(frame)
        at += 1
    cdef object header = PyType_GenericAlloc(RequestHeader, 5)
    put_item(header, 0, key)
    put_item(header, 1, version)
    put_item(header, 2, get_i32(data + 4))
    put_item(header, 3, client_id)
    put_item(header, 4, at)
    return header


def parse_produce_request(object frame, Py_ssize_t at, int version):
    """Return the body at `at`, which ends with the frame."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* data = bytes_of(frame, &size)
    cdef Py_ssize_t topic_at, topic_end, records_at, records_end
    cdef int acks
    cdef int32_t timeout_ms, partition
    cdef int32_t length
    if data == NULL or at < 0:
        return request_interpreted(frame, at, version)
    if version < FLEXIBLE:
        if size - at < 14 or get_i16(data + at) != -1 or get_i32(data + at + 8) != 1:
            return request_interpreted(frame, at, version)
        acks, timeout_ms = get_i16(data + at + 2), get_i32(data + at + 4)
        length = get_i16(data + at + 12)
        topic_at = at + 14
        topic_end = topic_at + length
        records_at = topic_end + 12
        if length < 0 or records_at > size or get_i32(data + topic_end) != 1:
            return request_interpreted(frame, at, version)
        partition = get_i32(data + topic_end + 4)
        length = get_i32(data + topic_end + 8)
        records_end = records_at + length
        if length < 0 or records_end != size:
            return request_interpreted(frame, at, version)
    else:
        if size - at < 9 or data[at] or data[at + 7] != 2:
            return request_interpreted(frame, at, version)
        acks, timeout_ms = get_i16(data + at + 1), get_i32(data + at + 3)
        if version < TOPIC_ID:
            length = data[at + 8]
            if not 0 < length < 0x80:
                return request_interpreted(frame, at, version)
            topic_at = at + 9
            topic_end = topic_at + length - 1
        else:
            topic_at = at + 8
            topic_end = topic_at + TOPIC_ID_BYTES
        if topic_end + 5 > size or data[topic_end] != 2:
            return request_interpreted(frame, at, version)
        partition = get_i32(data + topic_end + 1)
        records_at = topic_end + 5
        length = read_short_length(data, &records_at, size)
        records_end = records_at + length
        if (
            length < 0
            or records_end + 3 != size
            or data[records_end] or data[records_end + 1] or data[records_end + 2]
        ):
            return request_interpreted(frame, at, version)
    cdef object part = PyType_GenericAlloc(PartitionData, 4)
    put_item(part, 0, data[topic_at:topic_end])
    put_item(part, 1, partition)
    put_item(part, 2, records_at)
    put_item(part, 3, records_end)
    cdef object request = PyType_GenericAlloc(ProduceRequest, 4)
    put_item(request, 0, None)
    put_item(request, 1, acks)
    put_item(request, 2, timeout_ms)
    put_item(request, 3, [part])
    return request


cdef int32_t read_short_length(const uint8_t* data, Py_ssize_t* at, Py_ssize_t size) noexcept:
    """Return a compact length of at most four bytes and move behind it; -1 for null and longer."""
    cdef int shift = 0
    cdef int32_t value = 0
    while at[0] < size and shift < 28:
        value |= <int32_t> (data[at[0]] & 0x7F) << shift
        at[0] += 1
        if data[at[0] - 1] < 0x80:
            return value - 1
        shift += 7
    return -1


def appended(object part, object base_offset, object log_append_time_ms, object log_start_offset):
    """Return the answer for records that were appended."""
    cdef object answer = PyType_GenericAlloc(PartitionAnswer, 9)
    put_item(answer, 0, part[0])
    put_item(answer, 1, part[1])
    put_item(answer, 2, 0)
    put_item(answer, 3, base_offset)
    put_item(answer, 4, log_append_time_ms)
    put_item(answer, 5, log_start_offset)
    put_item(answer, 6, None)
    put_item(answer, 7, ())
    put_item(answer, 8, None)
    return answer


def encode_appended(int version, int32_t correlation_id, object answer):
    """Return the whole answer to one partition whose records were appended."""
    cdef bytes topic = answer[0]
    cdef int topic_bytes = len(topic)
    if version < LOG_START or topic_bytes > TOPIC_BYTES_MAX:
        return encode_interpreted(version, correlation_id, answer)
    cdef uint8_t made[ANSWER_BYTES_MAX]
    cdef uint8_t* at = made
    memset(made, 0, ANSWER_BYTES_MAX)
    put_u32(at + 4, <uint32_t> correlation_id)
    if version >= FLEXIBLE:
        at[9] = 2  # one topic, behind the empty tags of the header
        at += 10
        if version < TOPIC_ID:
            at[0] = topic_bytes + 1
            at += 1
    else:
        at[11], at[13] = 1, topic_bytes
        at += 14
    memcpy(at, PyBytes_AS_STRING(topic), topic_bytes)
    at += topic_bytes
    if version >= FLEXIBLE:
        at[0] = 2  # one partition
        at += 1
    else:
        at[3] = 1
        at += 4
    put_u32(at, <uint32_t> <int32_t> answer[1])
    put_i64(at + 6, answer[3])  # behind the error, which is none
    put_i64(at + 14, answer[4])
    put_i64(at + 22, answer[5])
    at += 30
    if version >= FLEXIBLE:
        at[0] = 1  # no record errors; then no message, tags of partition and topic, no throttling
        at += 9
    elif version >= RECORD_ERRORS:
        at[4] = at[5] = 0xFF  # no message
        at += 10
    else:
        at += 4
    put_u32(made, <uint32_t> (at - made - 4))
    return PyBytes_FromStringAndSize(<const char*> made, at - made)
