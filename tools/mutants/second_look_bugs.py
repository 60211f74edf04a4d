"""Planted bugs of an outsider's second look, which no test of their room noticed at first."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

CONTENTS = ("tests/storage/test_run_contents.py",)
SNAPSHOTS = ("tests/storage/test_memory_and_snapshot.py",)

STORAGE = (
    plant("runs-first-offset-below-zero", "Following", "a slave takes a partition that begins below offset 0",
          ("storage/replicate/run_check.py", "if base_offset < 0 or (expected >= 0 and base_offset != expected):", "if base_offset != expected and (expected >= 0 or base_offset < 0):"),
          kind=Kind.RANGE, near=CONTENTS),
    plant("runs-batch-ends-before-it-begins", "Following", "a slave takes a batch after which its partition ends earlier than before",
          ("storage/replicate/run_check.py", "batch_epoch != epoch or delta < 0 or magic", "batch_epoch != epoch or magic"),
          kind=Kind.RANGE, near=CONTENTS),
    plant("runs-go-on-behind-the-end-marker", "Following", "a slave writes frames where nobody reads them, behind the end of a segment",
          ("storage/replicate/run_check.py", "size - at < FRAME_HEADER_BYTES or self._is_ended:", "size - at < FRAME_HEADER_BYTES:"),
          kind=Kind.GUARD, near=CONTENTS),
    plant("recovery-forgets-the-newest-time", "Recovery", "snapshots after a start do not say how new a partition's newest record is",
          ("storage/recover/recovery.py", "            partition.max_timestamp = state.max_timestamp\n", ""),
          kind=Kind.SNAPSHOT, near=SNAPSHOTS),
    plant("recovery-counts-off-twice", "Recovery", "after a start what was taken off a partition's size is taken off again",
          ("storage/recover/recovery.py", "            partition.sized_from = state.sized_from\n", ""),
          kind=Kind.SNAPSHOT, near=SNAPSHOTS),
    plant("recovery-log-start-behind-the-end", "Recovery", "a replayed log start lies behind the partition's end",
          ("storage/recover/recovery.py", "                offset = min(offset, partition.log_end_offset)\n", ""),
          kind=Kind.SNAPSHOT, near=SNAPSHOTS),
    plant("recovery-claim-over-a-windows-edge", "Recovery", "durable records behind damage are cut off where the proof lies over the edge of what is read at a time",
          ("storage/recover/scan.py", "position += len(data) - FRAME_HEADER_BYTES", "position += len(data)"),
          kind=Kind.RANGE, near=("tests/storage/test_proofs_of_damage.py",)),
)  # fmt: skip

MUTANTS = (*STORAGE,)
