"""Types of the compiled twin; see `build.encode_records` for the meaning."""

from collections.abc import Sequence

from penstock.record.build import Record

def encode_records(records: Sequence[Record], base_timestamp: int) -> bytearray: ...
