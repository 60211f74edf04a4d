# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The usual hand-out of a share, in one call: new records, behind all that it has met.

    decided ─► its record for the log ─► cells, numbers and timer, as a replay of it changes them

It takes what a member without limits in sight asks for and hands everything else, without a change,
to `hand_out.hand_out_any`: what came back, order by key, absent records, ends of batches, a member
without a number, a bound that may be near, a run over the end of a chunk.

Source: the functions that are the truth, each named where it is followed. tests/shares/test_usual.py
compares both, and what is live with what the record makes of a loader.
"""

from cpython.array cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

from penstock.base._varint cimport put_varint

from penstock.coordinator.records import RECORD_OVERHEAD_BYTES as _OVERHEAD_BYTES
from penstock.shares.cells import ACQUIRED as _ACQUIRED, COUNT_MAX as _COUNT_MAX, SHIFT as _SHIFT
from penstock.shares.state import NONCE_MASK as _NONCE_MASK
from penstock.shares.ticks import TICK_MAX as _TICK_MAX
from penstock.shares.updates.handed import HAND_OUT_MAX as _HAND_OUT_MAX, HandOut, Short, Wanted

cdef int SHIFT = _SHIFT
cdef int64_t CELLS = 1 << SHIFT
cdef int64_t MASK = CELLS - 1
cdef uint8_t ACQUIRED = _ACQUIRED
cdef uint8_t COUNT_MAX = _COUNT_MAX
cdef int64_t NONCE_MASK = _NONCE_MASK
cdef int64_t TICK_MAX = _TICK_MAX
cdef int64_t HAND_OUT_MAX = _HAND_OUT_MAX
cdef int64_t OVERHEAD_BYTES = _OVERHEAD_BYTES
cdef object NO_MORE = Short.NO_MORE
cdef object tuple_new = tuple.__new__

cdef enum:
    COUNT_BITS = 16  # of an entry of the timers
    SLOT_BYTES = 4
    SLOT_MASK = (1 << 20) - 1  # records.SLOTS
    VERSION = 1
    KIND = 3  # Acquired
    NO_NAME = 1
    VALUE_BYTES_MAX = 2 + 8 * 10


def hand_out_new(ledger, wanted, due, policy):
    """Hand new records out; None, and nothing is changed, where it is not the usual case."""
    share = ledger.share
    if share.is_ordered or share.free or not share.has_written or type(wanted) is not Wanted:
        return None
    cdef tuple asked = <tuple> wanted
    if asked[4] or asked[5]:  # absent, batch_ends
        return None
    who = share.members
    cdef dict numbers = who._numbers
    number = numbers.get(asked[0])
    if number is None:
        return None
    cdef int64_t count = asked[1], visible_end = asked[2], tick = due, member = number
    cdef int64_t end = share.end, in_flight = share.in_flight
    cdef int64_t limit = share.base
    cdef list held_by = who.in_flight
    cdef int64_t held = held_by[member]
    limit += <int64_t> policy.window_max
    if not 0 < count <= HAND_OUT_MAX or not 0 <= tick <= TICK_MAX:
        return None
    if in_flight + count > <int64_t> policy.in_flight_max:
        return None
    if held + count > <int64_t> policy.member_in_flight_max:
        return None
    if visible_end > limit and end + count > limit:
        return None
    cdef int64_t taken = min(count, min(visible_end, limit) - end)
    cdef int64_t place = end & MASK
    if taken <= 0 or place + taken > CELLS:
        return None
    cdef int64_t nonce = share.nonce, seq = <int64_t> share.seq + 1
    _keep(ledger, seq, nonce, member, tick, end, taken)
    share.seq = seq
    share.nonce = (nonce + 1) & NONCE_MASK
    share.end = end + taken
    share.in_flight = in_flight + taken
    held_by[member] = held + taken
    cdef dict chunks = share.chunks
    chunk = chunks.get(end >> SHIFT)
    if chunk is None:
        chunk = share._new_chunk(end >> SHIFT)
    cdef bytes counts = _acquire(chunk, place, taken, nonce, tick, member)
    _time(share, due, end, taken)
    why = None if taken == count else NO_MORE
    return tuple_new(HandOut, (nonce, [(end, end + taken)], counts, why))


cdef void _keep(
    ledger, int64_t seq, int64_t nonce, int64_t member, int64_t tick, int64_t first, int64_t count
) except *:
    """Keep the record, as `Ledger.write_beside` does; its bytes are those of `encode_update`."""
    cdef uint8_t value[VALUE_BYTES_MAX]
    cdef uint8_t* at = value
    at[0] = VERSION
    at = put_varint(at + 1, seq)
    at[0] = KIND
    at = put_varint(put_varint(put_varint(put_varint(at + 1, nonce), member), NO_NAME), tick)
    at = put_varint(put_varint(put_varint(at, 1), first), count)
    cdef bytes prefix = ledger._prefix
    cdef Py_ssize_t size = PyBytes_GET_SIZE(prefix)
    cdef bytes key = PyBytes_FromStringAndSize(NULL, size + SLOT_BYTES)
    cdef uint8_t* slot = <uint8_t*> PyBytes_AS_STRING(key) + size
    memcpy(PyBytes_AS_STRING(key), PyBytes_AS_STRING(prefix), size)
    slot[0] = <uint8_t> ((seq & SLOT_MASK) >> 24)
    slot[1] = <uint8_t> ((seq & SLOT_MASK) >> 16)
    slot[2] = <uint8_t> ((seq & SLOT_MASK) >> 8)
    slot[3] = <uint8_t> seq
    ledger._records.append((key, PyBytes_FromStringAndSize(<char*> value, at - value)))
    ledger._bytes += size + SLOT_BYTES + (at - value) + OVERHEAD_BYTES
    ledger._tally.count += 1


cdef bytes _acquire(
    chunk, int64_t place, int64_t taken, int64_t nonce, int64_t tick, int64_t member
):
    """Change the cells, as `Share._acquired` does; return the counts of deliveries."""
    cdef uint8_t* counts = <uint8_t*> PyByteArray_AS_STRING(chunk.counts)
    cdef array nonces = chunk.nonces, dues = chunk.dues, members = chunk.members
    cdef int64_t at
    memset(PyByteArray_AS_STRING(chunk.states) + place, ACQUIRED, taken)
    for at in range(place, place + taken):
        counts[at] += counts[at] < COUNT_MAX
        nonces.data.as_uints[at] = <unsigned int> nonce
        dues.data.as_uints[at] = <unsigned int> tick
        members.data.as_ushorts[at] = <unsigned short> member
    return PyBytes_FromStringAndSize(<char*> counts + place, taken)


cdef void _time(share, due, int64_t first, int64_t count) except *:
    """Have the records looked at in time, as `Timers.add` does."""
    timers = share.timers
    cdef dict buckets = timers._buckets
    bucket = buckets.get(due)
    if bucket is None:
        timers.add(due, first, count)
    else:
        timers.offsets += count
        timers.count += 1
        bucket.append(first << COUNT_BITS | count)
    if <int64_t> timers.offsets > <int64_t> timers._limit:
        share._thin_timers()
