"""Planted bugs of batches that are kept for whoever reads on."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Batches read in parts"
OPENED = ("tests/record/test_opened.py",)
SERVED = ("tests/remoting/test_kept_batches.py",)

MUTANTS = (
    plant(
        "kept-batch-by-its-offset",
        AREA,
        "after a truncation, or compaction, a reader gets records that are gone",
        (
            "record/opened.py",
            "        key = where, bytes(batch[:BATCH_HEADER_BYTES])\n",
            "        key = where, bytes(batch[:8])\n",
        ),
        kind=Kind.STALE,
        near=OPENED,
    ),
    plant(
        "kept-batch-without-its-epoch",
        AREA,
        "what another master wrote at the same place counts as the same batch",
        (
            "record/opened.py",
            "        key = where, bytes(batch[:BATCH_HEADER_BYTES])\n",
            "        key = where, bytes(batch[:12]) + bytes(batch[16:BATCH_HEADER_BYTES])\n",
        ),
        kind=Kind.EPOCH,
        near=OPENED,
    ),
    plant(
        "kept-batch-of-any-partition",
        AREA,
        "readers of two partitions take each other's batch away",
        (
            "record/opened.py",
            "        key = where, bytes(",
            "        key = (where[0], 0), bytes(",
        ),
        kind=Kind.STALE,
        near=OPENED,
    ),
    plant(
        "kept-batch-in-lent-memory",
        AREA,
        "what is kept changes as its buffer is used for another read",
        (
            "record/opened.py",
            "        if self._is_lent:\n",
            "        if not self._is_lent:\n",
        ),
        kind=Kind.CLEARED,
        near=OPENED,
    ),
    plant(
        "kept-batch-that-is-larger-than-all",
        AREA,
        "one large batch takes the place of all others",
        ("record/opened.py", "        if size > self.bytes_max:\n            return\n", ""),
        kind=Kind.RANGE,
        near=OPENED,
    ),
    plant(
        "kept-batch-newest-first",
        AREA,
        "where memory is short the batch goes that was read just now",
        (
            "record/opened.py",
            "            self._take(next(iter(self._kept)))\n",
            "            self._take(next(reversed(self._kept)))\n",
        ),
        kind=Kind.ORDER,
        near=OPENED,
    ),
    plant(
        "kept-batch-counted-twice",
        AREA,
        "two readers of a batch at once leave bytes that are never given back",
        (
            "record/opened.py",
            "        self._take(key)  # another reader's, which has been here meanwhile\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=OPENED,
    ),
    plant(
        "kept-batch-for-ever",
        AREA,
        "memory of readers that do not come back is never given back",
        (
            "remoting/pop/desk.py",
            "        self.kept.expire()\n",
            "        self.kept.expire\n",
        ),
        kind=Kind.CLEARED,
        near=SERVED,
    ),
    plant(
        "kept-batch-counts-what-was-sent",
        AREA,
        "a small batch that unpacks to much takes memory that nobody counts",
        (
            "record/opened.py",
            "        held = memoryview(self._block.obj).nbytes  # a decompressed block may have room behind it\n",
            "        held = self._header.size_bytes\n",
        ),
        kind=Kind.RANGE,
        near=OPENED,
    ),
    plant(
        "kept-batch-one-record-early",
        AREA,
        "a reader that goes on gets the last record again",
        (
            "record/opened.py",
            "            if raw.offset_delta >= wanted:\n",
            "            if raw.offset_delta >= wanted - 1:\n",
        ),
        kind=Kind.RANGE,
        near=OPENED,
    ),
    plant(
        "kept-batch-by-index",
        AREA,
        "behind gaps that compaction left a reader skips records",
        (
            "record/opened.py",
            "        index = bisect_left(deltas, wanted) if wanted > 0 else 0\n",
            "        index = min(max(wanted, 0), len(deltas))\n",
        ),
        kind=Kind.RANGE,
        near=OPENED,
    ),
    plant(
        "kept-batch-with-a-rest",
        AREA,
        "bytes behind the last record of a batch are not noticed",
        (
            "record/opened.py",
            "        if self._end != len(self._block):\n",
            "        if self._end > len(self._block):\n",
        ),
        kind=Kind.GUARD,
        near=OPENED,
    ),
    plant(
        "kept-batch-not-counted-in-the-budget",
        AREA,
        "clients pin memory beside the bound of the node",
        (
            "node/clients/listener.py",
            "        return front.pinned_bytes + sum(others) + kept\n",
            "        return front.pinned_bytes + sum(others)\n",
        ),
        kind=Kind.RANGE,
        near=SERVED,
    ),
)
