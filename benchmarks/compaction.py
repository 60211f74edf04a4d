"""What does cleaning a compacted partition cost?

A partition in memory, in batches of 16 records with keys of 16 bytes and values of 1 KiB, is
cleaned by both passes. Of `all` no record is lost, so that batches stay as they are; of `half`
every second one in each batch, so that all are built anew. Half of the bytes are dirty in the
first case, all in the second. MB are
those of the partition, each counted once, and seconds are CPU time of the one thread that works.
Then the key map alone: keys of 16 bytes and no value, from an empty map to a full one of 128 MiB,
and looking them up in it. No disk: extents are read and written elsewhere.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from benchmarks import RESULTS
from harness.results import publish
from penstock.compaction.clean import CleaningPass, CleaningRules
from penstock.compaction.fill import Dirty, fill_key_map
from penstock.compaction.key_map import KeyMap, PythonKeyMap, new_key_map, slots_for, slots_in
from penstock.compaction.transactions import PassTransactions
from penstock.extents.layout import Aborted
from penstock.record.batch import BatchHeader, read_header
from penstock.record.build import Record, build_batch
from penstock.record.compression import CODEC_NAMES, NONE, ZSTD

GOAL = "100 MB/s of cleaning on one core at values of 1 KiB, 5 million keys in 128 MiB"
VALUE_BYTES = 1024
RECORDS_IN_BATCH = 16
MAP_BYTES = 128 << 20
KEYS_IN_BATCH = 2000
_NOW = 1_000_000
_Make = Callable[[int, bytes], KeyMap]


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    records = 1 << (14 if quick else 17)
    rows = [
        _cleaning(codec, left, records, make)
        for codec in (NONE, ZSTD)
        for left in ("all", "half")
        for make in _makers()
    ]
    rows += [_map_alone(make, MAP_BYTES // (64 if quick else 1)) for make in _makers()]
    publish(RESULTS, "compaction", rows, goal=GOAL)


def _makers() -> list[_Make]:
    return list(dict.fromkeys([new_key_map, PythonKeyMap]))


def _twin(make: _Make) -> str:
    return "Python" if make is PythonKeyMap else "compiled"


def _value() -> bytes:
    """Half of it compresses."""
    return os.urandom(VALUE_BYTES // 2) + b"abcdefgh" * (VALUE_BYTES // 16)


def _partition(codec: int, left: str, count: int) -> list[memoryview]:
    """Return batches in which each key comes once, or twice at two places that lie apart."""
    made = []
    for first in range(0, count, RECORDS_IN_BATCH):
        numbers = range(first, first + RECORDS_IN_BATCH)
        keys = numbers if left == "all" else [_key_of(number, count) for number in numbers]
        records = [Record(b"%016d" % key, _value(), (), _NOW) for key in keys]
        made.append(memoryview(build_batch(records, codec=codec, base_offset=first)))
    return made


def _key_of(number: int, count: int) -> int:
    """Return a key that comes at an even place and again at the odd one 1,001 places later."""
    return number if number % 2 == 0 else (number - 1001) % count


def _cleaning(codec: int, left: str, count: int, make: _Make) -> dict[str, object]:
    batches = _partition(codec, left, count)
    size = sum(len(batch) for batch in batches)
    dirty_from = count // 2 if left == "all" else 0
    slots = slots_for(count - dirty_from, MAP_BYTES)
    key_map, transactions = make(slots, os.urandom(16)), PassTransactions(Aborted())
    begun = time.process_time()
    end = fill_key_map(key_map, _with_headers(batches), Dirty(dirty_from, count), transactions)
    filled = time.process_time()
    rules = CleaningRules(end_offset=end, now_ms=_NOW, delete_retention_ms=1)
    one = CleaningPass(key_map, rules, transactions)
    for _ in one.clean(_with_headers(batches)):
        pass
    ended = time.process_time()
    return {
        "what": f"{CODEC_NAMES[codec]}, {left} stay",
        "twin": _twin(make),
        "MB": round(size / 1e6),
        "kept %": round(100 * one.report.kept_bytes / size),
        "pass 1 s": round(filled - begun, 3),
        "pass 2 s": round(ended - filled, 3),
        "MB/s": round(size / 1e6 / (ended - begun)),
        "keys": key_map.count,
        "million keys/s in": "",
        "million keys/s out": "",
    }


def _with_headers(batches: Iterable[memoryview]) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Read the headers as a file is read: within the time that is measured."""
    return ((read_header(batch), batch) for batch in batches)


def _map_alone(make: _Make, memory_bytes: int) -> dict[str, object]:
    if make is PythonKeyMap:
        memory_bytes //= 32
    key_map = make(slots_in(memory_bytes), os.urandom(16))
    batches = _keys_only(key_map.limit // KEYS_IN_BATCH)
    begun = time.process_time()
    for header, block in batches:
        assert key_map.put_block(header, block)
    filled = time.process_time()
    for header, block in batches:
        key_map.sift(header, block, keeps_tombstones=True)
    ended = time.process_time()
    return {
        "what": f"map of {memory_bytes >> 20} MiB",
        "twin": _twin(make),
        "MB": "",
        "kept %": "",
        "pass 1 s": round(filled - begun, 3),
        "pass 2 s": round(ended - filled, 3),
        "MB/s": "",
        "keys": key_map.count,
        "million keys/s in": round(key_map.count / 1e6 / (filled - begun), 2),
        "million keys/s out": round(key_map.count / 1e6 / (ended - filled), 2),
    }


def _keys_only(count: int) -> Sequence[tuple]:
    found = []
    for first in range(0, count * KEYS_IN_BATCH, KEYS_IN_BATCH):
        numbers = range(first, first + KEYS_IN_BATCH)
        records = [Record(b"%016d" % number, b"") for number in numbers]
        batch = memoryview(build_batch(records, base_offset=first))
        found.append((read_header(batch), batch[61:]))
    return found
