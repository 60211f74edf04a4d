"""Planted bugs of transactions in the log (ADR 0088)."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

MODEL = (
    "tests/storage/test_aborted_search.py",
    "tests/storage/test_transaction_model.py",
    "tests/storage/test_transactional_truncation.py",
)
FORMATS = ("tests/storage/test_formats.py",)
PRODUCERS = ("tests/storage/test_producers.py", "tests/storage/test_transactional_producers.py")
INDEX = "storage/index/partition_log.py"
OPEN = "storage/index/transactions.py"
WINDOW = "storage/index/producers.py"
AREA = "Transactions in the log"

MUTANTS = (
    plant("stable-once-the-marker-is-appended", AREA, "the last stable offset passes a marker that may still be truncated",
          (OPEN, "            self._put(_Unconfirmed(begun, producer_id, marker_end))\n", "            pass\n"),
          kind=Kind.CLEARED, near=MODEL),
    plant("newest-marker-hides-the-oldest", AREA, "of two markers that are not confirmed the earlier transaction is forgotten",
          (OPEN, "newest[-1].begun.offset >= ended.begun.offset", "newest[-1].begun.offset <= ended.begun.offset"),
          kind=Kind.GUARD, near=MODEL),
    plant("second-batch-begins-again", AREA, "an open transaction begins at its newest batch",
          (OPEN, "        if producer_id in self.open:\n            return False\n", ""),
          kind=Kind.GUARD, near=MODEL),
    plant("open-transactions-lost-at-restart", AREA, "a restart takes what is open for committed",
          ("storage/recover/recovery.py", "        self._states.transactions.restore(snapshot.transactions)\n", ""),
          kind=Kind.SNAPSHOT, near=MODEL),
    plant("unconfirmed-markers-not-in-snapshots", AREA, "a marker that is not confirmed counts after a restart",
          (OPEN, "        for ended in self._unconfirmed:\n            yield Undecided(serial, ended.producer_id, *ended.begun, ended.marker_end)\n", ""),
          kind=Kind.SNAPSHOT, near=MODEL),
    plant("cut-marker-stays", AREA, "a transaction whose marker was cut off, below every snapshot, stays decided",
          ("storage/commit_log/truncation.py", "one._replace(marker_end=OPEN) if one.marker_end > position else one", "one"),
          kind=Kind.STALE, near=MODEL),
    plant("older-transactions-not-added", AREA, "a log that is read from its segments forgets what began before them",
          ("storage/commit_log/truncation.py", "    states.transactions.add_older(\n", "    list(\n"),
          kind=Kind.SNAPSHOT, near=MODEL),
    plant("aborted-lost-with-the-side-file", AREA, "a restart forgets what was aborted in the active segment",
          ("storage/recover/active_columns.py", "            partition.aborted.extend(sealed.aborted)", "            pass"),
          kind=Kind.SNAPSHOT, near=MODEL),
    plant("aborted-twice-in-side-files", AREA, "each checkpoint writes what was aborted before it once more",
          ("storage/commit_log/checkpoint.py", "        partition.aborted_side_count += len(aborted.last_offsets)\n", ""),
          kind=Kind.STALE, near=MODEL),
    plant("aborted-not-in-a-new-side-file", AREA, "a new side file lacks what was aborted before",
          ("storage/commit_log/checkpoint.py", "partition.side_count = partition.aborted_side_count = 0", "partition.side_count = 0"),
          kind=Kind.STALE, near=MODEL),
    plant("search-ends-with-the-first-segment", AREA, "what is aborted in a later segment is delivered",
          ("storage/read/aborted_search.py", "    return not more.may_go_on or tells_all(", "    return True or tells_all("),
          kind=Kind.GUARD, near=("tests/broker/test_committed_reads.py", *MODEL)),
    plant("search-ends-too-early-in-a-segment", AREA, "an aborted transaction whose marker is the last that matters is delivered",
          ("storage/index/aborted.py", "min(decided + 1, count)", "min(decided, count)"),
          kind=Kind.RANGE, near=MODEL),
    plant("end-of-a-segment-is-stable", AREA, "a closed segment claims that its open transactions were decided",
          (INDEX, "return end if transactions is None else transactions.first_open(end)", "return end"),
          kind=Kind.GUARD, near=MODEL),
    plant("rebuilt-index-claims-to-be-decided", AREA, "an index that is made anew ends the search for what was aborted",
          ("storage/index/rebuild.py", "            return UNKNOWN\n", "            return self._end\n"),
          kind=Kind.GUARD, near=MODEL),
    plant("rebuilt-index-without-aborted", AREA, "an index that is made anew has nothing aborted",
          ("storage/index/rebuild.py", "            self._aborted.add(batch.producer_id, marker.first_offset, offset, stable)", "            pass"),
          kind=Kind.SNAPSHOT, near=MODEL),
    plant("copied-index-is-never-decided", AREA, "the index of a copied segment does not go by what segments before it have left open",
          ("storage/replicate/install.py", "end, going)", "end, {})"),
          kind=Kind.STALE, near=("tests/storage/test_aborted_search.py",)),
    plant("committed-is-listed-as-aborted", AREA, "committed records are left out by consumers",
          (INDEX, "        if not marker.is_commit:\n", "        if marker.first_offset >= 0:\n"),
          kind=Kind.GUARD, near=MODEL),
    plant("disk-search-without-the-newer", AREA, "what was aborted in the active segment is delivered to who reads old ones",
          ("storage/read/aborted_search.py", "for aborted, count in () if is_decided else counted:", "for aborted, count in ():"),
          kind=Kind.GUARD, near=MODEL),
    plant("marker-keeps-the-batches-of-the-old-epoch", AREA, "a bumped epoch does not begin with sequence 0",
          (WINDOW, "window = state[2] if state is not None and is_same else ()\n        states.put", "window = state[2] if state is not None else ()\n        states.put"),
          kind=Kind.STALE, near=PRODUCERS),
    plant("open-producers-are-evicted", AREA, "a full table forgets a producer in the midst of its transaction",
          (WINDOW, "            if is_open(*key):\n", "            if False:\n"),
          kind=Kind.GUARD, near=PRODUCERS),
    plant("coordinator-epoch-lost-by-the-next-batch", AREA, "a coordinator of old can end a transaction",
          (WINDOW, "NO_COORDINATOR if state is None else state[3]", "NO_COORDINATOR"),
          kind=Kind.CLEARED, near=PRODUCERS),
    plant("slaves-take-markers-unread", AREA, "a slave writes a marker that can not be read",
          ("frames/run_check.py", "            _check_marker(position, view[payload:end])\n", "            pass\n"),
          kind=Kind.GUARD, near=("tests/storage/test_transactional_runs.py",)),
)  # fmt: skip
