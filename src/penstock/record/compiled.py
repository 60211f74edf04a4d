"""What every produced batch goes through: compiled if built, else in Python.

Source: ours, ADR 0021.
"""

from collections.abc import Callable
from typing import TypeAlias

from penstock.record.batch import BatchHeader

CheckPlain: TypeAlias = Callable[[memoryview, int, int, int], BatchHeader | None]
CHECK_PLAIN: CheckPlain | None
"""Step by step is as fast as `plain.check_plain` in Python: without a compiler there is none."""
try:
    from penstock.record._batch import check_batch
    from penstock.record._plain import check_plain as _check_plain
except ImportError:  # no C compiler at installation
    from penstock.record.batch import check_batch

    CHECK_PLAIN = None
else:
    CHECK_PLAIN = _check_plain

__all__ = ["CHECK_PLAIN", "check_batch"]
