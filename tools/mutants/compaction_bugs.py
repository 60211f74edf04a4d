"""Bugs of the cleaner: keys, tombstones, markers, producers, bounds, and which partition is next."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Compaction"
MAP = "compaction/key_map.py"
FILL = "compaction/fill.py"
CLEAN = "compaction/clean.py"
REWRITE = "compaction/rewrite.py"
ENDS = "compaction/transactions.py"
CHOOSE = "compaction/choose.py"
KEYS = ("tests/compaction/test_key_map.py",)
PASSES = ("tests/compaction/test_cleaning.py", "tests/compaction/test_cleaning_model.py")
NEXT = ("tests/compaction/test_choose.py",)

MUTANTS = (
    plant("key-map-one-slot-too-many", AREA, "a full map has no free slot, and the search for a new key never ends",
          (MAP, "    return slots * _FILLED_NUMERATOR // _FILLED_DENOMINATOR\n", "    return slots * _FILLED_NUMERATOR // _FILLED_DENOMINATOR + 1\n"),
          kind=Kind.RANGE, near=KEYS),
    plant("key-map-forgets-the-salt", AREA, "who writes keys can choose two with one hash",
          (MAP, "digest_size=HASH_BYTES, salt=self._salt)", "digest_size=HASH_BYTES)"),
          kind=Kind.GUARD, near=KEYS),
    plant("sift-drops-the-newest", AREA, "the last value of a key goes with the older ones",
          (MAP, "            if header.base_offset + raw.offset_delta < self._newest(block[slice(*raw.key)]):\n", "            if header.base_offset + raw.offset_delta <= self._newest(block[slice(*raw.key)]):\n"),
          kind=Kind.RANGE, near=KEYS),
    plant("gather-keeps-the-length", AREA, "a record whose delta takes more bytes keeps its old length",
          (MAP, "    write_varint(out, len(moved) + end - rest)\n", "    write_varint(out, length)\n"),
          kind=Kind.STALE, near=KEYS),
    plant("fill-takes-aborted-records", AREA, "an aborted record hides the last committed value of its key",
          (FILL, "        if transactions.is_aborted(header):\n            return True\n", ""),
          kind=Kind.GUARD, near=PASSES),
    plant("fill-reaches-over-the-bound", AREA, "a batch with a record at the bound is cleaned",
          (FILL, "header.last_offset >= dirty.bound_offset", "header.last_offset > dirty.bound_offset"),
          kind=Kind.RANGE, near=PASSES),
    plant("fill-ends-behind-a-batch-that-did-not-fit", AREA, "a pass cleans a batch whose keys are not all in the map",
          (FILL, "                raise KeyMapTooSmall(header.base_offset, key_map.limit)\n            break\n", "                raise KeyMapTooSmall(header.base_offset, key_map.limit)\n            return header.last_offset + 1\n"),
          kind=Kind.RANGE, near=PASSES),
    plant("clean-drops-tombstones-at-once", AREA, "a reader that began before never hears of a delete",
          (CLEAN, "        keeps_tombstones = horizon is None or self._rules.now_ms < horizon\n", "        keeps_tombstones = False\n"),
          kind=Kind.CLEARED, near=PASSES),
    plant("clean-tombstones-without-horizon", AREA, "deletes stay for ever",
          (CLEAN, "            new_horizon = self._horizon(horizon)\n", "            new_horizon = None\n"),
          kind=Kind.CLEARED, near=PASSES),
    plant("clean-horizon-starts-anew", AREA, "each pass puts a delete off, so that it stays for ever in a busy partition",
          (CLEAN, "        return new if present_ms is None else None\n", "        return new\n"),
          kind=Kind.STALE, near=PASSES),
    plant("rewrite-keeps-the-deltas", AREA, "with a horizon all times of a batch move by years",
          (REWRITE, "_as_int64(header.base_timestamp - base)", "0"),
          kind=Kind.STALE, near=PASSES),
    plant("rewrite-newest-time-of-what-went", AREA, "the largest time of a batch is that of a record that is gone",
          (REWRITE, "max_timestamp=header.max_timestamp if header.is_log_append_time else newest,", "max_timestamp=header.max_timestamp,"),
          kind=Kind.STALE, near=PASSES),
    plant("rewrite-counts-offsets-from-what-is-left", AREA, "a batch that loses its last records ends too early, and a producer's last sequence is lost",
          (REWRITE, "        last_offset_delta=header.last_offset_delta,\n        base_timestamp=base,", "        last_offset_delta=sifted.kept - 1,\n        base_timestamp=base,"),
          kind=Kind.RANGE, near=PASSES),
    plant("rewrite-of-no-epoch", AREA, "a batch that loses records loses its leader epoch",
          (REWRITE, "    return assemble(fields, left, leader_epoch=header.leader_epoch)\n", "    return assemble(fields, left)\n"),
          kind=Kind.EPOCH, near=PASSES),
    plant("clean-forgets-its-last-offset", AREA, "the last offset of a pass is lost with the batch that had it",
          (CLEAN, "        if header.last_offset + 1 == self._rules.end_offset:\n            return True\n", ""),
          kind=Kind.GUARD, near=PASSES),
    plant("clean-forgets-live-producers", AREA, "after a rebuild a producer's retry is written a second time",
          (CLEAN, "        return not header.is_control and header.last_offset == live.last_offset\n", "        return False\n"),
          kind=Kind.GUARD, near=PASSES),
    plant("clean-marker-goes-before-its-batches", AREA, "a transaction whose marker is gone stays open for ever",
          (CLEAN, "        if self._transactions.end(header):\n            return batch\n", "        self._transactions.end(header)\n"),
          kind=Kind.ORDER, near=PASSES),
    plant("clean-empty-batches-hold-no-marker", AREA, "an empty batch opens a transaction that no marker ends",
          (CLEAN, "            left = emptied(header) if header.record_count else batch\n", "            return emptied(header) if header.record_count else batch\n"),
          kind=Kind.GUARD, near=PASSES),
    plant("markers-count-for-the-next-transaction", AREA, "a producer's later markers never go",
          (ENDS, "        self._with_batches.discard(header.producer_id)\n", ""),
          kind=Kind.CLEARED, near=PASSES),
    plant("aborted-beyond-its-marker", AREA, "a producer's records after an abort count as aborted",
          (ENDS, "        return at >= 0 and header.base_offset < markers[at]\n", "        return at >= 0\n"),
          kind=Kind.RANGE, near=PASSES),
    plant("unlisted-abort-counts-as-committed", AREA, "records of an abort that the notes lost become visible",
          (ENDS, "            raise UnlistedAbort(header.base_offset, header.producer_id)\n", "            return\n"),
          kind=Kind.GUARD, near=PASSES),
    plant("note-outlives-its-marker", AREA, "readers drop a producer's committed records, as no marker ends the aborted ones",
          (CLEAN, "        self._dropped_markers.add(header.base_offset)\n", ""),
          kind=Kind.CLEARED, near=PASSES),
    plant("choose-the-cleanest", AREA, "the dirtiest partition is cleaned last",
          (CHOOSE, "    return max(due, key=_by_dirt, default=None)\n", "    return min(due, key=_by_dirt, default=None)\n"),
          kind=Kind.ORDER, near=NEXT),
    plant("choose-waits-for-new-dirt", AREA, "deletes never go from a quiet partition",
          (CHOOSE, "        if 0 <= self.newest_horizon_ms <= now_ms:\n            return True\n", ""),
          kind=Kind.GUARD, near=NEXT),
    plant("choose-one-bad-partition-for-ever", AREA, "a partition whose pass fails is tried again and again, and no other is",
          (CHOOSE, "        return failure is not None and now_ms < failure.until_ms\n", "        return False\n"),
          kind=Kind.GUARD, near=NEXT),
)  # fmt: skip
