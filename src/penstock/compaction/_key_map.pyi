"""Types of the compiled twin; see `key_map.py` for the meaning."""

from collections.abc import Sequence

from penstock.compaction.sifted import Sifted, Span
from penstock.record.batch import BatchHeader

class CompiledKeyMap:
    count: int
    limit: int
    table: memoryview

    def __init__(self, slots: int, salt: bytes) -> None: ...
    def put_block(self, header: BatchHeader, block: memoryview) -> bool: ...
    def sift(self, header: BatchHeader, block: memoryview, *, keeps_tombstones: bool) -> Sifted: ...

def gather(block: memoryview, spans: Sequence[Span], earlier_ms: int) -> bytearray: ...
