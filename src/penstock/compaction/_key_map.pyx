# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True
"""The compiled twin of `key_map.py`: the same records kept, by another hash.

Source: as in `key_map.py`; SipHash-2-4 with 128 bits (Aumasson and Bernstein, 2012, and their
reference code). It holds the interpreter's lock: who cleans has a process of its own.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from penstock.base._varint cimport put_varint, zigzag
from penstock.record._rows cimport Row, read_row, read_varint

from penstock.compaction.sifted import Sifted
from penstock.record.compression import room
from penstock.record.errors import CorruptBatch

cdef enum:
    SLOT_BYTES = 24
    HASH_BYTES = 16
    RECORD_BYTES_MIN = 7
    RECORD_GROWTH_MAX = 20


cdef inline uint64_t turn(uint64_t value, int bits) noexcept nogil:
    return value << bits | value >> (64 - bits)


cdef inline void rounds(uint64_t* v, int count) noexcept nogil:
    cdef int done
    for done in range(count):
        v[0] += v[1]
        v[2] += v[3]
        v[1] = turn(v[1], 13) ^ v[0]
        v[3] = turn(v[3], 16) ^ v[2]
        v[0] = turn(v[0], 32)
        v[2] += v[1]
        v[0] += v[3]
        v[1] = turn(v[1], 17) ^ v[2]
        v[3] = turn(v[3], 21) ^ v[0]
        v[2] = turn(v[2], 32)


cdef inline uint64_t get_u64(const uint8_t* at, int64_t count) noexcept nogil:
    """Return up to 8 bytes as a number, the first one lowest."""
    cdef uint64_t value = 0
    cdef int64_t byte
    for byte in range(count):
        value |= <uint64_t> at[byte] << (8 * byte)
    return value


cdef void hash_key(
    const uint64_t* secret, const uint8_t* key, int64_t length, uint64_t* digest
) noexcept nogil:
    """Write the two halves of a key's hash."""
    cdef uint64_t[4] v
    cdef uint64_t part
    cdef const uint8_t* end = key + (length & ~7)
    v[0] = secret[0] ^ 0x736F6D6570736575ULL
    v[1] = secret[1] ^ 0x646F72616E646F6DULL ^ 0xEE
    v[2] = secret[0] ^ 0x6C7967656E657261ULL
    v[3] = secret[1] ^ 0x7465646279746573ULL
    while key < end:
        part = get_u64(key, 8)
        v[3] ^= part
        rounds(v, 2)
        v[0] ^= part
        key += 8
    part = <uint64_t> length << 56 | get_u64(key, length & 7)
    v[3] ^= part
    rounds(v, 2)
    v[0] ^= part
    v[2] ^= 0xEE
    rounds(v, 4)
    digest[0] = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(v, 4)
    digest[1] = v[0] ^ v[1] ^ v[2] ^ v[3]


cdef inline Py_ssize_t write_varint(uint8_t* out, Py_ssize_t at, int64_t value) noexcept nogil:
    return put_varint(out + at, zigzag(value)) - out


cdef class Block:
    """The records of one batch, read one after the other by the rules of `read.iter_raw`."""

    cdef const uint8_t[::1] view
    cdef const uint8_t* data
    cdef Py_ssize_t size
    cdef Py_ssize_t at
    cdef int64_t left
    cdef int64_t base_offset
    cdef int64_t last_delta
    cdef int64_t previous_delta
    cdef Row row

    def __cinit__(self, header, const uint8_t[::1] view):
        self.view = view
        self.size = view.shape[0]
        self.data = &view[0] if self.size else NULL
        self.at = 0
        self.left = header.record_count
        self.base_offset = header.base_offset
        self.last_delta = header.last_offset_delta
        self.previous_delta = -1

    cdef int next(self) except -1:
        """Read the next record into `row`; 0 behind the last one."""
        if self.left <= 0:
            if self.at != self.size:
                raise CorruptBatch(f"{self.size - self.at} bytes follow the last record")
            return 0
        if not read_row(self.data, self.at, self.size, &self.row):
            raise CorruptBatch(f"record at byte {self.at} of its block")
        if not self.previous_delta < self.row.offset_delta <= self.last_delta:
            raise CorruptBatch(
                f"offset delta {self.row.offset_delta} after {self.previous_delta}"
            )
        self.previous_delta = self.row.offset_delta
        self.at = self.row.end
        self.left -= 1
        return 1


