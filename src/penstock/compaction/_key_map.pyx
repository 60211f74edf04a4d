# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True
"""The compiled twin of `key_map.py`: the same table, the same records kept.

BLAKE2b stands here in C, since a call of the library's costs more than the hash of a usual key.

Source: as in `key_map.py`; RFC 7693 (BLAKE2b), salt and length in the parameter block. It holds the
interpreter's lock: who cleans has a process of its own.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from penstock.base._varint cimport put_varint, zigzag
from penstock.record._rows cimport Row, read_row, read_varint

from penstock.compaction.sifted import Sifted
from penstock.record.compression import room
from penstock.record.errors import CorruptBatch

cdef enum:
    SLOT_BYTES = 24
    HASH_BYTES = 16
    BLOCK_BYTES = 128
    ROUNDS = 12
    RECORD_BYTES_MIN = 7
    RECORD_GROWTH_MAX = 20


cdef uint64_t[8] IV
IV[:] = [
    0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
    0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
]
cdef uint8_t[192] SIGMA
SIGMA[:] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3,
    11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4,
    7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8,
    9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13,
    2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9,
    12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11,
    13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10,
    6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5,
    10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0,
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3,
]


cdef inline uint64_t get_u64(const uint8_t* at) noexcept nogil:
    return (
        <uint64_t> at[0] | <uint64_t> at[1] << 8 | <uint64_t> at[2] << 16 | <uint64_t> at[3] << 24
        | <uint64_t> at[4] << 32 | <uint64_t> at[5] << 40 | <uint64_t> at[6] << 48
        | <uint64_t> at[7] << 56
    )


cdef inline void put_u64(uint8_t* at, uint64_t value) noexcept nogil:
    cdef int byte
    for byte in range(8):
        at[byte] = <uint8_t> (value >> (8 * byte))


cdef inline uint64_t turn(uint64_t value, int bits) noexcept nogil:
    return value >> bits | value << (64 - bits)


cdef inline void mix(
    uint64_t* v, int a, int b, int c, int d, uint64_t x, uint64_t y
) noexcept nogil:
    v[a] = v[a] + v[b] + x
    v[d] = turn(v[d] ^ v[a], 32)
    v[c] = v[c] + v[d]
    v[b] = turn(v[b] ^ v[c], 24)
    v[a] = v[a] + v[b] + y
    v[d] = turn(v[d] ^ v[a], 16)
    v[c] = v[c] + v[d]
    v[b] = turn(v[b] ^ v[c], 63)


cdef void compress(
    uint64_t* h, const uint8_t* block, uint64_t counter, bint is_last
) noexcept nogil:
    cdef uint64_t[16] v
    cdef uint64_t[16] m
    cdef const uint8_t* s = SIGMA
    cdef int i
    for i in range(16):
        m[i] = get_u64(block + 8 * i)
    for i in range(8):
        v[i] = h[i]
        v[i + 8] = IV[i]
    v[12] ^= counter
    if is_last:
        v[14] = ~v[14]
    for i in range(ROUNDS):
        mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]])
        mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]])
        mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]])
        mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]])
        mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]])
        mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]])
        mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]])
        mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]])
        s += 16
    for i in range(8):
        h[i] ^= v[i] ^ v[i + 8]


cdef void hash_key(
    const uint64_t* begin, const uint8_t* key, int64_t length, uint8_t* digest
) noexcept nogil:
    """Write the hash of a key; `begin` is the state before the first byte."""
    cdef uint64_t[8] h
    cdef uint8_t[BLOCK_BYTES] last
    cdef int64_t left = length
    memcpy(h, begin, sizeof(h))
    while left > BLOCK_BYTES:
        left -= BLOCK_BYTES
        compress(h, key, length - left, False)
        key += BLOCK_BYTES
    memset(last, 0, BLOCK_BYTES)
    memcpy(last, key, left)
    compress(h, last, length, True)
    put_u64(digest, h[0])
    put_u64(digest + 8, h[1])


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
    cdef uint64_t[8] begin

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
        memcpy(self.begin, IV, sizeof(self.begin))
        self.begin[0] ^= 0x01010000 | HASH_BYTES
        self.begin[4] ^= get_u64(&salted[0])
        self.begin[5] ^= get_u64(&salted[8])

    cdef uint8_t* find(self, const uint8_t* key, int64_t length, uint8_t* digest) noexcept:
        """Write the hash of a key, and return its slot, or the free one where it belongs."""
        cdef uint8_t* end = self.data + self.slots * SLOT_BYTES
        cdef uint8_t* slot
        hash_key(self.begin, key, length, digest)
        slot = self.data + get_u64(digest) % self.slots * SLOT_BYTES
        while newest_of(slot) >= 0 and memcmp(slot, digest, HASH_BYTES) != 0:
            slot += SLOT_BYTES
            if slot == end:
                slot = self.data
        return slot

    def put_block(self, header, const uint8_t[::1] block):
        """Note the keys of a batch; False if the map is full."""
        cdef Block records = Block(header, block)
        cdef uint8_t[HASH_BYTES] digest
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
        cdef uint8_t[HASH_BYTES] digest
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
