"""Types of the compiled twin; see `walk.py` for the meaning."""

def find_fault(
    block: memoryview, record_count: int, base_timestamp: int, needs_keys: bool = False
) -> tuple[int, int, int, int, int, tuple[int, ...]]: ...
