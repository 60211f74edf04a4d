"""Types of the compiled twins; see `scan.py` for the meaning."""

def find_record(
    block: memoryview, record_count: int, first_offset_delta: int, timestamp_delta: int
) -> tuple[int, int] | None: ...
def cut_records(
    block: memoryview,
    record_count: int,
    last_delta: int,
    first_delta: int,
    bytes_max: int,
    records_max: int,
) -> tuple[int, int, int, int, int]: ...
