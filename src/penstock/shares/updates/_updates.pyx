# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twins of `plain.py` and of `runs.runs_of`: the same bytes, the same cells.

Source: as there.
"""

from cpython.array cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t

from penstock.base._varint cimport put_varint

from penstock.shares.cells import ACQUIRED as _ACQUIRED, SHIFT as _SHIFT

cdef enum:
    VERSION = 1
    VARINT_BYTES_MAX = 10

cdef int SHIFT = _SHIFT
cdef int64_t MASK = (1 << SHIFT) - 1
cdef uint8_t ACQUIRED = _ACQUIRED


def with_runs(uint64_t seq, int kind, tuple numbers, runs):
    """As in `plain.py`."""
    cdef Py_ssize_t most = 2 + VARINT_BYTES_MAX * (2 + len(numbers) + 2 * len(runs))
    cdef bytes out = PyBytes_FromStringAndSize(NULL, most)
    cdef uint8_t* begin = <uint8_t*> PyBytes_AS_STRING(out)
    cdef uint8_t* at = begin
    cdef int64_t before = 0, first, end
    at[0] = VERSION
    at = put_varint(at + 1, seq)
    at[0] = <uint8_t> kind
    at += 1
    for number in numbers:
        at = put_varint(at, <uint64_t> number)
    at = put_varint(at, len(runs))
    for first, end in runs:
        assert before <= first < end, (first, end)
        at = put_varint(at, <uint64_t> (first - before))
        at = put_varint(at, <uint64_t> (end - first))
        before = end
    return out[:at - begin]


def runs_of(list offsets):
    """As in `runs.py`."""
    cdef list found = []
    cdef int64_t first, last, offset
    if not offsets:
        return found
    first = last = offsets[0]
    for offset in offsets:
        if offset > last + 1:
            found.append((first, last + 1))
            first = offset
        last = offset
    found.append((first, last + 1))
    return found


def held_first(dict chunks, receipts):
    """As in `plain.py`."""
    cdef list found = []
    cdef int64_t offset, nonce
    cdef Py_ssize_t place
    cdef array nonces
    for receipt in receipts:
        offset, nonce = receipt
        chunk = chunks.get(offset >> SHIFT)
        if chunk is None:
            break
        place = offset & MASK
        if (<uint8_t*> PyByteArray_AS_STRING(chunk.states))[place] != ACQUIRED:
            break
        nonces = chunk.nonces
        if nonces.data.as_uints[place] != nonce:
            break
        found.append(receipt[0])
    return found


def settle_lone(dict chunks, list in_flight, runs, int state):
    """As in `plain.py`."""
    cdef list left = []
    cdef int64_t first, end
    cdef Py_ssize_t place, count = 0
    cdef uint8_t* states
    cdef array members
    for run in runs:
        first, end = run
        if end - first == 1:
            chunk = chunks[first >> SHIFT]
            place = first & MASK
            states = <uint8_t*> PyByteArray_AS_STRING(chunk.states)
            if states[place] == ACQUIRED:
                states[place] = <uint8_t> state
                members = chunk.members
                in_flight[members.data.as_ushorts[place]] -= 1
                count += 1
                continue
        left.append(run)
    return left, count