cdef class CompiledKeyMap:
    """The newest offset of each key, in slots of 24 bytes."""

    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t limit
    cdef readonly object table
    cdef uint8_t[::1] view
    cdef uint8_t* data
    cdef uint64_t slots
    cdef uint64_t[2] secret

    def __init__(self, Py_ssize_t slots, bytes salt):
        cdef const uint8_t[::1] salted = salt
        assert slots >= 2
        assert len(salt) == 16
        self.count = 0
        self.limit = slots * 9 // 10
        self.table = room(slots * SLOT_BYTES)
        self.view = self.table
        self.data = &self.view[0]
        self.slots = slots
        self.secret[0] = get_u64(&salted[0], 8)
        self.secret[1] = get_u64(&salted[8], 8)

    cdef uint8_t* find(self, const uint8_t* key, int64_t length, uint64_t* digest) noexcept:
        """Write the hash of a key, and return its slot, or the free one where it belongs."""
        cdef uint8_t* end = self.data + self.slots * SLOT_BYTES
        cdef uint8_t* slot
        hash_key(self.secret, key, length, digest)
        slot = self.data + digest[0] % self.slots * SLOT_BYTES
        while newest_of(slot) >= 0 and memcmp(slot, digest, HASH_BYTES) != 0:
            slot += SLOT_BYTES
            if slot == end:
                slot = self.data
        return slot

    def put_block(self, header, const uint8_t[::1] block):
        """Note the keys of a batch; False if the map is full."""
        cdef Block records = Block(header, block)
        cdef uint64_t[2] digest
        cdef uint8_t* slot
        cdef int64_t kept
        while records.next():
            if records.row.key_length < 0:
                continue
            slot = self.find(records.data + records.row.key_at, records.row.key_length, digest)
            if newest_of(slot) < 0:
                if self.count == self.limit:
                    return False
                self.count += 1
                memcpy(slot, digest, HASH_BYTES)
            kept = records.base_offset + records.row.offset_delta + 1
            memcpy(slot + HASH_BYTES, &kept, sizeof(kept))
        return True

    def sift(self, header, const uint8_t[::1] block, *, bint keeps_tombstones):
        """Say which records stay; see `PythonKeyMap.sift`."""
        cdef Block records = Block(header, block)
        cdef uint64_t[2] digest
        cdef uint8_t* slot
        cdef Py_ssize_t start
        cdef Py_ssize_t end = 0
        cdef Py_ssize_t span_start = 0
        cdef Py_ssize_t span_end = -1
        cdef Py_ssize_t kept = 0
        cdef Py_ssize_t tombstones = 0
        cdef int64_t newest_delta = INT64_MIN
        cdef list spans = []
        while records.next():
            start, end = end, records.at
            if records.row.key_length < 0:
                continue
            if records.row.value_length < 0 and not keeps_tombstones:
                continue
            slot = self.find(records.data + records.row.key_at, records.row.key_length, digest)
            if records.base_offset + records.row.offset_delta < newest_of(slot):
                continue
            kept += 1
            tombstones += records.row.value_length < 0
            newest_delta = max(newest_delta, records.row.timestamp_delta)
            if span_end != start:
                if span_end >= 0:
                    spans.append((span_start, span_end))
                span_start = start
            span_end = end
        if span_end >= 0:
            spans.append((span_start, span_end))
        return Sifted(kept, tombstones, newest_delta, spans)


cdef inline int64_t newest_of(const uint8_t* slot) noexcept nogil:
    """Return the offset in a slot; -1 if it is free."""
    cdef int64_t kept
    memcpy(&kept, slot + HASH_BYTES, sizeof(kept))
    return kept - 1


def gather(const uint8_t[::1] block, spans, int64_t earlier_ms):
    """Return the records in `spans` under an earlier base timestamp; see `key_map.gather`."""
    cdef Py_ssize_t size = block.shape[0]
    cdef const uint8_t* data = &block[0] if size else NULL
    cdef Py_ssize_t start
    cdef Py_ssize_t end
    cdef Py_ssize_t used = 0
    cdef Py_ssize_t wanted = 0
    for start, end in spans:
        wanted += end - start
    if earlier_ms:
        wanted += wanted // RECORD_BYTES_MIN * RECORD_GROWTH_MAX
    cdef bytearray out = bytearray(0)
    PyByteArray_Resize(out, wanted)
    cdef uint8_t* written = <uint8_t*> PyByteArray_AS_STRING(out)
    for start, end in spans:
        if earlier_ms:
            used = move(data, start, end, earlier_ms, written, used)
        else:
            memcpy(written + used, data + start, end - start)
            used += end - start
    PyByteArray_Resize(out, used)
    return out


cdef Py_ssize_t move(
    const uint8_t* data,
    Py_ssize_t at,
    Py_ssize_t end,
    int64_t earlier_ms,
    uint8_t* out,
    Py_ssize_t used,
) noexcept nogil:
    """Write the records in bytes [at, end), which are sound, with other deltas."""
    cdef uint8_t[10] delta
    cdef Py_ssize_t rest
    cdef Py_ssize_t delta_bytes
    cdef int64_t length = 0
    cdef int64_t old = 0
    while at < end:
        at = read_varint(data, at, end, &length)
        rest = read_varint(data, at + 1, at + length, &old)
        delta_bytes = write_varint(delta, 0, saturating_add(old, earlier_ms))
        length += at
        used = write_varint(out, used, 1 + delta_bytes + length - rest)
        out[used] = data[at]
        memcpy(out + used + 1, delta, delta_bytes)
        memcpy(out + used + 1 + delta_bytes, data + rest, length - rest)
        used += 1 + delta_bytes + length - rest
        at = length
    return used


cdef inline int64_t saturating_add(int64_t left, int64_t right) noexcept nogil:
    if right > 0 and left > INT64_MAX - right:
        return INT64_MAX
    if right < 0 and left < INT64_MIN - right:
        return INT64_MIN
    return left + right
