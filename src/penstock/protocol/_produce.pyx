# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twins of what every Produce request needs of `header.py` and `produce.py`.

They take usual requests: one topic with one partition, parts that end where the frame does; of a
transaction only alone, not in a run. Everything else is given to the interpreted twin.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from penstock.record._wire cimport (
    PyType_GenericAlloc,
    bytes_of,
    get_i16,
    get_i32,
    put_i64,
    put_item,
    put_u32,
    read_short_length,
)

from penstock.protocol.api_keys import FLEXIBLE_SINCE
from penstock.protocol.header import RequestHeader
from penstock.protocol.header import parse_request_header as header_interpreted
from penstock.protocol.produce import PartitionAnswer, PartitionData, ProduceRequest
from penstock.protocol.produce import encode_appended as encode_interpreted
from penstock.protocol.produce import parse_produce_request as request_interpreted
from penstock.protocol.produce_run import ProduceRun, RunRequest
from penstock.protocol.produce_run import parse_produce_run as run_interpreted

cdef enum:
    KEYS = 128
    PRODUCE = 0
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
    RUN_FRAME_BYTES_MAX = 64 << 10
    FIRST_VERSION = 3
    LAST_VERSION = 13

cdef int flexible_since[KEYS]
for _key in range(KEYS):
    flexible_since[_key] = min(FLEXIBLE_SINCE.get(_key, NEVER), NEVER)


cdef struct Head:
    int key
    int version
    int32_t correlation_id
    int client_id_bytes  # -1: there is none
    Py_ssize_t body_at


cdef struct Body:
    Py_ssize_t id_at
    int id_bytes  # -1: it is of no transaction
    int acks
    int32_t timeout_ms
    Py_ssize_t topic_at
    Py_ssize_t topic_end
    int32_t partition
    Py_ssize_t records_at
    Py_ssize_t records_end


cdef bint scan_head(const uint8_t* data, Py_ssize_t size, Head* head) noexcept:
    """Read the header that `data` begins with; False for an unusual one. No text is checked."""
    if size < HEADER_BYTES:
        return False
    head.key = get_i16(data)
    head.version = get_i16(data + 2)
    head.correlation_id = get_i32(data + 4)
    head.client_id_bytes = get_i16(data + 8)
    if head.key < 0 or head.key >= KEYS or head.key == API_VERSIONS or head.client_id_bytes < -1:
        return False
    head.body_at = HEADER_BYTES + (head.client_id_bytes if head.client_id_bytes > 0 else 0)
    if head.body_at > size:
        return False
    if head.version >= flexible_since[head.key]:
        if head.body_at >= size or data[head.body_at]:
            return False
        head.body_at += 1
    return True


cdef bint scan_body(
    const uint8_t* data, Py_ssize_t size, Py_ssize_t at, int version, Body* body
) noexcept:
    """Read the body at `at`, up to the end of the frame at `size`; False for an unusual one."""
    cdef int32_t length
    if version < FLEXIBLE:
        if size - at < 14:
            return False
        body.id_at, body.id_bytes = at + 2, get_i16(data + at)
        at += body.id_bytes if body.id_bytes > 0 else 0
        if body.id_bytes < -1 or size - at < 14 or get_i32(data + at + 8) != 1:
            return False
        body.acks, body.timeout_ms = get_i16(data + at + 2), get_i32(data + at + 4)
        length = get_i16(data + at + 12)
        body.topic_at = at + 14
        body.topic_end = body.topic_at + length
        body.records_at = body.topic_end + 12
        if length < 0 or body.records_at > size or get_i32(data + body.topic_end) != 1:
            return False
        body.partition = get_i32(data + body.topic_end + 4)
        length = get_i32(data + body.topic_end + 8)
        body.records_end = body.records_at + length
        return length >= 0 and body.records_end == size
    if size - at < 9 or data[at] >= 0x80:
        return False
    body.id_at, body.id_bytes = at + 1, data[at] - 1
    at += body.id_bytes if body.id_bytes > 0 else 0
    if size - at < 9 or data[at + 7] != 2:
        return False
    body.acks, body.timeout_ms = get_i16(data + at + 1), get_i32(data + at + 3)
    if version < TOPIC_ID:
        length = data[at + 8]
        if not 0 < length < 0x80:
            return False
        body.topic_at = at + 9
        body.topic_end = body.topic_at + length - 1
    else:
        body.topic_at = at + 8
        body.topic_end = body.topic_at + TOPIC_ID_BYTES
    if body.topic_end + 5 > size or data[body.topic_end] != 2:
        return False
    body.partition = get_i32(data + body.topic_end + 1)
    body.records_at = body.topic_end + 5
    length = read_short_length(data, &body.records_at, size)
    body.records_end = body.records_at + length
    return (
        length >= 0
        and body.records_end + 3 == size
        and not (data[size - 3] or data[size - 2] or data[size - 1])
    )


