"""The arithmetic: every record followed by its number, from the ledger to the table.

A count that fits proves little: one record lost and one doubled would fit as well. So the table's
rows are compared with the ledger one by one: by `id`, and by the (partition, offset) that the
acknowledgement named. In each partition, in order of offsets, `seq` must count 0, 1, 2, ...
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from demo.stream import Ledger

Rows = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was counted; all but `landed` must be 0."""

    landed: int
    missing: int
    """Acknowledged, not in the table."""
    double: int
    """Rows above one for the same record."""
    order_errors: int
    """Rows whose `seq` is not the one that follows, in order of offsets."""
    misplaced: int
    """Rows at another partition or offset than the acknowledgement said."""
    unknown: int
    """Rows that were never acknowledged or never sent."""

    @property
    def is_clean(self) -> bool:
        """Say whether everything adds up."""
        return not (
            self.missing or self.double or self.order_errors or self.misplaced or self.unknown
        )


def read_rows(table: Path) -> Rows:
    """Read the columns the check goes by, in the order partition, offset."""
    columns = ["id", "seq", "_partition", "_offset"]
    found: pa.Table = DeltaTable(str(table)).to_pyarrow_table(columns=columns)
    rows = {name: found.column(name).to_numpy() for name in columns}
    order = np.lexsort((rows["_offset"], rows["_partition"]))
    return {name: values[order] for name, values in rows.items()}


def judge(rows: Rows, ledger: Ledger) -> Verdict:
    """Compare the rows of the table with the acknowledgements."""
    acked_partition = np.frombuffer(ledger.partition_of, dtype=np.int32)
    acked_offset = np.frombuffer(ledger.offset_of, dtype=np.int64)
    is_acked = acked_offset >= 0
    ids = rows["id"]
    is_known = (ids >= 0) & (ids < len(is_acked))
    known = ids[is_known]
    copies = np.bincount(known, minlength=len(is_acked))
    is_elsewhere = (acked_partition[known] != rows["_partition"][is_known]) | (
        acked_offset[known] != rows["_offset"][is_known]
    )
    return Verdict(
        landed=len(ids),
        missing=int(np.count_nonzero(is_acked & (copies == 0))),
        double=int(np.sum(np.maximum(copies - 1, 0))),
        order_errors=_order_errors(rows),
        misplaced=int(np.count_nonzero(is_elsewhere & is_acked[known])),
        unknown=int(np.count_nonzero(~is_known) + np.count_nonzero(~is_acked[known])),
    )


def _order_errors(rows: Rows) -> int:
    partition, seq = rows["_partition"], rows["seq"]
    if not len(seq):
        return 0
    is_first = np.concatenate(([True], partition[1:] != partition[:-1]))
    expected = np.where(is_first, 0, np.concatenate(([0], seq[:-1] + 1)))
    return int(np.count_nonzero(seq != expected))
