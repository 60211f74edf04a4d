from penstock.record.batch import BatchHeader

def check_plain(
    batch: memoryview, now_ms: int, before_ms: int, after_ms: int
) -> BatchHeader | None: ...
