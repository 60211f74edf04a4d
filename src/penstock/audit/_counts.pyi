"""Types of the compiled twins; see `counts.py` for the meaning."""

from typing import Any

from penstock.audit.counts import Counts as Counts
from penstock.audit.counts import Missing

def count_batches(
    rows: dict[bytes, dict[int, Counts]],
    memory: memoryview,
    parts: list[Any],
    answers: list[Any],
    missing: Missing,
) -> None: ...