cdef object make_header(const uint8_t* data, Head* head):
    """Return the header; None where the client's id is no text."""
    cdef object client_id = None
    if head.client_id_bytes >= 0:
        try:
            client_id = data[HEADER_BYTES : HEADER_BYTES + head.client_id_bytes].decode("utf-8")
        except UnicodeDecodeError:
            return None
    cdef object header = PyType_GenericAlloc(RequestHeader, 5)
    put_item(header, 0, head.key)
    put_item(header, 1, head.version)
    put_item(header, 2, head.correlation_id)
    put_item(header, 3, client_id)
    put_item(header, 4, head.body_at)
    return header


cdef object make_part(const uint8_t* data, Body* body, Py_ssize_t frame_at):
    """Return the one part of a request; its records lie `frame_at` further on than it says."""
    cdef object part = PyType_GenericAlloc(PartitionData, 4)
    put_item(part, 0, data[body.topic_at : body.topic_end])
    put_item(part, 1, body.partition)
    put_item(part, 2, frame_at + body.records_at)
    put_item(part, 3, frame_at + body.records_end)
    return part


def parse_request_header(object frame):
    """Return the header of a frame."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* data = bytes_of(frame, &size)
    cdef Head head
    if data == NULL or not scan_head(data, size, &head):
        return header_interpreted(frame)
    cdef object header = make_header(data, &head)
    return header_interpreted(frame) if header is None else header


def parse_produce_request(object frame, Py_ssize_t at, int version):
    """Return the body at `at`, which ends with the frame."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* data = bytes_of(frame, &size)
    cdef Body body
    if data == NULL or at < 0 or not scan_body(data, size, at, version, &body):
        return request_interpreted(frame, at, version)
    cdef object transactional_id = None
    if body.id_bytes >= 0:
        try:
            transactional_id = data[body.id_at : body.id_at + body.id_bytes].decode("utf-8")
        except UnicodeDecodeError:
            return request_interpreted(frame, at, version)
    cdef object request = PyType_GenericAlloc(ProduceRequest, 4)
    put_item(request, 0, transactional_id)
    put_item(request, 1, body.acks)
    put_item(request, 2, body.timeout_ms)
    put_item(request, 3, [make_part(data, &body, 0)])
    return request


def parse_produce_run(object memory, Py_ssize_t at, Py_ssize_t end, Py_ssize_t count_max):
    """Return the requests in [at, end) that belong together; None if there are not two."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* data = bytes_of(memory, &size)
    if data == NULL or not 0 <= at <= end <= size:
        return run_interpreted(memory, at, end, count_max)
    cdef const uint8_t* frame
    cdef const uint8_t* first_frame = NULL
    cdef Py_ssize_t frame_bytes
    cdef Head first, head
    cdef Body first_body, body
    cdef object header = None
    cdef list requests = []
    cdef object request
    while len(requests) < count_max and end - at >= 4:
        frame = data + at + 4
        frame_bytes = get_i32(data + at)
        if not HEADER_BYTES <= frame_bytes <= RUN_FRAME_BYTES_MAX or at + 4 + frame_bytes > end:
            break
        if not scan_head(frame, frame_bytes, &head) or head.key != PRODUCE:
            break
        if not FIRST_VERSION <= head.version <= LAST_VERSION:
            break
        if not scan_body(frame, frame_bytes, head.body_at, head.version, &body):
            break
        if body.id_bytes >= 0:
            break
        if header is None:
            if body.acks != 1 and body.acks != -1:
                break
            header = make_header(frame, &head)
            if header is None:
                break
            first, first_body = head, body
            first_frame = frame
        elif (
            head.version != first.version
            or body.acks != first_body.acks
            or body.timeout_ms != first_body.timeout_ms
            or head.client_id_bytes != first.client_id_bytes
            or memcmp(frame + HEADER_BYTES, first_frame + HEADER_BYTES, head.body_at - HEADER_BYTES)
        ):
            break
        request = PyType_GenericAlloc(RunRequest, 3)
        put_item(request, 0, head.correlation_id)
        put_item(request, 1, make_part(frame, &body, at + 4))
        at += 4 + frame_bytes
        put_item(request, 2, at)
        requests.append(request)
    if len(requests) < 2:
        return None
    cdef object run = PyType_GenericAlloc(ProduceRun, 4)
    put_item(run, 0, header)
    put_item(run, 1, first_body.acks)
    put_item(run, 2, first_body.timeout_ms)
    put_item(run, 3, requests)
    return run


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
