# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of `picked.py`: keys and a few headers of records, all else stepped over.

Source: as in `picked.py`. It deliberately knows neither batch headers nor compression.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

from penstock.record._rows cimport Row, read_part, read_row, read_varint

from penstock.record.errors import CorruptBatch


def pick_records(
    const uint8_t[::1] block, tuple names, Py_ssize_t at, int64_t previous, int64_t records_max
):
    """Return a tuple for each record, and where they end; see `picked.pick_records`."""
    cdef Py_ssize_t size = block.shape[0]
    cdef const uint8_t* data = &block[0] if size else NULL
    cdef Py_ssize_t wanted = len(names)
    cdef Py_ssize_t here, name_at, value_at, n
    cdef int64_t count, name_length, value_length
    cdef Row row
    cdef bytes name
    cdef list found = []
    cdef list values
    while at < size and records_max > 0:
        records_max -= 1
        if not read_row(data, at, size, &row) or row.offset_delta <= previous:
            raise CorruptBatch(f"record at byte {at} of its block")
        here = read_varint(data, row.headers_at, row.end, &count)
        if here < 0 or count < 0 or count > (row.end - here) // 2:
            raise CorruptBatch(f"headers of the record at byte {at} of its block")
        values = [None] * wanted
        while count:
            count -= 1
            here = read_part(data, here, row.end, &name_at, &name_length)
            if here < 0 or name_length < 0:
                raise CorruptBatch(f"headers of the record at byte {at} of its block")
            here = read_part(data, here, row.end, &value_at, &value_length)
            if here < 0:
                raise CorruptBatch(f"headers of the record at byte {at} of its block")
            if value_length <= 0:
                continue
            for n in range(wanted):
                name = <bytes> names[n]
                if (
                    PyBytes_GET_SIZE(name) == name_length
                    and memcmp(PyBytes_AS_STRING(name), data + name_at, name_length) == 0
                ):
                    if values[n] is None:
                        values[n] = <bytes> data[value_at : value_at + value_length]
                    break
        if here != row.end:
            raise CorruptBatch(f"headers of the record at byte {at} of its block")
        key = None
        if row.key_length >= 0:
            key = <bytes> data[row.key_at : row.key_at + row.key_length]
        found.append((row.offset_delta, row.timestamp_delta, key, *values))
        previous, at = row.offset_delta, row.end
    return found, at
