from penstock.record.batch import BatchHeader
from penstock.record.read import DecodedRecord

def record_at(
    kind: type[DecodedRecord], block: memoryview, begin: int, header: BatchHeader, previous: int
) -> tuple[DecodedRecord, int, int] | None: ...
