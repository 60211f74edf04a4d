"""Types of the compiled twin; see `picked.py` for the meaning."""

from penstock.record.picked import Picked

def pick_records(
    block: memoryview, names: tuple[bytes, ...], at: int, previous: int, records_max: int
) -> tuple[list[Picked], int]: ...
